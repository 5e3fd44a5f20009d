"""Facts and spans as OTLP: one encoded request per record of the journal, and many of them merged into one."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from google.protobuf.message import Message
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.sdk.trace import ReadableSpan

from models.event import Event
from models.shape import JsonMap

SCOPE = "tachograph.runtime"
"""The instrumentation scope of everything the runtime sends."""

PREFIX = "agent_runtime."
LOGS, TRACES = "otlp.logs", "otlp.traces"
REQUESTS: dict[str, type[Message]] = {LOGS: ExportLogsServiceRequest, TRACES: ExportTraceServiceRequest}
LEVELS = {LOGS: ("resource_logs", "scope_logs", "log_records"), TRACES: ("resource_spans", "scope_spans", "spans")}

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SEVERITIES = {
    "INFO": SeverityNumber.SEVERITY_NUMBER_INFO,
    "WARN": SeverityNumber.SEVERITY_NUMBER_WARN,
    "ERROR": SeverityNumber.SEVERITY_NUMBER_ERROR,
}
OWN_FIELDS = frozenset({"type", "timestamp", "payload"})
"""Fields of the envelope that a log record has a place of its own for, as it has for a span's ids."""

MAPS = frozenset(name for name, field in Event.model_fields.items() if field.annotation == JsonMap | None)
"""Fields of the envelope that travel as JSON text."""

TRACE_ID_BYTES, SPAN_ID_BYTES = 16, 8


def nanoseconds(moment: datetime) -> int:
    """A moment as OTLP counts it; exact, where a float would round."""
    return (moment - EPOCH) // timedelta(microseconds=1) * 1000


class LogEncoder:
    """Encodes facts of one runtime, whose resource and scope never change."""

    def __init__(self, resource: Mapping[str, Any], version: str) -> None:
        self._resource = Resource(attributes=attributes(resource))
        self._scope = InstrumentationScope(name=SCOPE, version=version)

    def encode(self, event: Event, observed: datetime) -> bytes:
        """A request that holds the one fact."""
        scoped = ScopeLogs(scope=self._scope, log_records=[_log_record(event, observed)])
        whole = ExportLogsServiceRequest(resource_logs=[ResourceLogs(resource=self._resource, scope_logs=[scoped])])
        return whole.SerializeToString()


def _log_record(event: Event, observed: datetime) -> LogRecord:
    severity = _severity(event.type)
    trace_id, span_id = _binary(event.trace_id, TRACE_ID_BYTES), _binary(event.span_id, SPAN_ID_BYTES)
    return LogRecord(
        time_unix_nano=nanoseconds(event.timestamp),
        observed_time_unix_nano=nanoseconds(observed),
        severity_number=SEVERITIES[severity],
        severity_text=severity,
        event_name=event.type,
        body=AnyValue(string_value=event.payload.model_dump_json()),
        attributes=attributes(_envelope(event)),
        trace_id=trace_id,
        span_id=span_id,
        flags=1 if span_id else 0,
    )


def _binary(id_text: str | None, size_bytes: int) -> bytes:
    """An id of a trace or span as OTLP has it; empty where it is none, and then it travels as an attribute."""
    try:
        binary = bytes.fromhex(id_text or "")
    except ValueError:
        return b""
    return binary if len(binary) == size_bytes and any(binary) else b""


def _severity(event_type: str) -> str:
    if event_type == "runtime.error" or event_type.endswith(".failed"):
        return "ERROR"
    return "WARN" if event_type == "runtime.warning" else "INFO"


def _envelope(event: Event) -> dict[str, Any]:
    own = OWN_FIELDS | {
        name
        for name, size_bytes in (("trace_id", TRACE_ID_BYTES), ("span_id", SPAN_ID_BYTES))
        if _binary(getattr(event, name), size_bytes)
    }
    return {PREFIX + name: _plain(value) for name, value in event if value is not None and name not in own}


def _plain(value: object) -> object:
    """A value as an attribute: maps and lists travel as JSON text."""
    return orjson.dumps(value).decode() if isinstance(value, dict | list | tuple) else value


def decode_fact(body: bytes) -> Event:
    """The event that `LogEncoder.encode` made a request of."""
    record = ExportLogsServiceRequest.FromString(body).resource_logs[0].scope_logs[0].log_records[0]
    envelope: dict[str, Any] = {
        "type": record.event_name,
        "timestamp": EPOCH + timedelta(microseconds=record.time_unix_nano // 1000),
        "payload": orjson.loads(record.body.string_value),
    }
    if record.span_id:
        envelope |= {"trace_id": record.trace_id.hex(), "span_id": record.span_id.hex()}
    for pair in record.attributes:
        name = pair.key.removeprefix(PREFIX)
        value = getattr(pair.value, pair.value.WhichOneof("value") or "string_value")
        envelope[name] = orjson.loads(value) if name in MAPS else value
    return Event.from_json(envelope)


def attributes(values: Mapping[str, Any]) -> list[KeyValue]:
    """OTLP attributes of plain values."""
    return [KeyValue(key=key, value=_any_value(value)) for key, value in values.items()]


def _any_value(value: object) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, list | tuple):
        return AnyValue(array_value=ArrayValue(values=[_any_value(one) for one in value]))
    return AnyValue(string_value=str(value))


def encode_span(span: ReadableSpan) -> bytes:
    """A request that holds the one finished span."""
    return encode_spans([span]).SerializeToString()


def merge(kind: str, bodies: Sequence[bytes]) -> bytes:
    """Requests of one kind as one, in order; neighbours of the same resource and scope tell those only once."""
    if len(bodies) == 1:
        return bodies[0]
    resources, scopes, records = LEVELS[kind]
    whole = REQUESTS[kind]()
    for body in bodies:
        _add(getattr(whole, resources), getattr(REQUESTS[kind].FromString(body), resources), scopes, records)
    return whole.SerializeToString()


def _add(held: Any, more: Iterable[Any], scopes: str, records: str) -> None:
    for resource in more:
        if not (held and held[-1].resource == resource.resource and held[-1].schema_url == resource.schema_url):
            held.append(resource)
            continue
        inside = getattr(held[-1], scopes)
        for scope in getattr(resource, scopes):
            if inside and inside[-1].scope == scope.scope and inside[-1].schema_url == scope.schema_url:
                getattr(inside[-1], records).extend(getattr(scope, records))
            else:
                inside.append(scope)
