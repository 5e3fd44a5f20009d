"""Hand-made records and events: every column, of which a test names only those it is about."""

from typing import Any

import polars as pl
import pyarrow as pa

from store.schema import EVENTS, RECORDS, arrow_schema

BASE_US = 1_763_450_000_000_000
SECOND_NS = 1_000_000_000


def record(record_id: str, second: float = 0.0, **columns: Any) -> dict[str, Any]:
    """A record so many seconds after the base time."""
    time_us = BASE_US + round(second * 1_000_000)
    return {
        "record_id": record_id,
        "signal": "span",
        "time": time_us,
        "time_ns": time_us * 1000,
        "received": time_us,
        "attributes": "{}",
        "journal_position": 1,
        "ordinal": 0,
    } | columns


def event(event_id: str, type: str, second: float = 0.0, **columns: Any) -> dict[str, Any]:
    """An event so many seconds after the base time."""
    time_us = BASE_US + round(second * 1_000_000)
    return {
        "event_id": event_id,
        "type": type,
        "timestamp": time_us,
        "time_ns": time_us * 1000,
        "record_id": f"record of {event_id}",
        "signal": "span",
        "dialect": "gen_ai",
        "journal_position": 1,
    } | columns


def records(*rows: dict[str, Any]) -> pa.Table:
    """A table with the columns of `records`."""
    return pa.Table.from_pylist(list(rows), schema=arrow_schema(RECORDS))


def events(*rows: dict[str, Any]) -> pl.DataFrame:
    """A frame with the columns of `events`."""
    return pl.DataFrame(pl.from_arrow(pa.Table.from_pylist(list(rows), schema=arrow_schema(EVENTS))))


def spans(count: int, *, first: int = 0, session: str = "s", per_trace: int = 10) -> tuple[pa.Table, pl.DataFrame]:
    """So many model spans and their events, numbered from `first`; all of a trace lie below its first span."""
    made = []
    told = []
    for at in range(first, first + count):
        root = at - at % per_trace
        ids = {
            "trace_id": f"{root:032x}",
            "span_id": f"{at + 1:016x}",
            "parent_span_id": None if at == root else f"{root + 1:016x}",
        }
        name = f"{ids['trace_id']}:{ids['span_id']}"
        made.append(record(name, at / 1000, session_key=session, dialect="gen_ai", service_name="svc", **ids))
        kind = "turn.completed" if at == root else "model.completed"
        told.append(event(f"e:{name}", kind, at / 1000, record_id=name, session_id=session, output_tokens=1, **ids))
    return records(*made), events(*told)
