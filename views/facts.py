"""Events as they were told, read back from the tables: the envelope's columns, and what only the record kept of it."""

from collections.abc import Iterator
from datetime import UTC
from typing import Any

import orjson
import polars as pl

from models.event import Beside, Correlation, Event, Head

PREFIX = "agent_runtime."
COLUMNS = ("type", "event_id", "timestamp", "sequence", "payload", "refs")
ENVELOPE = frozenset({*Head.model_fields, *Correlation.model_fields, *Beside.model_fields})


def events_of(frame: pl.DataFrame) -> Iterator[Event]:
    """Each row of `events`, with the column `attributes` of its record where there is one, as an event."""
    for row in frame.iter_rows(named=True):
        yield _event(row)


def _event(row: dict[str, Any]) -> Event:
    told = {name: row[name] for name in Correlation.model_fields if row.get(name) is not None}
    told |= {name: row[name] for name in ("type", "event_id", "sequence", "schema_version") if row[name] is not None}
    beside = orjson.loads(row["attributes"]) if row.get("attributes") else {}
    for key, value in beside.items():
        name = key.removeprefix(PREFIX)
        if key.startswith(PREFIX) and name in ENVELOPE and name not in told and name not in COLUMNS:
            told[name] = _plain(name, value)
    return Event.from_json(
        {
            **told,
            "timestamp": row["timestamp"].replace(tzinfo=UTC),
            "payload": orjson.loads(row["payload"]) if row["payload"] else None,
            "refs": orjson.loads(row["refs"]) if row["refs"] else None,
        }
    )


def _plain(name: str, value: Any) -> Any:
    """Maps travel as JSON text."""
    if name in Beside.model_fields and isinstance(value, str) and value[:1] in "{[":
        return orjson.loads(value)
    return value
