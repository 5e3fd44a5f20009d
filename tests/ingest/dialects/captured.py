"""Turns captured OTLP/JSON into records, so that dialects are tested apart from the decoder."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from ingest.batch import Batch
from store.schema import RECORDS, arrow_schema

KINDS = {0: "unspecified", 1: "internal", 2: "server", 3: "client", 4: "producer", 5: "consumer"}
STATUS = {0: "unset", 1: "ok", 2: "error"}


def batch(rows: Iterable[dict[str, Any]]) -> Batch:
    """A batch of records given as dicts; attributes, bodies and the like as plain values."""
    full = []
    for number, row in enumerate(rows):
        given: dict[str, Any] = {
            "record_id": f"r{number}",
            "signal": "span",
            "journal_position": 1,
            "ordinal": number,
        } | row
        for key in ("attributes", "body", "span_events", "resource"):
            if key in given and not isinstance(given[key], str):
                given[key] = json.dumps(given[key])
        given.setdefault("time", given.get("time_ns", 0) // 1000)
        full.append({column.name: given.get(column.name) for column in RECORDS})
    return Batch.of_table(pa.Table.from_pylist(full, schema=arrow_schema(RECORDS)))


def run(folder: Path) -> Batch:
    """All spans and log records of one captured run."""
    return batch([*_spans(folder), *_logs(folder)])


def _bodies(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.json")):
        if path.name.endswith(".decoded.json") or not path.with_suffix("").with_suffix(".decoded.json").exists():
            yield json.loads(path.read_text())


def _spans(folder: Path) -> Iterator[dict[str, Any]]:
    for body in _bodies(folder / "traces"):
        for resource in body["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                for span in scope["spans"]:
                    yield {
                        "record_id": f"{span['traceId']}:{span['spanId']}",
                        "signal": "span",
                        "scope_name": scope.get("scope", {}).get("name"),
                        "name": span["name"],
                        "kind": KINDS[_number(span.get("kind", 0))],
                        "time_ns": int(span["startTimeUnixNano"]),
                        "end_ns": int(span["endTimeUnixNano"]),
                        "trace_id": span["traceId"].lower(),
                        "span_id": span["spanId"].lower(),
                        "parent_span_id": span.get("parentSpanId", "").lower() or None,
                        "status": STATUS[_number(span.get("status", {}).get("code", 0))],
                        "status_message": span.get("status", {}).get("message"),
                        "attributes": _attributes(span),
                        "span_events": [
                            {"name": e["name"], "attributes": _attributes(e)} for e in span.get("events", [])
                        ],
                    }


def _logs(folder: Path) -> Iterator[dict[str, Any]]:
    for number, body in enumerate(_bodies(folder / "logs")):
        for resource in body["resourceLogs"]:
            for scope in resource["scopeLogs"]:
                for place, log in enumerate(scope["logRecords"]):
                    attributes = _attributes(log)
                    yield {
                        "record_id": f"log:{number}:{scope.get('scope', {}).get('name')}:{place}",
                        "signal": "log",
                        "scope_name": scope.get("scope", {}).get("name"),
                        "name": log.get("eventName") or attributes.get("event.name"),
                        "time_ns": int(log.get("timeUnixNano") or log.get("observedTimeUnixNano")),
                        "trace_id": log.get("traceId", "").lower() or None,
                        "span_id": log.get("spanId", "").lower() or None,
                        "attributes": attributes,
                        "body": _value(log.get("body")),
                    }


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _attributes(item: dict[str, Any]) -> dict[str, Any]:
    return {pair["key"]: _value(pair.get("value")) for pair in item.get("attributes") or []}


def _value(value: Any) -> Any:
    match value:
        case {"arrayValue": inner}:
            return [_value(one) for one in inner.get("values", [])]
        case {"kvlistValue": inner}:
            return {pair["key"]: _value(pair.get("value")) for pair in inner.get("values", [])}
        case {"intValue": number}:
            return int(number)
        case {**one} if one:
            return next(iter(one.values()))
        case _:
            return None
