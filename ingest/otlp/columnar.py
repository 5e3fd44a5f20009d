"""Decodes requests of spans and log records into columns with ptars, many records at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import polars as pl
import ptars
import pyarrow as pa
import pyarrow.compute as pc

from ingest.batch import Part
from ingest.otlp.attributes import Attributes
from ingest.otlp.columns import (
    TEXT,
    NotColumnar,
    filled_texts,
    hex_ids,
    hex_texts,
    joined,
    lists,
    member,
    members,
    numbers,
    one_array,
    quoted,
    sizes,
    texts_given,
)
from ingest.otlp.identity import log_ids
from ingest.otlp.levels import Levels, Nanos, Request
from ingest.otlp.names import SEVERITIES, SPAN_KINDS, STATUSES, lookup_all
from ingest.otlp.signals import SIGNALS, SignalName
from ingest.otlp.values import quote, value_text

_GROUP_BYTES = 1024 * 1024
"""Small requests are decoded together up to this size: a call costs as much as some dozen records."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Struct arrays of one message type, one per decoded group of requests; a field is asked for across all."""

    arrays: list[pa.StructArray]

    def field(self, name: str) -> list[pa.Array]:
        """A field of each piece; NULL where the message itself is absent."""
        return [array.field(name) if not array.null_count else _field(array, name) for array in self.arrays]

    def column(self, name: str) -> pa.Array:
        """A field of all pieces as one array."""
        found = self.field(name)
        return pa.concat_arrays(found)

    def nanos(self, name: str) -> Nanos:
        """A time field."""
        return np.asarray(self.column(name).to_numpy(), np.uint64)

    def inside(self, name: str) -> "Pieces":
        """A message field."""
        return Pieces(self.field(name))

    def below(self, name: str) -> tuple["Pieces", Any]:
        """The messages of a repeated field, and how many each message has."""
        found = self.field(name)
        return Pieces([each.flatten() for each in found]), sizes(found)


def _field(array: pa.StructArray, name: str) -> pa.Array:
    return array.flatten()[array.type.get_field_index(name)]


@cache
def _handler(signal: SignalName) -> Any:
    descriptor: Any = SIGNALS[signal].descriptor
    return ptars.HandlerPool([descriptor.file]).get_for_message(descriptor)


def decode_columns(signal: SignalName, requests: Sequence[Request]) -> Part:
    """The records of requests of one signal; raises NotColumnar if ptars cannot read one of them."""
    resources, per_request = _decoded(signal, requests)
    scopes, per_resource = resources.below(SIGNALS[signal].nesting[1][0])
    records, per_scope = scopes.below(SIGNALS[signal].nesting[2][0])
    levels = _levels(signal, requests, resources, scopes, (per_request, per_resource, per_scope))
    return _spans(levels, records) if signal == "traces" else _logs(levels, records, requests)


def _decoded(signal: SignalName, requests: Sequence[Request]) -> tuple[Pieces, Any]:
    """The resources of all requests, and how many each request has."""
    groups: list[list[bytes]] = [[]]
    size = 0
    for request in requests:
        if groups[-1] and size + len(request.body) > _GROUP_BYTES:
            groups.append([])
            size = 0
        groups[-1].append(request.body)
        size += len(request.body)
    handler = _handler(signal)
    try:
        columns = [handler.list_to_record_batch(group).column(0) for group in groups]
    except ValueError as error:
        raise NotColumnar(str(error)) from None
    return Pieces([column.flatten() for column in columns]), sizes(columns)


def _levels(
    signal: SignalName, requests: Sequence[Request], resources: Pieces, scopes: Pieces, counts: tuple[Any, Any, Any]
) -> Levels:
    per_request, per_resource, per_scope = counts
    resource, scope = resources.inside("resource"), scopes.inside("scope")
    attributes = Attributes(_lists(resource, "attributes"))
    names = attributes.column("service.name", pl.String)
    count = len(attributes)
    return Levels(
        signal=signal,
        positions=np.array([each.position for each in requests], np.int64),
        received_ns=np.array([each.received_ns for each in requests], np.uint64),
        request_of_resource=np.repeat(np.arange(len(per_request)), per_request),
        service_name=pa.nulls(count, TEXT) if names is None else one_array(names.to_arrow(), TEXT),
        resource=attributes.json(),
        resource_extra=_resource_extra(resources, resource, count),
        resource_of_scope=np.repeat(np.arange(len(per_resource)), per_resource),
        scope_name=filled_texts(scope.column("name")),
        scope_version=filled_texts(scope.column("version")),
        scope_extra=_scope_extra(scopes, scope),
        scope_of_record=np.repeat(np.arange(len(per_scope)), per_scope),
    )


def _lists(pieces: Pieces, name: str) -> list[pa.Array]:
    """A repeated field; the message around it may be absent, and then it has none."""
    return [_without_nulls(each) for each in pieces.field(name)]


def _without_nulls(array: pa.ListArray) -> pa.ListArray:
    if not array.null_count:
        return array
    size = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    at = np.concatenate(([0], np.cumsum(size))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(at), array.flatten())


def _resource_extra(resources: Pieces, resource: Pieces, count: int) -> pa.Array:
    entities = _lists(resource, "entity_refs")
    extra = members(
        member("resource_schema_url", texts_given(resources.column("schema_url"))),
        member("resource_dropped_attributes_count", numbers(resource.column("dropped_attributes_count"))),
        member("entity_refs", _entities(entities) if sizes(entities).any() else None),
    )
    return pa.nulls(count, TEXT) if extra is None else extra


def _entities(pieces: list[pa.Array]) -> pa.Array:
    texts = []
    for entities in (each for piece in pieces for each in piece.to_pylist()):
        inside = ",".join(
            f'{{"type":{quote(one["type"])},"schema_url":{quote(one["schema_url"])},'
            f'"id_keys":[{",".join(map(quote, one["id_keys"]))}],'
            f'"description_keys":[{",".join(map(quote, one["description_keys"]))}]}}'
            for one in entities
        )
        texts.append(f"[{inside}]" if entities else None)
    return pa.array(texts, TEXT)


def _scope_extra(scopes: Pieces, scope: Pieces) -> pa.Array:
    lists_ = _lists(scope, "attributes")
    some = sizes(lists_) > 0
    attributes = pc.if_else(pa.array(some), Attributes(lists_).json(), pa.scalar(None, TEXT)) if some.any() else None
    extra = members(
        member("scope_schema_url", texts_given(scopes.column("schema_url"))),
        member("scope_attributes", attributes),
        member("scope_dropped_attributes_count", numbers(scope.column("dropped_attributes_count"))),
    )
    return pa.nulls(len(some), TEXT) if extra is None else extra


def _spans(levels: Levels, spans: Pieces) -> Part:
    attributes = Attributes(spans.field("attributes"))
    trace_id, span_id = hex_texts(spans.column("trace_id")), hex_texts(spans.column("span_id"))
    status = spans.inside("status")
    columns = {
        "record_id": pc.binary_join_element_wise(trace_id, span_id, "-"),
        "name": spans.column("name"),
        "kind": lookup_all(SPAN_KINDS, spans.column("kind")),
        "trace_id": trace_id,
        "span_id": span_id,
        "parent_span_id": hex_ids(spans.column("parent_span_id")),
        "status": lookup_all(STATUSES, pc.fill_null(status.column("code"), 0)),
        "status_message": filled_texts(status.column("message")),
        "attributes": attributes.json(),
        "span_events": _events(spans),
        "links": _links(spans),
    }
    dropped = [f"dropped_{name}_count" for name in ("attributes", "events", "links")]
    extra = members(
        member("trace_state", texts_given(spans.column("trace_state"))),
        *(member(name, numbers(spans.column(name))) for name in ("flags", *dropped)),
    )
    told = {"time_ns": spans.nanos("start_time_unix_nano"), "end_ns": spans.nanos("end_time_unix_nano")}
    return Part(levels.table(columns, extra, told), attributes)


def _events(spans: Pieces) -> pa.Array:
    events, per_span = spans.below("events")
    if not per_span.any():
        return pa.nulls(len(per_span), TEXT)
    dropped = member("dropped_attributes_count", numbers(events.column("dropped_attributes_count")))
    parts = [
        member("name", quoted(events.column("name"))),
        member("time_ns", events.column("time_unix_nano").cast(TEXT)),
        member("attributes", Attributes(events.field("attributes")).json()),
        dropped,
    ]
    return lists(joined("{", members(*parts), "}"), _offsets(per_span))


def _links(spans: Pieces) -> pa.Array:
    links, per_span = spans.below("links")
    if not per_span.any():
        return pa.nulls(len(per_span), TEXT)
    parts = [
        joined('"trace_id":"', hex_texts(links.column("trace_id")), '"'),
        joined('"span_id":"', hex_texts(links.column("span_id")), '"'),
        member("attributes", Attributes(links.field("attributes")).json()),
        member("trace_state", texts_given(links.column("trace_state"))),
        member("flags", numbers(links.column("flags"))),
        member("dropped_attributes_count", numbers(links.column("dropped_attributes_count"))),
    ]
    return lists(joined("{", members(*parts), "}"), _offsets(per_span))


def _offsets(counts: Any) -> Any:
    return np.concatenate(([0], np.cumsum(counts))).astype(np.int32)


def _logs(levels: Levels, logs: Pieces, requests: Sequence[Request]) -> Part:
    attributes = Attributes(logs.field("attributes"))
    ids, bodies = _ids_and_bodies(requests)
    by_key = attributes.column("event.name", pl.String)
    names = filled_texts(logs.column("event_name"))
    severity = filled_texts(lookup_all(SEVERITIES, logs.column("severity_number")))
    columns = {
        "record_id": pa.array(ids, TEXT),
        "name": names if by_key is None else pc.coalesce(names, one_array(by_key.to_arrow(), TEXT)),
        "severity": pc.coalesce(filled_texts(logs.column("severity_text")), severity),
        "trace_id": hex_ids(logs.column("trace_id")),
        "span_id": hex_ids(logs.column("span_id")),
        "attributes": attributes.json(),
        "body": pc.coalesce(pa.array(bodies, TEXT), quoted(logs.inside("body").column("string_value"))),
    }
    extra = members(
        member("severity_number", numbers(logs.column("severity_number"))),
        member("flags", numbers(logs.column("flags"))),
        member("dropped_attributes_count", numbers(logs.column("dropped_attributes_count"))),
    )
    told = {"time_ns": logs.nanos("time_unix_nano"), "observed_ns": logs.nanos("observed_time_unix_nano")}
    return Part(levels.table(columns, extra, told), attributes)


def _ids_and_bodies(requests: Sequence[Request]) -> tuple[list[str], list[str | None]]:
    """Ids, which come from the messages, and the bodies that are no plain text."""
    ids: list[str] = []
    bodies: list[str | None] = []
    for request in requests:
        message: Any = SIGNALS["logs"].request.FromString(request.body)
        ids += log_ids(message)
        bodies += [
            None if (body := record.body).HasField("string_value") or not record.HasField("body") else value_text(body)
            for resource in message.resource_logs
            for scope in resource.scope_logs
            for record in scope.log_records
        ]
    return ids, bodies
