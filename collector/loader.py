"""The loader: brings everything in the journal into the index, in order, once, whatever a single request holds."""

import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
from google.protobuf.message import DecodeError

from collector.prices import Prices
from collector.repricing import Repricer
from ingest.batch import Batch
from ingest.dialects import translate
from ingest.dialects.dialect import event_schema
from ingest.event_lines import decode_lines
from ingest.file_lines import KIND as FILE_KIND
from ingest.file_lines import decode_packed
from ingest.otlp.records import KIND_PREFIX, decode
from journal import Journal, Record
from models.errors import TachographError
from models.pricing import PriceTable
from store import Layout, Store, Undecoded
from store.database import shows_damage, without_paths
from store.rebuilding import rebuild as rebuild_index
from store.schema import RECORDS, arrow_schema

BATCH_RECORDS = 512
BATCH_BYTES = 32 * 1024 * 1024
"""Small requests are loaded together, because a batch has a price of its own; large ones until memory would tell."""

PAUSE_SECONDS = 0.25
"""So long nothing new: the roll-ups are brought up to date."""

IDLE_CHECKPOINT_SECONDS = 5.0
RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0)
GIVE_UP_AFTER = 3
"""A record that cannot be stored alone so many times is noted and passed over."""

MACHINE = (duckdb.IOException, duckdb.OutOfMemoryException, duckdb.FatalException)
UNUSABLE = (*MACHINE, duckdb.InternalException, duckdb.ConnectionException, duckdb.TransactionException)
"""After these only a file opened anew can be relied on."""

TROUBLE = (duckdb.Error, sqlite3.Error, OSError)
"""What may stop a batch: the index, the journal, or the disk under both."""

FAULTS = (
    DecodeError,
    TachographError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    RecursionError,
    pa.ArrowException,
    pl.exceptions.PolarsError,
)
"""How decoding or translating a body may fail. The body stays in the journal; the others of its batch go on."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A stretch of the journal, ready to be stored."""

    records: pa.Table
    events: pl.DataFrame
    after: int
    position: int
    """It holds what comes after the one position, up to and including the other."""

    undecoded: tuple[Undecoded, ...] = ()


def prepare(entries: Sequence[Record], after: int, prices: PriceTable | None = None) -> Prepared:
    """Decode and translate journal records; one that cannot be is noted and leaves the others alone."""
    batches: list[Batch] = []
    undecoded: list[Undecoded] = []
    try:
        batches = _decoded(entries)
    except FAULTS:
        for entry in entries:
            try:
                batches += _decoded([entry])
            except FAULTS as fault:
                undecoded.append(noted(entry, f"cannot be decoded: {fault}"))
    try:
        records, events = _translated(Batch.concat(batches), prices)
    except FAULTS as fault:
        if len(entries) > 1:
            return _joined([prepare([entry], entry.position - 1, prices) for entry in entries], after)
        # What a dialect trips over is still a record: it is kept, without events.
        undecoded.append(noted(entries[0], f"was stored, but no dialect could read it: {fault}"))
        records, events = Batch.concat(batches).records, empty_events()
    return Prepared(records, events, after, entries[-1].position, tuple(undecoded))


def _decoded(entries: Sequence[Record]) -> list[Batch]:
    requests = [entry for entry in entries if entry.kind.startswith(KIND_PREFIX)]
    others = [_lines(entry) for entry in entries if not entry.kind.startswith(KIND_PREFIX)]
    return [decode(requests), *others]


def _lines(entry: Record) -> Batch:
    if entry.kind == "events":
        return decode_lines(entry.body, journal_position=entry.position, received=_moment(entry))
    if entry.kind == FILE_KIND:
        return decode_packed(entry.body, entry.meta, journal_position=entry.position, received=_moment(entry))
    raise ValueError(f"unknown kind {entry.kind!r}")


def _translated(batch: Batch, prices: PriceTable | None) -> tuple[pa.Table, pl.DataFrame]:
    if not len(batch):
        return arrow_schema(RECORDS).empty_table(), empty_events()
    found = translate(batch, prices)
    records = batch.records
    for name, told in (("dialect", found.dialect), ("session_key", found.session_key)):
        column = pa.chunked_array([told.to_arrow().cast(pa.string())])
        records = records.set_column(records.schema.get_field_index(name), name, column)
    return records, found.events


def empty_events() -> pl.DataFrame:
    """No events."""
    return pl.DataFrame(schema=event_schema())


def _joined(parts: Sequence[Prepared], after: int) -> Prepared:
    return Prepared(
        pa.concat_tables([part.records for part in parts]),
        pl.concat([part.events for part in parts]),
        after,
        parts[-1].position,
        tuple(note for part in parts for note in part.undecoded),
    )


def noted(entry: Record, reason: str) -> Undecoded:
    """A note about a journal record that did not make it whole."""
    return Undecoded(entry.position, entry.kind, entry.received_ns // 1000, reason[:500])


def _moment(entry: Record) -> datetime:
    return datetime.fromtimestamp(entry.received_ns / 1e9, UTC)


class Loader:
    """Moves the journal into the store, one batch after the other; the store alone knows how far it got.

    Calls are priced by `pricing`, which also prices again, a part after each batch, what is stored by other prices.
    """

    def __init__(self, journal: Journal, store: Store, pricing: Repricer | None = None) -> None:
        self._journal = journal
        self._store = store
        self.pricing = pricing or Repricer(store)
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="decode")
        self._ahead: Future[Prepared | None] | None = None
        self._failures = 0
        self._careful = range(0)
        """Positions after which only one record at a time is loaded."""

        self._failed = range(0)
        self._refused: dict[int, list[str]] = {}
        """What was said about the record after a position, each time it failed alone."""

        self.trouble: str | None = None
        """Why loading stands still, in words for `status`; None while it does not."""

    def run(self, stop: threading.Event) -> None:
        """Load until told to stop, then write everything to disk. Storage trouble is waited out, nothing is skipped."""
        quiet = 0.0
        while not stop.is_set():
            try:
                quiet = 0.0 if self._work() else self._rest(quiet, stop)
            except TROUBLE as error:
                self._recover(error, stop)
        self.close()
        try:
            self._store.checkpoint()
        except duckdb.Error as error:
            self._recover(error, stop)  # what cannot be written now is loaded again at the next start

    def catch_up(self, told: Callable[[int], None] = lambda _: None) -> None:
        """Load everything there is, telling the position after each batch."""
        never = threading.Event()
        while True:
            try:
                if not self._work():
                    self._store.refresh()
                    return
                told(self._store.position())
            except TROUBLE as error:
                self._recover(error, never)

    def _work(self) -> bool:
        """Load a batch and price a part of what is stored; False if there was nothing to do."""
        if self.pricing.turned():
            self._drop_ahead()  # it was prepared by the old prices
        loaded = self.step()
        return self.pricing.step() or loaded

    def step(self) -> bool:
        """Load the next batch; False if there is none. Raises duckdb.Error, and then has stored nothing of it."""
        ahead, self._ahead = self._ahead, None
        prepared = ahead.result() if ahead else self._read(self._store.position())
        if prepared is None:
            return False
        if prepared.position not in self._careful:
            self._ahead = self._pool.submit(self._read, prepared.position)
        try:
            self._store.append(prepared.records, prepared.events, prepared.position, prepared.undecoded)
        except duckdb.Error as error:
            self._failed = range(prepared.after, prepared.position)
            if prepared.after in self._careful:
                self._refused.setdefault(prepared.after, []).append(without_paths(error))
            raise
        self._failures = 0
        self.trouble = None
        return True

    def close(self) -> None:
        """Stop reading ahead."""
        self._pool.shutdown(cancel_futures=True)

    def _read(self, after: int) -> Prepared | None:
        """Read and prepare what comes after a position; while careful, one journal record at a time."""
        most = 1 if after in self._careful else BATCH_RECORDS
        if after < self._careful.start:
            most = min(most, self._careful.start - after)
        entries = self._journal.read(after, most, BATCH_BYTES)
        if not entries:
            return None
        refusals = self._refused.get(after, [])
        if len(refusals) >= GIVE_UP_AFTER:
            note = noted(entries[0], f"cannot be stored: {refusals[-1]}")
            return Prepared(arrow_schema(RECORDS).empty_table(), empty_events(), after, note.position, (note,))
        return prepare(entries, after, self.pricing.prices)

    def _drop_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.cancel()
            self._ahead = None

    def _rest(self, quiet: float, stop: threading.Event) -> float:
        """Nothing to load: bring the roll-ups up to date, after a while write to disk; how long it has been quiet."""
        position = self._store.position()
        if self._journal.wait(position, PAUSE_SECONDS):
            if not self._journal.read(position, 1, 1):
                # The newest record is damaged: it is counted, but there is nothing to give.
                stop.wait(PAUSE_SECONDS)
            return 0.0
        self._store.refresh()
        if quiet >= IDLE_CHECKPOINT_SECONDS and not self._store.written:
            self._store.checkpoint()
        return quiet + PAUSE_SECONDS

    def _recover(self, error: duckdb.Error | sqlite3.Error | OSError, stop: threading.Event) -> None:
        """After a failure look at what is stored, and go on from there.

        A failed commit may have been stored, so only the position in the reopened file counts. A damaged file is put
        aside. Trouble of the machine (disk, memory) is waited out; anything else comes from the data, so the records of
        the failed batch are loaded one by one, and one that fails alone again and again is noted and passed over: it
        stays in the journal.
        """
        self._failures += 1
        self.trouble = without_paths(error)
        self._drop_ahead()
        self.pricing.again()
        try:
            if shows_damage(error):
                self._store.quarantine(self.trouble)
                return
            if isinstance(error, UNUSABLE):
                self._store.reopen()
        except TROUBLE as again:
            error, self.trouble = again, without_paths(again)
        machine = not isinstance(error, duckdb.OutOfMemoryException | duckdb.FatalException)
        if isinstance(error, (*MACHINE, sqlite3.Error, OSError, duckdb.ConnectionException)) and (
            self._failures < GIVE_UP_AFTER or machine
        ):
            stop.wait(RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS)) - 1])
        elif self._failed.start not in self._careful:
            self._careful = self._failed


def rebuild(home: Path, told: Callable[[int], None] = lambda _: None) -> None:
    """Make the index of a home folder again from its journal, beside the old one, and swap it in.

    Calls are priced by what the home goes by.
    """
    prices = Prices(home).table()

    def fill(store: Store) -> None:
        with Journal(Layout(home).journal, compress=False) as journal:
            loader = Loader(journal, store, Repricer(store, prices))
            try:
                loader.catch_up(told)
            finally:
                loader.close()

    rebuild_index(home, fill)
