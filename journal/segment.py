"""One segment file of the journal: a SQLite database that is appended to, then closed, then compressed."""

import fcntl
import hashlib
import os
import re
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import zstandard

from journal import mark
from journal.record import Sealed

PAGE_BYTES = 32768
"""Large pages: bodies are up to megabytes (measured: 4 KiB pages write at half the rate)."""

CHECKPOINT_BYTES = 16 * 1024 * 1024
BUSY_SECONDS = 30.0
UNFINISHED_SECONDS = 3600.0
COLUMNS = "position, kind, received_ns, items, size, meta, body_digest, digest, codec, body"
SCHEMA = """
create table segment (
  number integer not null, first_position integer not null, previous_digest blob not null, created_ns integer not null,
  closed_ns integer, last_position integer, last_digest blob, sum blob not null
) strict;
create table records (
  position integer primary key, kind text not null, received_ns integer not null, items integer not null,
  size integer not null, meta text not null, body_digest blob not null, digest blob not null, codec text not null,
  body blob not null
) strict;
"""
NAME = re.compile(r"segment-(\d{10})(\.zstd)?\.sqlite(\.damaged)?")
DAMAGED = ".damaged"
"""Ends the name of a segment that was set aside; it is read only where no mended one has taken its place."""


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

    @property
    def sum(self) -> bytes:
        """Tells a changed header from a true one; records have the chain for that."""
        return hashlib.sha256(repr(astuple(self)).encode()).digest()


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """A segment on disk."""

    number: int
    path: Path
    compressed: bool
    set_aside: bool = False


class Damaged(sqlite3.DatabaseError):
    """A segment is not as it was written."""


def path_of(folder: Path, number: int, *, compressed: bool = False) -> Path:
    """The file of a segment."""
    return folder / f"segment-{number:010d}{'.zstd' if compressed else ''}.sqlite"


def listing(folder: Path) -> list[SegmentFile]:
    """The segments in order; where both forms of one exist, the compressed one, which is made whole by a rename."""
    found: dict[int, SegmentFile] = {}
    for file in sorted(_files(folder), key=lambda file: (file.number, not file.set_aside, file.compressed)):
        found[file.number] = file
    return list(found.values())


def _files(folder: Path) -> Iterator[SegmentFile]:
    for path in folder.iterdir():
        if match := NAME.fullmatch(path.name):
            yield SegmentFile(int(match[1]), path, match[2] is not None, match[3] is not None)


def connect(file: SegmentFile, *, write: bool = False) -> sqlite3.Connection:
    """Open a segment; raises Damaged where that shows already. A compressed one never changes, so it needs no locks."""
    if file.set_aside:
        raise Damaged("it was set aside")
    known = None if file.compressed else known_end(file)  # looked at first: what comes later may only be more
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
    try:
        _require_encoding(connection)
        if known is not None:
            _require_end(connection, known)
    except Damaged:
        # Before it is closed: the last to close folds the write-ahead log into the file and removes it, and with it
        # the records that SQLite does not see any more.
        if not file.compressed:
            set_aside(file)
        connection.close()
        raise
    except BaseException:
        connection.close()
        raise
    return connection


@dataclass(frozen=True, slots=True)
class KnownEnd:
    """What is known from elsewhere about the end of a segment."""

    position: int
    """It holds the records up to this one."""

    digest: bytes
    closed: bool
    """Whether records follow it, so that it must say it is closed."""


def known_end(file: SegmentFile) -> KnownEnd:
    """How far a segment must reach at least: to the records of the next one, or to the mark."""
    told = mark.read(file.path.parent)
    after = [other for other in listing(file.path.parent) if other.number == file.number + 1]
    for successor in after:
        try:
            with closing(connect(successor)) as connection:
                head, (last, _) = header(connection), tail(connection)
        except sqlite3.DatabaseError:
            continue  # it is looked at when its turn comes
        if last >= head.first_position:
            return KnownEnd(head.first_position - 1, head.previous_digest, True)
        if head.first_position - 1 > told.position:
            return KnownEnd(head.first_position - 1, head.previous_digest, False)
    return KnownEnd(told.position, told.digest, False)


def _require_encoding(connection: sqlite3.Connection) -> None:
    """The one field of the file's header that SQLite believes when it is wrong, and that changes what it reads."""
    if connection.execute("pragma encoding").fetchone()[0] != "UTF-8":
        raise Damaged("the header of the file is not as it was written")


def _require_end(connection: sqlite3.Connection, known: KnownEnd) -> None:
    head, (last, _) = header(connection), tail(connection)
    if head.closed_ns is not None:
        return  # where it ends is its own word, and `verify` holds it to that
    if last < known.position:
        raise Damaged(f"it ends at record {last}, but {known.position} was acknowledged")
    if known.closed:
        raise Damaged("it was closed, and no longer says so")


def set_aside(file: SegmentFile) -> SegmentFile:
    """Rename a damaged segment, with its write-ahead log; nothing is written to it any more."""
    aside = file.path.with_name(path_of(file.path.parent, file.number).name + DAMAGED)
    if aside.exists():
        return file  # the one in its place is damaged too: it is read as it is
    for end in ("-wal", ""):  # the log first: SQLite must not find the one without the other
        with suppress(FileNotFoundError):
            file.path.with_name(file.path.name + end).rename(aside.with_name(aside.name + end))
    file.path.with_name(file.path.name + "-shm").unlink(missing_ok=True)
    sync_folder(file.path.parent)
    return SegmentFile(file.number, aside, False, True)


def create(
    folder: Path, number: int, first_position: int, previous_digest: bytes, now_ns: int, *, compressed: bool = False
) -> Path:
    """Make an empty segment; it appears under its name only when it is complete on disk."""
    path = path_of(folder, number)
    unfinished = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.new")
    unfinished.unlink(missing_ok=True)
    with closing(sqlite3.connect(unfinished, isolation_level=None)) as connection:
        connection.execute(f"pragma page_size={PAGE_BYTES}")
        connection.execute("pragma synchronous=full")
        connection.executescript(SCHEMA)
        _write_header(connection, Header(number, first_position, previous_digest, now_ns, None, None, None))
        if not compressed:
            connection.execute("pragma journal_mode=wal")
    if compressed:
        return unfinished
    publish(unfinished, path)
    return path


def sweep(folder: Path) -> None:
    """Remove what a crash left unfinished. It holds nothing that is not elsewhere; nothing takes so long to finish."""
    for path in [*folder.glob("segment-*.new"), *folder.glob("segment-*.new-*")]:
        with suppress(FileNotFoundError):
            if time.time() - path.stat().st_mtime > UNFINISHED_SECONDS:
                path.unlink()


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
        raise Damaged("the segment has no header")
    found = Header(*row[:-1])
    if found.sum != row[-1]:
        raise Damaged("the header of the segment is not as it was written")
    return found


def _write_header(connection: sqlite3.Connection, head: Header) -> None:
    connection.execute("delete from segment")
    connection.execute("insert into segment values (?, ?, ?, ?, ?, ?, ?, ?)", (*astuple(head), head.sum))


def close(connection: sqlite3.Connection, closed_ns: int, last_position: int, last_digest: bytes) -> None:
    """Say in the header where the segment ends, inside the caller's transaction."""
    head = replace(header(connection), closed_ns=closed_ns, last_position=last_position, last_digest=last_digest)
    _write_header(connection, head)


def found_again(file: SegmentFile) -> SegmentFile:
    """The file that now holds a segment: it may have been compressed or set aside since it was listed."""
    if file.path.exists():
        return file
    return next((other for other in listing(file.path.parent) if other.number == file.number), file)


def tail(connection: sqlite3.Connection) -> tuple[int, bytes]:
    """The last position and digest; those before the segment when it is empty."""
    row = connection.execute("select position, digest from records order by position desc limit 1").fetchone()
    if row is not None:
        return row[0], row[1]
    head = header(connection)
    return head.first_position - 1, head.previous_digest


def require_tree(connection: sqlite3.Connection) -> None:
    """Raise Damaged unless every page hangs where it belongs: appending to a broken tree could break more of it."""
    told = connection.execute("pragma quick_check(1)").fetchone()[0]
    if told != "ok":
        raise Damaged(str(told))


def remove(file: SegmentFile) -> None:
    """Remove a segment that holds nothing."""
    for end in ("", "-wal", "-shm"):
        file.path.with_name(file.path.name + end).unlink(missing_ok=True)


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
