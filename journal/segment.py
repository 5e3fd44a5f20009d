"""One segment file of the journal: a SQLite database that is appended to, then closed, then compressed."""

import fcntl
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import zstandard

from journal.record import Sealed

PAGE_BYTES = 32768
"""Large pages: bodies are up to megabytes (measured: 4 KiB pages write at half the rate)."""

CHECKPOINT_BYTES = 16 * 1024 * 1024
BUSY_SECONDS = 30.0
COLUMNS = "position, kind, received_ns, items, size, meta, body_digest, digest, codec, body"
SCHEMA = """
create table segment (
  number integer not null, first_position integer not null, previous_digest blob not null, created_ns integer not null,
  closed_ns integer, last_position integer, last_digest blob
) strict;
create table records (
  position integer primary key, kind text not null, received_ns integer not null, items integer not null,
  size integer not null, meta text not null, body_digest blob not null, digest blob not null, codec text not null,
  body blob not null
) strict;
"""
NAME = re.compile(r"segment-(\d{10})(\.zstd)?\.sqlite")


@dataclass(frozen=True, slots=True)
class Header:
    """Where a segment begins and, once closed, ends."""

    number: int
    first_position: int
    previous_digest: bytes
    created_ns: int
    closed_ns: int | None
    last_position: int | None
    last_digest: bytes | None


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment on disk."""

    number: int
    path: Path
    compressed: bool


def path_of(folder: Path, number: int, *, compressed: bool = False) -> Path:
    """The file of a segment."""
    return folder / f"segment-{number:010d}{'.zstd' if compressed else ''}.sqlite"


def listing(folder: Path) -> list[SegmentFile]:
    """The segments in order; where both forms of one exist, the compressed one, which is made whole by a rename."""
    found: dict[int, SegmentFile] = {}
    for path in folder.iterdir():
        if match := NAME.fullmatch(path.name):
            file = SegmentFile(int(match[1]), path, match[2] is not None)
            if file.compressed or file.number not in found:
                found[file.number] = file
    return [found[number] for number in sorted(found)]


def connect(file: SegmentFile, *, write: bool = False) -> sqlite3.Connection:
    """Open a segment. A compressed one never changes, so it needs no locks."""
    mode = "ro&immutable=1" if file.compressed else "rw"
    connection = sqlite3.connect(
        f"{file.path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    if write:
        connection.execute("pragma synchronous=full")
        connection.execute(f"pragma wal_autocheckpoint={CHECKPOINT_BYTES // PAGE_BYTES}")
    return connection


def create(
    folder: Path, number: int, first_position: int, previous_digest: bytes, now_ns: int, *, compressed: bool = False
) -> Path:
    """Make an empty segment; it appears under its name only when it is complete on disk."""
    path = path_of(folder, number)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.new")
    unfinished.unlink(missing_ok=True)
    with closing(sqlite3.connect(unfinished, isolation_level=None)) as connection:
        connection.execute(f"pragma page_size={PAGE_BYTES}")
        connection.execute("pragma synchronous=full")
        connection.executescript(SCHEMA)
        connection.execute(
            "insert into segment values (?, ?, ?, ?, null, null, null)",
            (number, first_position, previous_digest, now_ns),
        )
        if not compressed:
            connection.execute("pragma journal_mode=wal")
    if compressed:
        return unfinished
    publish(unfinished, path)
    return path


def publish(unfinished: Path, path: Path) -> None:
    """Give a finished file its name, durably."""
    descriptor = os.open(unfinished, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    unfinished.rename(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and unlinks in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def header(connection: sqlite3.Connection) -> Header:
    """The segment's only header row."""
    row = connection.execute("select * from segment").fetchone()
    if row is None:
        raise sqlite3.DatabaseError("the segment has no header")
    return Header(*row)


def tail(connection: sqlite3.Connection) -> tuple[int, bytes]:
    """The last position and digest; those before the segment when it is empty."""
    row = connection.execute("select position, digest from records order by position desc limit 1").fetchone()
    if row is not None:
        return row[0], row[1]
    head = header(connection)
    return head.first_position - 1, head.previous_digest


def rows(connection: sqlite3.Connection, after: int = 0, limit: int = -1) -> Iterator[Sealed]:
    """Records after a position, in order, as stored."""
    query = f"select {COLUMNS} from records where position > ? order by position limit ?"  # noqa: S608 (a constant)
    for row in connection.execute(query, (after, limit)):
        yield Sealed(*row)


def plain_body(sealed: Sealed) -> bytes:
    """The body as handed in; raises ValueError where it cannot be."""
    if sealed.codec == "none":
        return sealed.body
    try:
        return zstandard.ZstdDecompressor().decompress(sealed.body, max_output_size=sealed.size)
    except zstandard.ZstdError as problem:
        raise ValueError(str(problem)) from problem


def insert(connection: sqlite3.Connection, records: list[Sealed]) -> None:
    """Add records to a segment inside the caller's transaction."""
    connection.executemany(
        f"insert into records ({COLUMNS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",  # noqa: S608 (a constant)
        [
            (r.position, r.kind, r.received_ns, r.items, r.size, r.meta, r.body_digest, r.digest, r.codec, r.body)
            for r in records
        ],
    )


@contextmanager
def locked(folder: Path, name: str, *, wait: bool = True) -> Iterator[bool]:
    """Hold a lock file of the folder across processes; yields False when it is taken and `wait` is off."""
    with (folder / f"{name}.lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True
