"""Reads JSON lines of event envelopes (`POST /v1/events`, our own export) into records."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

import orjson
import pyarrow as pa
from pydantic_core import to_json

from ingest.batch import Batch
from ingest.event_check import EPOCH, json_object
from models.errors import MalformedInput
from models.event import Event
from store.schema import RECORDS, arrow_schema

PREFIX = "agent_runtime."
"""Envelope fields become attributes of this prefix, as our runtime sends them over OTLP: one form for one dialect."""

OWN_COLUMNS = frozenset({"type", "timestamp", "payload"})
"""Parts of the envelope that have a column of their own in `records`."""


def decode_lines(body: bytes, *, journal_position: int, received: datetime) -> Batch:
    """One record per line that is not blank, in either spelling; a line that is no event is kept as it came."""
    lines = (line for line in body.split(b"\n") if line.strip())
    return records_of(lines, journal_position=journal_position, received=received)


def records_of(lines: Iterable[bytes], *, journal_position: int, received: datetime) -> Batch:
    """Records of single lines."""
    moment = received.astimezone(UTC).replace(tzinfo=None)
    shared = {"signal": "event", "received": moment, "time": moment, "journal_position": journal_position}
    shared |= {"resource": "{}", "attributes": "{}"}
    rows = [shared | row | {"ordinal": place} for place, row in enumerate(_rows(lines))]
    columns = {column.name: [row.get(column.name) for row in rows] for column in RECORDS}
    return Batch.of_table(pa.Table.from_pydict(columns, schema=arrow_schema(RECORDS)))


def _rows(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    seen: Counter[bytes] = Counter()
    for line in lines:
        try:
            yield _row(Event.from_json(json_object(line)))
        except (orjson.JSONDecodeError, MalformedInput):
            digest = blake2b(line, digest_size=16)
            yield {
                "record_id": f"line:{digest.hexdigest()}:{seen[line]}",
                "body": orjson.dumps(line.decode(errors="replace")).decode(),
            }
            seen[line] += 1


def _row(event: Event) -> dict[str, Any]:
    envelope = event.model_dump(mode="json", by_alias=False)
    attributes = {PREFIX + name: value for name, value in envelope.items() if name not in OWN_COLUMNS}
    return {
        "record_id": event.event_id,
        "time": event.timestamp.replace(tzinfo=None),
        "time_ns": (event.timestamp - EPOCH) // timedelta(microseconds=1) * 1000,
        "name": event.type,
        "trace_id": event.trace_id,
        "span_id": event.span_id,
        "session_key": event.session_id,
        "attributes": to_json(attributes).decode(),  # whole numbers of any size
        "body": to_json(event.payload, by_alias=False).decode() if "payload" in event.model_fields_set else None,
    }
