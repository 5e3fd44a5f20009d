"""The one writer of the index: appends batches exactly once and decides when they reach the disk."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from models.errors import Locked
from models.failpoints import reached
from store import database, dedupe, migrations, quarantine, rollup
from store.layout import Layout
from store.lock import FileLock
from store.schema import EVENTS, RECORDS, UNDECODED, Column, arrow_schema, as_json

ROW_GROUP = 122_880
"""Rows of a DuckDB row group. A checkpoint of whole groups writes each once; of halves, twice."""

CHECKPOINT_BYTES = 512 * 1024 * 1024
CHECKPOINT_SHARE = 4
"""What is not checkpointed lies in memory uncompressed, so large records bring the checkpoint forward: at so many
bytes, or at a quarter of the memory that DuckDB may use."""


DATA_ERRORS = (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException)

REFRESH_SECONDS = 0.5
REFRESH_REST = 12.0
REFRESH_LATEST_SECONDS = 5.0
"""How far the roll-ups may fall behind while batches follow each other: half a second, or as many times the last
refresh's cost as keeps refreshing a small part of the work, but never longer; see `store.rollup` for the reason."""


@dataclass(frozen=True, slots=True)
class Appended:
    """What a call stored."""

    records: int
    duplicates: int
    events: int


@dataclass(frozen=True, slots=True)
class Undecoded:
    """A journal record that could not be decoded."""

    position: int
    kind: str
    received_us: int
    reason: str


class Store:
    """The index, open for writing by this process alone.

    Exactly once: a batch's records, events and journal position are stored in one transaction; what was stored before
    is left out, whenever and in whatever batches it comes again. After any failure `position()` of a reopened store
    says what is in it. The roll-ups follow within half a second, and in the file they are never behind.
    Not durable by itself: rows since the last checkpoint are lost with the process, and with them the position, so the
    journal brings them again.
    """

    def __init__(
        self,
        path: Path,
        *,
        lock: FileLock | None = None,
        threads: int | None = None,
        memory_limit: str = database.MEMORY_LIMIT,
    ) -> None:
        self.path = path
        self._lock = lock
        self._threads = threads
        self._memory_limit = memory_limit
        self._written = True
        self._pending_rows = 0
        self._pending_bytes = 0
        self._merging = True
        """Whether checkpoints may merge small row groups: until that once needed more memory than there is."""

        self._stale: list[tuple[pa.Table, pl.DataFrame]] = []
        self._stale_since = 0.0
        self._refresh_cost_s = 0.0
        self.trouble: str | None = None
        """Why sessions do not show all rows, in words for `status`; None while they do."""

        self._connection = self._connect()
        asked = "select parse_formatted_bytes(current_setting('memory_limit'))"
        limit_bytes = int(self._connection.execute(asked).fetchall()[0][0])
        self._checkpoint_bytes = min(CHECKPOINT_BYTES, limit_bytes // CHECKPOINT_SHARE)

    @classmethod
    def open(cls, home: Path, *, threads: int | None = None, memory_limit: str = database.MEMORY_LIMIT) -> Self:
        """The index of a home folder, made or brought forward as needed.

        A file that will not open is put in quarantine and an empty one begun: position 0, the journal fills it. Raises
        Locked if another process has it and SchemaTooNew if a newer program wrote it.
        """
        layout = Layout(home)
        lock = FileLock(layout.lock)
        try:
            try:
                return cls(layout.database, lock=lock, threads=threads, memory_limit=memory_limit)
            except duckdb.Error as error:
                set_aside_if_damaged(layout, layout.database, error)
                return cls(layout.database, lock=lock, threads=threads, memory_limit=memory_limit)
        except BaseException:
            lock.close()
            raise

    def _connect(self) -> duckdb.DuckDBPyConnection:
        if self.path.exists():
            migrations.migrate(self.path)
        connection = database.connect(self.path, threads=self._threads, memory_limit=self._memory_limit)
        try:
            if migrations.version_of(connection) is None:
                migrations.create(connection)
            if migrations.install_relations(connection):
                connection.execute(f"checkpoint {database.CATALOG}")
        except BaseException:
            connection.close()
            raise
        return connection

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """A connection for another thread of this process, hardened as the writer's own; close it after use."""
        return database.cursor(self._connection)

    def position(self) -> int:
        """The last journal record whose content is in the tables."""
        self._roll_back()
        return int(self._connection.execute("select position from progress").fetchall()[0][0])

    @property
    def written(self) -> bool:
        """Whether everything appended has reached the disk."""
        return self._written

    def append(
        self,
        records: pa.Table,
        events: pa.Table | pl.DataFrame,
        position: int,
        undecoded: Sequence[Undecoded] = (),
    ) -> Appended:
        """Store a batch that ends at a journal position, leaving out what is stored already.

        Raises without having stored anything, except where DuckDB itself fails in the commit; then `reopen` and compare
        `position()` before trying again.
        """
        frame = pl.DataFrame(pl.from_arrow(events)) if isinstance(events, pa.Table) else events
        connection = self._connection
        self._begin()
        try:
            fresh = dedupe.only_new(connection, records, _with_signal(frame, records))
            self._insert(fresh, position, undecoded)
            reached("store.inserted")
            connection.execute("commit")
        except BaseException:
            self._roll_back()
            raise
        reached("store.committed")
        self._written = False
        self._note_pending(fresh)
        large = self._pending_bytes >= self._checkpoint_bytes
        if large:
            self._merging = False  # rows so large would be merged uncompressed, all of a group in memory
        if large or self._pending_rows >= ROW_GROUP:
            self._write(merging=self._merging)
        elif self._refresh_is_due():
            self.refresh()
        return Appended(fresh.records.num_rows, fresh.duplicates, fresh.events.height)

    def _note_pending(self, fresh: dedupe.Fresh) -> None:
        if not self._stale:
            self._stale_since = time.monotonic()
        if fresh.records.num_rows or fresh.events.height:
            self._stale.append((fresh.records.select(rollup.RECORD_KEYS), fresh.events.select(rollup.EVENT_KEYS)))
        self._pending_rows += fresh.records.num_rows
        self._pending_bytes += fresh.records.nbytes

    @property
    def stale(self) -> bool:
        """Whether rows were appended that `sessions` and the other roll-ups do not show yet."""
        return bool(self._stale)

    def _refresh_is_due(self) -> bool:
        rest = min(max(REFRESH_SECONDS, REFRESH_REST * self._refresh_cost_s), REFRESH_LATEST_SECONDS)
        return time.monotonic() - self._stale_since > rest

    def refresh(self) -> None:
        """Bring sessions, costs and gaps up to date with all appended rows.

        `append` calls it when it is due; a caller with nothing more to append calls it at once.
        """
        if not self._stale:
            return
        records = pa.concat_tables([records for records, _ in self._stale], promote_options="permissive")
        events = pl.concat([events for _, events in self._stale])
        started = time.monotonic()
        self._begin()
        try:
            rollup.refresh(self._connection, records, events.to_arrow())
            self._connection.execute("commit")
            self.trouble = None
        except DATA_ERRORS as error:
            # The rows are stored; what a value does to the roll-up is told and must not stop the load.
            self._roll_back()
            rollup.note_incomplete(self._connection)
            self.trouble = f"sessions are behind: {database.without_paths(error)}"
        except BaseException:
            self._roll_back()
            raise
        self._stale.clear()
        self._refresh_cost_s = time.monotonic() - started

    def _insert(self, fresh: dedupe.Fresh, position: int, undecoded: Sequence[Undecoded]) -> None:
        connection = self._connection
        incoming = {"incoming_records": as_json(fresh.records, RECORDS), "incoming_events": fresh.events}
        with database.registered(connection, **incoming):
            if fresh.records.num_rows or fresh.events.height:
                _insert_rows(connection, "records", RECORDS)
                _insert_rows(connection, "events", EVENTS)
                _note_truncations(connection, fresh.records)
        if undecoded:
            _note_undecoded(connection, undecoded)
        connection.execute(
            "update progress set position = ?, records = records + ?, events = events + ?, "
            "duplicates = duplicates + ?, undecoded = undecoded + ?",
            [position, fresh.records.num_rows, fresh.events.height, fresh.duplicates, len(undecoded)],
        )

    def _begin(self) -> None:
        self._roll_back()
        self._connection.execute("begin")

    def _roll_back(self) -> None:
        """End a failed transaction; also before the next, because without memory even that may have failed."""
        try:
            self._connection.execute("rollback")
        except duckdb.Error:
            # There is none, or the failure ended the whole database instance; the first error says so.
            return

    def checkpoint(self) -> None:
        """Write everything to the file, with the roll-ups up to date, and tidy it.

        Each checkpoint begins a row group, and DuckDB merges small ones when it writes the next, in memory and
        uncompressed. With large rows that may be more than there is, and a checkpoint that fails takes all that it was
        to write with it. So everything is written first; then a second one merges, with nothing to lose.
        """
        self._write(merging=False)
        if self._merging:
            self._connection.execute("update progress set position = position")  # else there is nothing to write
            try:
                self._write(merging=True)
            except duckdb.Error as error:
                if not database.lacks_memory(error):
                    raise
                self.reopen()

    def _write(self, *, merging: bool) -> None:
        self.refresh()
        reached("store.checkpointing")
        database.merging(self._connection, merging)
        try:
            self._connection.execute(f"checkpoint {database.CATALOG}")
        except duckdb.Error as error:
            self._merging = self._merging and not database.lacks_memory(error)
            raise
        reached("store.checkpointed")
        self._written = True
        self._pending_rows = 0
        self._pending_bytes = 0

    def reopen(self) -> int:
        """Open the file anew after a failure, and tell the position it holds.

        Rows since the last checkpoint are gone, with their position. A file that will not open any more is put in
        quarantine and an empty one begun.
        """
        self._connection.close()
        self._written = True
        self._pending_rows = 0
        self._pending_bytes = 0
        self._stale.clear()
        try:
            self._connection = self._connect()
        except duckdb.Error as error:
            set_aside_if_damaged(Layout(self.path.parent.parent), self.path, error)
            self._connection = self._connect()
        return self.position()

    def quarantine(self, reason: str) -> None:
        """Put the file aside because reading it showed damage, and begin an empty one."""
        self._connection.close()
        quarantine.set_aside(Layout(self.path.parent.parent), self.path, reason)
        self.reopen()

    def close(self) -> None:
        """Write everything and let go of the file."""
        try:
            if not self._written:
                self.checkpoint()
        finally:
            self._connection.close()
            if self._lock is not None:
                self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def set_aside_if_damaged(layout: Layout, path: Path, error: duckdb.Error) -> None:
    """Quarantine the file if the error speaks of it; raise if it speaks of something else."""
    if "Conflicting lock" in str(error):
        raise Locked(path, next_step="close the program that reads the file") from None
    machine = (duckdb.IOException, duckdb.FatalException, duckdb.OutOfMemoryException, duckdb.PermissionException)
    if not path.exists() or (isinstance(error, machine) and not database.shows_damage(error)):
        raise error
    quarantine.set_aside(layout, path, database.without_paths(error))


def _with_signal(events: pl.DataFrame, records: pa.Table) -> pl.DataFrame:
    """Fill in the signal of the record each event was made from, where the maker left it out."""
    if "signal" in events.columns and not events["signal"].null_count():
        return events
    signals: Any = pl.from_arrow(records.select(["record_id", "signal"]))
    signals = signals.unique("record_id").rename({"signal": "record_signal"})
    known = pl.col("signal") if "signal" in events.columns else pl.lit(None, pl.String)
    joined = events.join(signals, on="record_id", how="left", maintain_order="left")
    return joined.with_columns(signal=pl.coalesce(known, "record_signal")).drop("record_signal")


def _insert_rows(connection: duckdb.DuckDBPyConnection, table: str, columns: tuple[Column, ...]) -> None:
    """Insert what is registered as incoming, by one thread.

    Left to itself DuckDB inserts with several and then brings their parts together, which costs three times as much
    as the insert. A join by position, here with nothing, is a source that cannot be read in parallel.
    """
    names = ", ".join(column.name for column in columns)
    connection.execute(
        f"insert into {table} ({names}) select {names} from incoming_{table} "  # noqa: S608
        "positional join (select 1 as nothing where false)"
    )


def _note_truncations(connection: duckdb.DuckDBPyConnection, records: pa.Table) -> None:
    """Keep which records the sender cut short; a plain text search decides first, because nearly none are."""
    extra = records["extra"]
    if extra.null_count == len(extra) or not pc.any(pc.match_substring(extra, '"dropped_')).as_py():
        return
    connection.execute("""
        insert into truncations (record_id, time, trace_id, session_key, dropped)
        select record_id, time, trace_id, session_key, to_json(map_from_entries(dropped)) from (
            select record_id, time, trace_id, session_key, list_filter(
                list_transform(json_keys(extra), lambda k: {'key': k, 'value': try_cast(extra ->> k as bigint)}),
                lambda pair: starts_with(pair.key, 'dropped_') and pair.value > 0
            ) as dropped
            from incoming_records where contains(extra, '"dropped_')
        ) where len(dropped) > 0
    """)


def _note_undecoded(connection: duckdb.DuckDBPyConnection, undecoded: Sequence[Undecoded]) -> None:
    rows = [
        {"position": one.position, "kind": one.kind, "received": one.received_us, "reason": one.reason}
        for one in undecoded
    ]
    connection.register("incoming_undecoded", pa.Table.from_pylist(rows, schema=arrow_schema(UNDECODED)))
    _insert_rows(connection, "undecoded", UNDECODED)
    connection.unregister("incoming_undecoded")
