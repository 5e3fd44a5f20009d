"""The segment that takes new records: found, opened, appended to, and closed when it is full."""

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import orjson

from journal import damage, mark, segment
from journal.record import GENESIS, Entry, Sealed, body_digest, chain
from journal.segment import SegmentFile
from models.failpoints import reached

Told = tuple[str, bytes]
"""The meta of an entry as JSON, and the digest of its body."""

WORTH_A_FILE = 8
"""A quiet segment is closed from this part of a full one on: smaller ones would make many files of a slow trickle."""


class Active:
    """Appends to the lowest segment that is not closed; used by one thread, beside other processes."""

    def __init__(self, folder: Path, segment_bytes: int, clock_ns: Callable[[], int]) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._clock_ns = clock_ns
        self._open: tuple[SegmentFile, sqlite3.Connection] | None = None
        self._inode = 0

    def commit(self, entries: list[Entry]) -> list[int]:
        """Store entries durably in one transaction and give their positions; raises sqlite3.Error or OSError."""
        if not entries:
            return []
        told = [(orjson.dumps(entry.meta).decode(), body_digest(entry.body)) for entry in entries]
        while True:
            file, connection = self._opened()
            try:
                records = self._insert(connection, entries, told)
            except (sqlite3.DatabaseError, *damage.MISREAD) as problem:
                self._set_aside(file, problem)
                records = []
            if not records or not self._is_current(file):
                self.let_go()  # closed by another process, or damaged: what it took was not acknowledged, go on anew
                continue
            reached("journal.committed")
            with suppress(OSError):  # the records are safe without it
                mark.write(self._folder, records[-1].position, records[-1].digest)
            self._roll_from(self._segment_bytes)
            return [record.position for record in records]

    def _insert(self, connection: sqlite3.Connection, entries: list[Entry], told: list[Told]) -> list[Sealed]:
        """Commit the entries to a segment; none where another process closed it meanwhile."""
        connection.execute("begin immediate")
        try:
            if segment.header(connection).closed_ns is not None:
                connection.execute("rollback")
                return []
            records = self._sealed(entries, told, *segment.tail(connection))
            segment.insert(connection, records)
            reached("journal.inserted")
            connection.execute("commit")
        except BaseException:
            if connection.in_transaction:
                connection.execute("rollback")
            raise
        return records

    def _is_current(self, file: SegmentFile) -> bool:
        """Whether the file we have open is still the segment: another process may have found it damaged."""
        with suppress(FileNotFoundError):
            return self._open is not None and file.path.stat().st_ino == self._inode
        return False

    def _set_aside(self, file: SegmentFile, problem: Exception) -> None:
        """Put a segment aside if the problem is in it; raise it if it is not."""
        if not damage.shows_damage(problem, file) or segment.set_aside(file) == file:
            raise problem

    def _sealed(self, entries: list[Entry], told: list[Told], position: int, digest: bytes) -> list[Sealed]:
        now = self._clock_ns()
        records = []
        for entry, (meta, body) in zip(entries, told, strict=True):
            position += 1
            digest = chain(digest, position, entry.kind, now, entry.items, meta, body)
            records.append(
                Sealed(position, entry.kind, now, entry.items, len(entry.body), meta, body, digest, "none", entry.body)
            )
        return records

    def _opened(self) -> tuple[SegmentFile, sqlite3.Connection]:
        """The segment that takes new records: the lowest one not closed. Damaged ones are set aside on the way."""
        if self._open is not None:
            if self._is_current(self._open[0]):
                return self._open
            self.let_go()
        with segment.locked(self._folder, "roll"):
            while self._open is None:
                damage.mend(self._folder)
                files = segment.listing(self._folder)
                for file in files:
                    if not self._open_if_active(file, files):
                        continue
                    break
                else:
                    number, position, digest = self._end_of(files)
                    segment.create(self._folder, number + 1, position + 1, digest, self._clock_ns())
        return self._open

    def _open_if_active(self, file: SegmentFile, files: list[SegmentFile]) -> bool:
        """Open a segment for writing if it takes records, or set it aside; False if it is closed and whole so far."""
        if file.compressed or file.set_aside:
            return file.set_aside
        try:
            connection = segment.connect(file, write=True)
            try:
                if segment.header(connection).closed_ns is not None:
                    connection.close()
                    return False
                segment.require_tree(connection)
            except BaseException:
                connection.close()
                raise
        except (sqlite3.DatabaseError, *damage.MISREAD) as problem:
            if segment.found_again(file) == file:  # opening may have set it aside already
                self._set_aside(file, problem)
            return True
        for later in files[files.index(file) + 1 :]:
            segment.remove(later)  # made by a roll that a crash cut short: it is empty, and will be made anew
        self._open, self._inode = (file, connection), file.path.stat().st_ino
        return True

    def _end_of(self, files: list[SegmentFile]) -> tuple[int, int, bytes]:
        """Number, last position and last digest of the newest segment."""
        if not files:
            return 0, 0, GENESIS
        with closing(segment.connect(files[-1])) as connection:
            head, (position, digest) = segment.header(connection), segment.tail(connection)
        return files[-1].number, head.last_position or position, head.last_digest or digest

    def close_quiet(self) -> None:
        """Close the segment before it is full, so that it is compressed too, if it is worth a file of its own."""
        self._roll_from(self._segment_bytes // WORTH_A_FILE)

    def _roll_from(self, least_bytes: int) -> None:
        """Close the segment if it is so large: its successor is made first, and used once this one says it is closed.

        The records are stored whatever happens here, so trouble is left to the next commit, which comes here again.
        """
        if self._open is None:
            return
        file, connection = self._open
        try:
            pages = connection.execute("pragma page_count").fetchone()[0]
            if pages * segment.PAGE_BYTES >= least_bytes:
                self._roll(file, connection)
        except (sqlite3.Error, OSError, *damage.MISREAD):
            self.let_go()

    def _roll(self, file: SegmentFile, connection: sqlite3.Connection) -> None:
        with segment.locked(self._folder, "roll"):
            connection.execute("begin immediate")
            if segment.header(connection).closed_ns is None:
                position, digest = segment.tail(connection)
                segment.create(self._folder, file.number + 1, position + 1, digest, self._clock_ns())
                reached("journal.rolling")
                segment.close(connection, self._clock_ns(), position, digest)
            connection.execute("commit")
            reached("journal.rolled")
        self.let_go()

    def let_go(self) -> None:
        """Close the file."""
        if self._open is not None:
            self._open[1].close()
            self._open = None
