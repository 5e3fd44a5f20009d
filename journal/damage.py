"""Damaged segments are set aside by renaming, and what their hashes prove is put into a whole one in their place."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from journal import reading, segment
from journal.reading import Finding
from journal.record import GENESIS, Sealed
from journal.segment import KnownEnd, SegmentFile

_DAMAGE_CODES = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_MISMATCH)
"""Our few statements are right; one that SQLite cannot carry out (SQLITE_ERROR) meets a changed schema."""

MISREAD = (OverflowError, TypeError, ValueError)
"""What values that are not as they were written may cause on their way out of SQLite."""


def shows_damage(problem: Exception, file: SegmentFile) -> bool:
    """Whether an error comes from what is in the file, and not from the disk, its room or a lock."""
    if not isinstance(problem, sqlite3.Error):
        return isinstance(problem, MISREAD)
    code = getattr(problem, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_READONLY:
        return os.access(file.path, os.W_OK)  # the file's header forbids what the disk allows
    return isinstance(problem, segment.Damaged) or code in _DAMAGE_CODES


def mend(folder: Path) -> int:
    """Put a whole segment in the place of each that was set aside; returns how many. The caller holds the roll lock.

    A run that is cut short changes nothing, and the next one does it again.
    """
    waiting = [file for file in segment.listing(folder) if file.set_aside]
    for file in waiting:
        rows = reading.salvaged(file)
        first, before = _start(folder, file, rows)
        end = _end(segment.known_end(file), rows, first, before)
        unfinished = segment.create(folder, file.number, first, before, _created_ns(file, rows), compressed=True)
        with closing(sqlite3.connect(unfinished, isolation_level=None)) as target:
            target.execute("begin")
            segment.insert(target, rows)
            segment.close(target, _created_ns(file, rows), end.position, end.digest)
            target.execute("commit")
        segment.publish(unfinished, segment.path_of(folder, file.number, compressed=True))
    return len(waiting)


def _start(folder: Path, file: SegmentFile, rows: list[Sealed]) -> tuple[int, bytes]:
    """Where a segment begins: after the one before it."""
    for other in segment.listing(folder):
        if other.number == file.number - 1:
            try:
                with closing(segment.connect(other)) as connection:
                    head, (last, digest) = segment.header(connection), segment.tail(connection)
            except sqlite3.DatabaseError:
                break
            return (head.last_position or last) + 1, head.last_digest or digest
    if file.number == 1 or not rows:
        return 1, GENESIS
    return rows[0].position, GENESIS


def _end(known: KnownEnd, rows: list[Sealed], first: int, before: bytes) -> KnownEnd:
    """Where it ended: no later record may ever get a position that was once acknowledged."""
    last = rows[-1] if rows else None
    if last is not None and last.position > known.position and not known.closed:
        return KnownEnd(last.position, last.digest, True)
    return known if known.position >= first else KnownEnd(first - 1, before, True)


def _created_ns(file: SegmentFile, rows: list[Sealed]) -> int:
    return rows[0].received_ns if rows else file.path.stat().st_mtime_ns


def findings(folder: Path) -> list[Finding]:
    """A finding for each segment that was set aside: its file stays until somebody removes it."""
    found = []
    whole = {file.number: file for file in segment.listing(folder) if not file.set_aside}
    for path in sorted(folder.glob(f"segment-*{segment.DAMAGED}")):
        match = segment.NAME.fullmatch(path.name)
        if match and (file := whole.get(int(match[1]))):
            detail = f"{_saved(file)}; the damaged file is {path.name}"
            found.append(Finding(file.number, "set aside", None, None, detail))
    return found


def _saved(file: SegmentFile) -> str:
    try:
        with closing(segment.connect(file)) as connection:
            head = segment.header(connection)
            count = connection.execute("select count(*) from records").fetchone()[0]
    except sqlite3.DatabaseError as problem:
        return f"the segment in its place is damaged too ({problem})"
    return f"{count} of {(head.last_position or 0) - head.first_position + 1} records saved"
