"""Spans as the OpenTelemetry SDKs print them (`spans` with `context` and `attributes`), brought into OTLP."""

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from ingest.importers.importer import Importer, Piece, Problem
from ingest.importers.json_text import moment_ns, table, text_of
from ingest.importers.transcript import MAX_DOCUMENT_BYTES
from models.errors import MalformedInput

MARK = re.compile(rb'"context"\s*:\s*\{.*"(?:trace_id|span_id)"\s*:|"spans"\s*:\s*\[\s*\{', re.DOTALL)
KINDS = {"internal": 1, "server": 2, "client": 3, "producer": 4, "consumer": 5}
STATUSES = {"unset": 0, "ok": 1, "error": 2}
TRACE_DIGITS, SPAN_DIGITS = 32, 16


class SpanDump(Importer, name="span dump"):
    """One document of spans; the conventions of their attributes are read as from any sender."""

    def recognises(self, path: Path, head: bytes) -> bool:
        """By a span's context, or a list of spans."""
        return path.name.endswith(".json") and head.lstrip()[:1] in (b"{", b"[") and MARK.search(head) is not None

    def read(self, path: Path, content: io.BufferedIOBase, *, after: int = 0) -> Iterator[Piece | Problem]:
        """One OTLP request; a span without ids costs itself."""
        value = _document(content)
        spans = value if isinstance(value, list) else table(value).get("spans") or [value]
        resources: dict[bytes, dict[str, Any]] = {}
        for place, span in enumerate(spans, 1):
            converted = _span(table(span))
            if converted is None:
                yield Problem(path, place, f"span {place} has no trace and span id")
                continue
            attributes = table(table(table(span).get("resource")).get("attributes"))
            group = resources.setdefault(orjson.dumps(attributes), {"attributes": _pairs(attributes), "spans": []})
            group["spans"].append(converted)
        if resources:
            yield Piece(
                "traces", "json", orjson.dumps({"resourceSpans": [*map(_resource, resources.values())]}), (1, 1)
            )


def _document(content: io.BufferedIOBase) -> Any:
    """The parsed file, by a reader that keeps trace ids of 128 bits as whole numbers."""
    try:
        return json.loads(content.read(MAX_DOCUMENT_BYTES))
    except (ValueError, RecursionError):
        raise MalformedInput("not JSON, or too large") from None


def _resource(group: dict[str, Any]) -> dict[str, Any]:
    return {"resource": {"attributes": group["attributes"]}, "scopeSpans": [{"scope": {}, "spans": group["spans"]}]}


def _span(span: dict[str, Any]) -> dict[str, Any] | None:
    context, parent = table(span.get("context")), span.get("parent") or span.get("parent_id")
    trace_id = _id(context.get("trace_id"), TRACE_DIGITS)
    span_id = _id(context.get("span_id"), SPAN_DIGITS)
    if trace_id is None or span_id is None:
        return None
    parent_id = _id(parent.get("span_id") if isinstance(parent, dict) else parent, SPAN_DIGITS)
    status = table(span.get("status"))
    code = str(status.get("status_code") or "unset").lower().rsplit(".", 1)[-1]
    made = {
        "traceId": trace_id,
        "spanId": span_id,
        "parentSpanId": parent_id,
        "name": text_of(span.get("name")) or "",
        "kind": KINDS.get(str(span.get("kind")).lower().rsplit(".", 1)[-1], 0),
        "startTimeUnixNano": _nanoseconds(span.get("start_time")),
        "endTimeUnixNano": _nanoseconds(span.get("end_time")),
        "status": {"code": STATUSES.get(code, 0), "message": status.get("description") or ""},
        "attributes": _pairs(table(span.get("attributes"))),
        "events": [_event(table(event)) for event in span.get("events") or []],
    }
    return {key: value for key, value in made.items() if value is not None}


def _event(event: dict[str, Any]) -> dict[str, Any]:
    made = {
        "name": text_of(event.get("name")) or "",
        "timeUnixNano": _nanoseconds(event.get("timestamp")),
        "attributes": _pairs(table(event.get("attributes"))),
    }
    return {key: value for key, value in made.items() if value is not None}


def _id(value: Any, digits: int) -> str | None:
    """An id printed as a number, or as hex with or without 0x."""
    if isinstance(value, float):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value % 16**digits:0{digits}x}" if value else None
    text = str(value or "").removeprefix("0x").lower()
    return text.zfill(digits) if re.fullmatch(rf"[0-9a-f]{{1,{digits}}}", text) else None


def _nanoseconds(value: Any) -> str | None:
    """A time in nanoseconds, or as text."""
    if isinstance(value, int) and value > 10**15:
        return str(value)
    told = moment_ns(value)
    return None if told is None else str(told)


def _pairs(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)} if -(2**63) <= value < 2**63 else {"stringValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(inner) for inner in value]}}
    if isinstance(value, dict):
        return {"kvlistValue": {"values": _pairs(value)}}
    return {"stringValue": "" if value is None else str(value)}
