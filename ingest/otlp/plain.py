"""Decodes requests record by record with upb: for metrics, for whatever ptars refuses, and to check ptars against."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from ingest.batch import Dtype, Part, from_text
from ingest.otlp import points
from ingest.otlp.columns import TEXT
from ingest.otlp.identity import around_points, log_ids, numbered
from ingest.otlp.levels import Levels, Request
from ingest.otlp.names import SEVERITIES, SPAN_KINDS, STATUSES, lookup
from ingest.otlp.signals import SIGNALS, SignalName
from ingest.otlp.values import number_text, object_text, quote, value_text

Row = dict[str, Any]
_TIMES = ("time_ns", "end_ns", "observed_ns")


def decode_plainly(signal: SignalName, requests: Sequence[Request]) -> Part:
    """The records of requests of one signal."""
    around, rows = _Around(), list[Row]()
    for at, request in enumerate(requests):
        message = SIGNALS[signal].request.FromString(request.body)
        rows += _rows(signal, message, at, around)
    levels = around.levels(signal, requests)
    told = {name: np.array([row.get(name, 0) for row in rows], np.uint64) for name in _TIMES}
    names = {name for row in rows for name in row} - {*_TIMES, "attribute_list", "extra"}
    kinds = {"value": pa.float64()}
    columns = {name: pa.array([row.get(name) for row in rows], kinds.get(name, TEXT)) for name in names}
    extra = pa.array([_members(row["extra"]) for row in rows], TEXT)
    table = levels.table(columns, extra, told)
    return Part(table, PlainAttributes([row["attribute_list"] for row in rows]))


class PlainAttributes:
    """The attributes of records as decoded messages."""

    def __init__(self, lists: Sequence[Iterable[Any]]) -> None:
        self._lists = lists
        self._by_key: list[dict[str, Any]] | None = None

    def column(self, key: str, dtype: Dtype) -> pl.Series | None:
        """See AttributeColumns."""
        if self._by_key is None:
            self._by_key = [{each.key: each.value for each in reversed(list(one))} for one in self._lists]
        if not any(key in each for each in self._by_key):
            return None
        texts = [_plain_text(each[key]) if key in each else None for each in self._by_key]
        return from_text(pl.Series(key, texts, pl.String), dtype)


def _plain_text(value: Any) -> str | None:
    match value.WhichOneof("value"):
        case None | "string_value_strindex":
            return None
        case "string_value":
            return str(value.string_value)
        case "double_value":
            return number_text(value.double_value).strip('"').replace("Infinity", "inf")
    return value_text(value)


class _Around:
    """Collects resources and scopes while requests are walked."""

    def __init__(self) -> None:
        self.resources: list[tuple[int, str | None, str, str | None]] = []
        self.scopes: list[tuple[int, str | None, str | None, str | None]] = []
        self.scope_of_record: list[int] = []

    def enter_resource(self, request: int, resource: Any) -> None:
        own = resource.resource
        names = [each.value for each in own.attributes if each.key == "service.name"]
        extra = {
            "resource_schema_url": _given(resource.schema_url),
            "resource_dropped_attributes_count": _number(own.dropped_attributes_count),
            "entity_refs": _list(map(_entity, own.entity_refs)),
        }
        name = _plain_text(names[0]) if names else None
        self.resources.append((request, name, object_text(own.attributes), _members(extra)))

    def enter_scope(self, scope: Any) -> None:
        own = scope.scope
        extra = {
            "scope_schema_url": _given(scope.schema_url),
            "scope_attributes": object_text(own.attributes) if own.attributes else None,
            "scope_dropped_attributes_count": _number(own.dropped_attributes_count),
        }
        self.scopes.append((len(self.resources) - 1, own.name or None, own.version or None, _members(extra)))

    def count_records(self, count: int) -> None:
        self.scope_of_record += [len(self.scopes) - 1] * count

    def levels(self, signal: SignalName, requests: Sequence[Request]) -> Levels:
        """The collected levels as columns."""
        of_request, service_name, resource, resource_extra = _transposed(self.resources)
        of_resource, scope_name, scope_version, scope_extra = _transposed(self.scopes)
        return Levels(
            signal=signal,
            positions=np.array([each.position for each in requests], np.int64),
            received_ns=np.array([each.received_ns for each in requests], np.uint64),
            request_of_resource=np.array(of_request, np.int64),
            service_name=pa.array(service_name, TEXT),
            resource=pa.array(resource, TEXT),
            resource_extra=pa.array(resource_extra, TEXT),
            resource_of_scope=np.array(of_resource, np.int64),
            scope_name=pa.array(scope_name, TEXT),
            scope_version=pa.array(scope_version, TEXT),
            scope_extra=pa.array(scope_extra, TEXT),
            scope_of_record=np.array(self.scope_of_record, np.int64),
        )


def _transposed(rows: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(zip(*rows, strict=True)) if rows else ((), (), (), ())


def _rows(signal: SignalName, message: Any, request: int, around: _Around) -> list[Row]:
    resources, scopes, records = (names[0] for names in SIGNALS[signal].nesting[:3])
    rows: list[Row] = []
    for resource in getattr(message, resources):
        around.enter_resource(request, resource)
        for scope in getattr(resource, scopes):
            around.enter_scope(scope)
            if signal == "metrics":
                common = around_points(resource, scope)
                made = [row for metric in scope.metrics for row in points.rows(metric, common)]
            else:
                made = list(map(_ROW[signal], getattr(scope, records)))
            around.count_records(len(made))
            rows += made
    ids = log_ids(message) if signal == "logs" else [row["record_id"] for row in rows]
    for row, record_id in zip(rows, numbered(ids) if signal == "metrics" else ids, strict=True):
        row["record_id"] = record_id
    return rows


def _span(span: Any) -> Row:
    trace_id, span_id = span.trace_id.hex(), span.span_id.hex()
    return {
        "record_id": f"{trace_id}-{span_id}",
        "time_ns": span.start_time_unix_nano,
        "end_ns": span.end_time_unix_nano,
        "name": span.name,
        "kind": lookup(SPAN_KINDS, span.kind),
        "trace_id": trace_id,
        "span_id": span_id,
        "parent_span_id": _id(span.parent_span_id),
        "status": lookup(STATUSES, span.status.code),
        "status_message": span.status.message or None,
        "attributes": object_text(span.attributes),
        "attribute_list": span.attributes,
        "span_events": _list(map(_event, span.events)),
        "links": _list(map(_link, span.links)),
        "extra": {
            "trace_state": _given(span.trace_state),
            "flags": _number(span.flags),
            "dropped_attributes_count": _number(span.dropped_attributes_count),
            "dropped_events_count": _number(span.dropped_events_count),
            "dropped_links_count": _number(span.dropped_links_count),
        },
    }


def _log(record: Any) -> Row:
    by_key = next((_plain_text(each.value) for each in record.attributes if each.key == "event.name"), None)
    return {
        "time_ns": record.time_unix_nano,
        "observed_ns": record.observed_time_unix_nano,
        "name": record.event_name or by_key,
        "severity": record.severity_text or (lookup(SEVERITIES, record.severity_number) or None),
        "trace_id": _id(record.trace_id),
        "span_id": _id(record.span_id),
        "attributes": object_text(record.attributes),
        "attribute_list": record.attributes,
        "body": value_text(record.body) if record.HasField("body") else None,
        "extra": {
            "severity_number": _number(record.severity_number),
            "flags": _number(record.flags),
            "dropped_attributes_count": _number(record.dropped_attributes_count),
        },
    }


_ROW: dict[SignalName, Callable[[Any], Row]] = {"traces": _span, "logs": _log}


def _event(event: Any) -> str:
    dropped = _number(event.dropped_attributes_count)
    more = "" if dropped is None else f',"dropped_attributes_count":{dropped}'
    head = f'{{"name":{quote(event.name)},"time_ns":{event.time_unix_nano}'
    return f'{head},"attributes":{object_text(event.attributes)}{more}}}'


def _link(link: Any) -> str:
    more = _members(
        {
            "trace_state": _given(link.trace_state),
            "flags": _number(link.flags),
            "dropped_attributes_count": _number(link.dropped_attributes_count),
        }
    )
    head = f'{{"trace_id":"{link.trace_id.hex()}","span_id":"{link.span_id.hex()}"'
    return f'{head},"attributes":{object_text(link.attributes)}{"," + more if more else ""}}}'


def _entity(entity: Any) -> str:
    keys = f'"id_keys":[{",".join(map(quote, entity.id_keys))}]'
    descriptions = f'"description_keys":[{",".join(map(quote, entity.description_keys))}]'
    return f'{{"type":{quote(entity.type)},"schema_url":{quote(entity.schema_url)},{keys},{descriptions}}}'


def _list(texts: Iterator[str]) -> str | None:
    inside = ",".join(texts)
    return f"[{inside}]" if inside else None


def _members(members: dict[str, str | None]) -> str | None:
    return ",".join([f'"{name}":{text}' for name, text in members.items() if text is not None]) or None


def _given(text: str) -> str | None:
    return quote(text) if text else None


def _number(number: int) -> str | None:
    return str(number) if number else None


def _id(data: bytes) -> str | None:
    return data.hex() if any(data) else None
