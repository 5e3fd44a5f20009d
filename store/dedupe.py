"""Which records of a batch are already stored: the promise that delivering twice stores once.

The table itself is the authority, so the answer is the same after a restart. A record delivered again has the same time
as the first time, because both its id and its time come from what was sent; so only rows whose time lies within the
batch's own times are looked at, and of records with outlying times only the rows near those. Records that carry no time
at all (they get the time of receipt, which differs) are looked up by id among their like.
"""

from dataclasses import dataclass

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from store.windows import windows, within


@dataclass(frozen=True, slots=True)
class Fresh:
    """What of a batch is new."""

    records: pa.Table
    events: pl.DataFrame
    duplicates: int
    """Records that were not new."""


def only_new(connection: duckdb.DuckDBPyConnection, records: pa.Table, events: pl.DataFrame) -> Fresh:
    """Leave out records that are stored already or come twice in the batch, and the events made of them."""
    incoming = records.num_rows
    twice = _distinct(records) < incoming
    if twice:
        records = _first_of_each(records)
    stored = _stored_ids(connection, records)
    if stored:
        records = records.filter(
            pc.invert(pc.is_in(records["record_id"], value_set=pa.array(list(stored), pa.string())))
        )
        events = events.filter(~pl.col("record_id").is_in(list(stored)))
    return Fresh(records, _new_events(connection, events, twice), incoming - records.num_rows)


def _distinct(records: pa.Table) -> int:
    return int(pc.count_distinct(records["record_id"]).as_py())


def _first_of_each(records: pa.Table) -> pa.Table:
    firsts = pl.DataFrame({"id": pl.from_arrow(records["record_id"])}).with_row_index("at").unique("id", keep="first")
    return records.take(pa.array(firsts["at"].sort().to_arrow()))


def _stored_ids(connection: duckdb.DuckDBPyConnection, records: pa.Table) -> set[str]:
    """Ids of the batch that the table holds."""
    undated = pc.and_(pc.is_null(records["time_ns"]), pc.is_null(records["observed_ns"]))
    some_undated = bool(pc.any(undated).as_py())
    dated = records.filter(pc.invert(undated)) if some_undated else records
    found = _ids_within(connection, "records", "record_id", "time", dated["record_id"], dated["time"])
    if some_undated:
        ids = records.filter(undated)["record_id"]
        found |= _ids_where(connection, "records", "record_id", "time_ns is null and observed_ns is null", ids)
    return found


def _new_events(connection: duckdb.DuckDBPyConnection, events: pl.DataFrame, twice: bool) -> pl.DataFrame:
    """Leave out events of our own runtime that are stored: they keep their id, whichever way they come."""
    own = events.filter((pl.col("signal") == "event") | (pl.col("dialect") == "agent_runtime"))
    if twice or not own.is_empty():
        events = events.unique("event_id", keep="first", maintain_order=True)
    if not own.is_empty():
        arrow = own.select("event_id", "timestamp").to_arrow()
        stored = _ids_within(connection, "events", "event_id", "timestamp", arrow["event_id"], arrow["timestamp"])
        if stored:
            events = events.filter(~pl.col("event_id").is_in(list(stored)))
    return events


def _ids_within(
    connection: duckdb.DuckDBPyConnection,
    table: str,
    id_column: str,
    time_column: str,
    ids: pa.ChunkedArray,
    times: pa.ChunkedArray,
) -> set[str]:
    if len(ids) == 0:
        return set()
    micros = times.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy().astype(np.int64)
    return _ids_where(connection, table, id_column, within(time_column, windows(micros)), ids)


def _ids_where(
    connection: duckdb.DuckDBPyConnection, table: str, id_column: str, condition: str, ids: pa.ChunkedArray
) -> set[str]:
    connection.register("incoming_ids", pa.table({"id": ids}))
    rows = connection.execute(
        f"select {id_column} from {table} where {condition} and {id_column} in (select id from incoming_ids)"  # noqa: S608
    ).fetchall()
    connection.unregister("incoming_ids")
    return {row[0] for row in rows}
