"""The journal: durable, ordered, at least once to its readers."""

import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from journal import compression, damage, reading, segment
from journal.active import Active
from journal.reading import Finding, Followed
from journal.record import GENESIS, Entry, Record, Sealed
from journal.segment import SegmentFile
from models.errors import JournalBusy, JournalUnwritable

SEGMENT_BYTES = 64 * 1024 * 1024
QUEUE_BYTES = 64 * 1024 * 1024
COMMIT_BYTES = 16 * 1024 * 1024
"""A group commit takes no more than this, so that memory stays bounded and nobody waits long."""

COMPRESS_EVERY_SECONDS = 5.0
QUIET_SECONDS = 10.0
"""So long nothing new: what the newest segment holds is compressed too."""

POLL_SECONDS = 0.02
OPEN_READERS = 8
"""Segments kept open for reading: each costs a descriptor or three and a page cache, and there may be thousands."""


@dataclass(frozen=True, slots=True)
class Total:
    """How much of one kind the journal holds."""

    kind: str
    records: int
    items: int
    size_bytes: int
    first_ns: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class Pending:
    """Entries waiting for the next commit."""

    entries: Sequence[Entry]
    size: int
    done: "Future[list[int]]"


class Journal:
    """An append-only log of byte records in a folder.

    Durable: `append` returns, and `submit`'s future resolves, only after the records are on disk (SQLite in WAL mode
    with synchronous=FULL); after a crash they are there.
    Ordered: positions are 1, 2, 3 … without holes; all entries of one call are neighbours and are stored together or
    not at all. Callers that wait at the same time share one commit.
    At least once: a reader keeps its place with a named cursor; after a crash it gets again what it read after its
    last `advance`. Several processes may append, read and verify at the same time.
    Tamper-evident: each record carries a hash over itself and the hash before it; `verify` names what was changed or
    is missing, and `read` still gives every record whose hash is right.
    """

    def __init__(
        self,
        folder: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        queue_bytes: int = QUEUE_BYTES,
        compress: bool = True,
        quiet_seconds: float = QUIET_SECONDS,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.folder = folder
        self._queue_bytes = queue_bytes
        self._compress = compress
        self._quiet_seconds = quiet_seconds
        self._clock_ns = clock_ns
        self._queue: queue.SimpleQueue[Pending | None] = queue.SimpleQueue()
        self._queued = 0
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._writer: threading.Thread | None = None
        self._stopping = threading.Event()
        self._active = Active(folder, segment_bytes, clock_ns)
        self._readers: dict[tuple[Path, int], sqlite3.Connection] = {}
        self._first_positions: dict[Path, int] = {}
        self.lost: dict[int, Finding] = {}
        """Damage met while reading, by first position; segments by their number below 0."""
        self._salvaged: tuple[Path, int, list[Sealed]] | None = None
        if not folder.is_dir():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            segment.sync_folder(folder.parent)
        self.lost |= {-finding.segment: finding for finding in damage.findings(folder)}

    # --- appending ---------------------------------------------------------------------------------------------

    def append(self, *entries: Entry) -> list[int]:
        """Store entries durably and give their positions."""
        return self.submit(entries).result()

    def submit(self, entries: Sequence[Entry]) -> "Future[list[int]]":
        """Queue entries for the next commit; raises JournalBusy instead of queueing without bound."""
        size = sum(len(entry.body) for entry in entries)
        pending = Pending(entries, size, Future())
        with self._lock:
            if self._stopping.is_set():
                raise JournalUnwritable(self.folder, "the journal is closed")
            if self._queued and self._queued + size > self._queue_bytes:
                raise JournalBusy(self.folder, self._queued)
            self._queued += size
            if self._writer is None:
                self._start()
            self._queue.put(pending)
        return pending.done

    @property
    def queued_bytes(self) -> int:
        """Bytes waiting for a commit."""
        return self._queued

    def _start(self) -> None:
        self._writer = threading.Thread(target=self._write_forever, name="journal-writer", daemon=True)
        self._writer.start()
        if self._compress:
            threading.Thread(target=self._compress_forever, name="journal-compressor", daemon=True).start()

    def _write_forever(self) -> None:
        while (first := self._next()) is not None:
            batch, last = self._gather(first)
            for pending in batch:
                pending.done.set_running_or_notify_cancel()  # from here on it will be stored, whoever still waits
            try:
                positions = self._active.commit([entry for pending in batch for entry in pending.entries])
            except (sqlite3.Error, OSError) as problem:
                self._active.let_go()
                for pending in batch:
                    self._settle(pending)
                    if not pending.done.cancelled():
                        pending.done.set_exception(JournalUnwritable(self.folder, str(problem)))
            else:
                given = iter(positions)
                for pending in batch:
                    self._settle(pending)
                    mine = [next(given) for _ in pending.entries]
                    if not pending.done.cancelled():
                        pending.done.set_result(mine)
            if last:
                return

    def _next(self) -> Pending | None:
        """What to commit next; when nothing comes for a while, the segment is closed meanwhile."""
        try:
            return self._queue.get(timeout=self._quiet_seconds)
        except queue.Empty:
            self._active.close_quiet()
            return self._queue.get()

    def _gather(self, first: Pending) -> tuple[list[Pending], bool]:
        """Everything that waits, up to a bound; and whether the end was asked for."""
        batch, size = [first], first.size
        while size < COMMIT_BYTES:
            try:
                more = self._queue.get_nowait()
            except queue.Empty:
                return batch, False
            if more is None:
                return batch, True
            batch.append(more)
            size += more.size
        return batch, False

    def _settle(self, pending: Pending) -> None:
        with self._lock:
            self._queued -= pending.size

    def _compress_forever(self) -> None:
        while not self._stopping.wait(COMPRESS_EVERY_SECONDS):
            self.compress_closed()

    def compress_closed(self, *, rest_per_work: float = compression.REST_PER_WORK) -> int:
        """Compress the closed segments now; returns how many were."""
        try:
            done = compression.compress_closed(self.folder, self._stopping, rest_per_work=rest_per_work)
            with segment.locked(self.folder, "roll"):
                damage.mend(self.folder)
            return done
        except (sqlite3.Error, OSError):
            return 0  # no room for the copy, or damage: the uncompressed form stays, and is tried again

    # --- reading -----------------------------------------------------------------------------------------------

    def read(self, after: int = 0, max_records: int = 1000, max_bytes: int = 32 * 1024 * 1024) -> list[Record]:
        """Records after a position, in order, whole; at least one if there is one, whatever its size."""
        found: list[Record] = []
        size = 0
        with self._reading:
            for record in self._records_after(after):
                if found and (len(found) >= max_records or size + len(record.body) > max_bytes):
                    break
                found.append(record)
                size += len(record.body)
        return found

    def _records_after(self, after: int) -> Iterator[Record]:
        digests: set[bytes] | None = None
        for file in self._from_segment(after):
            digests = self._digests_before(file, after) if digests is None else digests | self._previous_digest(file)
            for one in reading.follow(self._rows(file, after), digests, after):
                if one.row.position > after + 1 or one.record is None:
                    yield from self._saved(file, after, one)
                if one.record is not None:
                    yield one.record
                after, digests = max(after, one.row.position), {one.row.digest}

    def _saved(self, file: SegmentFile, after: int, one: Followed) -> Iterator[Record]:
        """What SQLite does not show, or shows changed, between a position and a row, as far as its pages hold it."""
        number, last = file.number, one.row.position - (one.record is not None)
        for row in self._salvaged_rows(segment.found_again(file)):
            if after < row.position <= last and row != one.row and (record := reading.intact(row)) is not None:
                if row.position > after + 1:
                    self.lost[after + 1] = Finding(number, "missing", after + 1, row.position - 1, "not in the file")
                yield record
                after = row.position
        if one.record is None and after < last:
            self.lost[last] = Finding(number, "changed", last, last, one.problem)
            last -= 1
        if after < last:
            self.lost[after + 1] = Finding(number, "missing", after + 1, last, "not in the file")

    def _digests_before(self, file: SegmentFile, after: int) -> set[bytes]:
        """What the record after a position continues, as far as the segment tells."""
        try:
            row = self._reader(file).execute("select digest from records where position = ?", (after,)).fetchone()
            return {row[0]} if row else self._previous_digest(file)
        except (sqlite3.DatabaseError, OverflowError):
            return set()

    def _previous_digest(self, file: SegmentFile) -> set[bytes]:
        try:
            return {segment.header(self._reader(file)).previous_digest}
        except (sqlite3.DatabaseError, OverflowError, TypeError):
            return set()

    def _from_segment(self, after: int) -> list[SegmentFile]:
        files = segment.listing(self.folder)
        for at in range(len(files) - 1, 0, -1):
            first = self._first_position(files[at])
            if first is not None and first <= after + 1:
                return files[at:]
        return files

    def _first_position(self, file: SegmentFile) -> int | None:
        if file.path in self._first_positions:
            return self._first_positions[file.path]
        try:
            first = segment.header(self._reader(file)).first_position
        except sqlite3.DatabaseError:
            return None
        if file.compressed:  # it never changes; an empty one may be made anew after a crash, with another start
            self._first_positions[file.path] = first
        return first

    def _rows(self, file: SegmentFile, after: int) -> Iterator[Sealed]:
        try:
            for row in segment.rows(self._reader(file), after):
                yield row
                after = row.position
        except (sqlite3.DatabaseError, OverflowError, TypeError) as problem:
            found = segment.found_again(file)
            if found != file and not found.set_aside:
                yield from self._rows(found, after)  # it was compressed or mended while we looked
                return
            self.lost.setdefault(-file.number, Finding(file.number, "unreadable", None, None, str(problem)))
            yield from (row for row in self._salvaged_rows(found) if row.position > after)

    def _salvaged_rows(self, file: SegmentFile) -> list[Sealed]:
        """What can be saved of a damaged segment; kept while it is being read, because finding it takes long."""
        inode = file.path.stat().st_ino
        if self._salvaged is None or self._salvaged[:2] != (file.path, inode):
            self._salvaged = (file.path, inode, reading.salvaged(file))
        return self._salvaged[2]

    def _reader(self, file: SegmentFile) -> sqlite3.Connection:
        try:
            key = (file.path, file.path.stat().st_ino)  # a successor made before a crash may be made anew
        except FileNotFoundError as gone:
            raise sqlite3.OperationalError(str(gone)) from gone
        if key in self._readers:
            self._readers[key] = self._readers.pop(key)  # the last used is the last to go
            return self._readers[key]
        for stale in [old for old in self._readers if old[0] == file.path or not old[0].exists()]:
            self._readers.pop(stale).close()
        while len(self._readers) >= OPEN_READERS:
            self._readers.pop(next(iter(self._readers))).close()
        self._readers[key] = segment.connect(file)
        return self._readers[key]

    def last_position(self) -> int:
        """The position of the newest record; 0 when there is none."""
        with self._reading:
            for file in reversed(segment.listing(self.folder)):
                try:
                    return segment.tail(self._reader(file))[0]
                except (sqlite3.DatabaseError, OverflowError):
                    rows = self._salvaged_rows(segment.found_again(file))
                    if rows:
                        return rows[-1].position
        return 0

    def wait(self, after: int, timeout: float) -> bool:
        """Wait until there is a record after a position, whichever process appends it."""
        deadline = time.monotonic() + timeout
        while self.last_position() <= after:
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def totals(self) -> list[Total]:
        """What the journal holds, by kind."""
        sums: dict[str, list[int]] = {}
        sums_of = "count(*), sum(items), sum(size), min(received_ns), max(received_ns)"
        query = f"select kind, {sums_of} from records group by kind"  # noqa: S608 (a constant)
        with self._reading:
            for file in segment.listing(self.folder):
                try:
                    rows = self._reader(file).execute(query).fetchall()
                except (sqlite3.DatabaseError, OverflowError):
                    rows = [
                        (row.kind, 1, row.items, row.size, row.received_ns, row.received_ns)
                        for row in self._salvaged_rows(segment.found_again(file))
                    ]
                for kind, count, items, size, first, last in rows:
                    total = sums.setdefault(kind, [0, 0, 0, first, last])
                    total[:] = [
                        total[0] + count, total[1] + items, total[2] + size, min(total[3], first), max(total[4], last)
                    ]  # fmt: skip
        return [Total(kind, *total) for kind, total in sorted(sums.items())]

    # --- cursors -----------------------------------------------------------------------------------------------

    def cursor(self, name: str) -> int:
        """How far the named reader has come; 0 for a new one."""
        with closing(self._cursors()) as connection:
            row = connection.execute("select position from cursors where name = ?", (name,)).fetchone()
        return int(row[0]) if row else 0

    def cursors(self) -> dict[str, int]:
        """All named readers and how far they have come."""
        with closing(self._cursors()) as connection:
            return dict(connection.execute("select name, position from cursors order by name").fetchall())

    def advance(self, name: str, position: int) -> None:
        """Remember, durably, that the named reader is done with everything up to `position`."""
        with closing(self._cursors()) as connection:
            connection.execute(
                "insert into cursors values (?, ?, ?) on conflict (name) do update set "
                "position = excluded.position, moved_ns = excluded.moved_ns",
                (name, position, self._clock_ns()),
            )

    def _cursors(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.folder / "cursors.sqlite", timeout=segment.BUSY_SECONDS, isolation_level=None)
        connection.execute("pragma synchronous=full")
        connection.execute(
            "create table if not exists cursors "
            "(name text primary key, position integer not null, moved_ns integer not null) strict"
        )
        return connection

    # --- checking ----------------------------------------------------------------------------------------------

    def verify(self, progress: Callable[[SegmentFile], None] = lambda _: None) -> list[Finding]:
        """Check every record against its hash and the one before it; an empty list means the journal is whole."""
        problems: list[Finding] = []
        previous = (0, GENESIS)
        numbers = [file.number for file in segment.listing(self.folder)]
        for file in segment.listing(self.folder):
            progress(file)
            found, previous = reading.check(segment.found_again(file), previous)
            problems += found
        problems += damage.findings(self.folder)
        problems += [
            Finding(number, "missing", None, None, "the segment file is not there")
            for number in range(1, max(numbers, default=0))
            if number not in numbers
        ]
        return problems

    def close(self) -> None:
        """Commit what is queued, then let go of the files."""
        with self._lock:
            self._stopping.set()
            writer = self._writer
            self._queue.put(None)
        if writer is not None:
            writer.join()
        self._active.let_go()
        with self._reading:
            for connection in self._readers.values():
                connection.close()
            self._readers.clear()

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
