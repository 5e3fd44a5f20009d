"""Reading the records of a segment file that SQLite itself will no longer open or walk.

The pages that hold records are found by their own marks (https://www.sqlite.org/fileformat2.html), without the file's
header or its tree. Nothing here is believed: the caller keeps only records whose digest is right.
"""

import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

from journal.record import Sealed
from journal.segment import PAGE_BYTES

LEAF = 0x0D
WAL_HEADER_BYTES, FRAME_HEADER_BYTES = 32, 24
MAX_LOCAL = PAGE_BYTES - 35
MIN_LOCAL = (PAGE_BYTES - 12) * 32 // 255 - 23
INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


class Pages:
    """The pages of a database file with those of its write-ahead log laid over them."""

    def __init__(self, path: Path) -> None:
        self.base = _read_apart(path)
        wal = path.with_name(path.name + "-wal")
        self.frames = list(_frames(_read_apart(wal))) if wal.exists() else []
        self.newer = dict(self.frames)

    def page(self, number: int) -> bytes:
        """One page; empty where the file has none."""
        return self.newer.get(number) or self.base[(number - 1) * PAGE_BYTES : number * PAGE_BYTES]


def _read_apart(path: Path) -> bytes:
    """The bytes of a file that SQLite may have open in this process.

    Another process reads them: when this one closes any descriptor of a file it loses all its locks on it, those of
    SQLite among them, and then two processes may write the file at once.
    """
    done = subprocess.run(["cat", "--", str(path)], stdout=subprocess.PIPE, check=False)  # noqa: S603, S607 (constant)
    if done.returncode:
        raise OSError(f"{path.name} cannot be read")
    return done.stdout


def _frames(wal: bytes) -> Iterator[tuple[int, bytes]]:
    """The pages in a write-ahead log in the order they were written, whatever SQLite thinks of their checksums."""
    step = FRAME_HEADER_BYTES + PAGE_BYTES
    starts = range(WAL_HEADER_BYTES, len(wal) - step + 1, step)
    # Frames of an earlier round have other salts. One place where they are kept may be damaged, not most of the first.
    told = [wal[16:24], *(wal[at + 8 : at + 16] for at in starts[:4])]
    current = max(told, key=told.count)
    for at in starts:
        if wal[at + 8 : at + 16] == current or at == starts[0]:
            number = int.from_bytes(wal[at : at + 4], "big")
            yield number, wal[at + FRAME_HEADER_BYTES : at + step]


def scan(path: Path) -> Iterator[Sealed]:
    """Every cell of every leaf page that reads as one of our records; older forms of a page come first."""
    pages = Pages(path)
    for number in range(1, -(-len(pages.base) // PAGE_BYTES) + 1):
        yield from _cells(pages, number, pages.base[(number - 1) * PAGE_BYTES : number * PAGE_BYTES])
    for number, page in pages.frames:
        yield from _cells(pages, number, page)


def _cells(pages: Pages, number: int, page: bytes) -> Iterator[Sealed]:
    start = 100 if number == 1 else 0
    if len(page) < PAGE_BYTES or page[start] != LEAF:
        return
    cells = int.from_bytes(page[start + 3 : start + 5], "big")
    for at in struct.unpack_from(f">{min(cells, PAGE_BYTES // 4)}H", page, start + 8):
        try:
            yield _record(pages, page, at)
        except (IndexError, ValueError, struct.error, TypeError):
            continue  # not a record of ours, or torn: the caller misses it by its position


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for step in range(8):
        byte = data[at + step]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + step + 1
    return value << 8 | data[at + 8], at + 9


def _record(pages: Pages, page: bytes, at: int) -> Sealed:
    size, at = _varint(page, at)
    position, at = _varint(page, at)
    payload = _payload(pages, page, at, size)
    header_bytes, next_type = _varint(payload, 0)
    kinds = []
    while next_type < header_bytes:
        kind, next_type = _varint(payload, next_type)
        kinds.append(kind)
    if len(kinds) != 10:
        raise ValueError("not ten columns")
    values: list[object] = []
    at = header_bytes
    for kind in kinds:
        value, at = _value(payload, at, kind)
        values.append(value)
    _, name, received, items, plain_size, meta, body_digest, digest, codec, body = values
    if not (isinstance(received, int) and isinstance(items, int) and isinstance(plain_size, int)):
        raise ValueError("a number is missing")
    if not (isinstance(name, str) and isinstance(meta, str) and isinstance(codec, str)):
        raise ValueError("a text is missing")
    if not (isinstance(body_digest, bytes) and isinstance(digest, bytes) and isinstance(body, bytes)):
        raise ValueError("a blob is missing")
    return Sealed(position, name, received, items, plain_size, meta, body_digest, digest, codec, body)


def _payload(pages: Pages, page: bytes, at: int, size: int) -> bytes:
    if size <= MAX_LOCAL:
        return page[at : at + size]
    local = MIN_LOCAL + (size - MIN_LOCAL) % (PAGE_BYTES - 4)
    if local > MAX_LOCAL:
        local = MIN_LOCAL
    parts = [page[at : at + local]]
    overflow = int.from_bytes(page[at + local : at + local + 4], "big")
    left = size - local
    while left > 0:
        more = pages.page(overflow)
        if len(more) < PAGE_BYTES:
            raise ValueError("the chain of overflow pages breaks off")
        parts.append(more[4 : 4 + left])
        left -= PAGE_BYTES - 4
        overflow = int.from_bytes(more[:4], "big")
    return b"".join(parts)


def _value(payload: bytes, at: int, kind: int) -> tuple[object, int]:
    if kind == 0:
        return None, at
    if kind in INTEGER_BYTES:
        end = at + INTEGER_BYTES[kind]
        return int.from_bytes(payload[at:end], "big", signed=True), end
    if kind in (8, 9):
        return kind - 8, at
    if kind >= 12:
        end = at + (kind - 12) // 2
        raw = payload[at:end]
        if len(raw) < end - at:
            raise ValueError("cut short")
        return (raw.decode() if kind % 2 else raw), end
    raise ValueError(f"no value of type {kind} is ever stored")
