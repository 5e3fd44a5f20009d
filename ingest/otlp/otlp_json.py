"""Reads OTLP/JSON: bounds, structure, each record; the same request as protobuf comes out."""

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import orjson
from google.protobuf.descriptor import Descriptor

from ingest.otlp.json_fields import BadValue, MessageEncoder, decode_id, delimited, encoder, tag_of
from ingest.otlp.refusals import Limits, TooLarge, Undecodable
from ingest.otlp.rejection import LOG_IDS, SPAN_IDS, IdRule, Rejections
from ingest.otlp.signals import SIGNALS, SignalName

_SCOPE_DEPTH = 3
"""Down to the scopes (request, resource, scope) a wrong shape spoils the request; below, only what it holds."""


@dataclass(frozen=True, slots=True)
class Converted:
    """A JSON request as protobuf."""

    wire: bytes
    items: int


@dataclass(frozen=True, slots=True)
class _Level:
    """One level of the nesting around the records, or the records themselves."""

    depth: int
    tag: bytes
    many: bool
    own: MessageEncoder
    """Encodes the fields that are not levels of their own."""
    children: dict[str, "_Level"] = field(default_factory=dict)
    ids: IdRule | None = None
    """For records: what their ids must be."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Leave out garbage collection while a document is handled.

    It becomes some hundred thousand objects without a cycle, which would start a search for cycles in all that the
    process holds again and again; that took as long as everything else.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def parse(signal: SignalName, body: bytes, limits: Limits) -> dict[str, Any]:
    """The JSON document; raises TooLarge before parsing if it would become too many objects."""
    if len(body) > limits.max_nested and (
        body.count(b"{") + body.count(b"[") > limits.max_nested or body.count(b",") > 2 * limits.max_nested
    ):
        raise TooLarge("JSON values per request", limits.max_nested)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Undecodable(f"not valid JSON: {error}", source=f"OTLP {signal} request") from None
    if type(document) is not dict:
        raise Undecodable("the JSON is not an object", source=f"OTLP {signal} request")
    for other in SIGNALS.values():
        if other.name != signal and any(name in document for name in _names(other.nesting[0][0])):
            raise Undecodable(f"the request holds {other.name}", source=f"OTLP {signal} request")
    return document


def convert(signal: SignalName, document: dict[str, Any], limits: Limits, rejections: Rejections) -> Converted:
    """Encode the document as protobuf, record by record.

    Records that do not fit are noted and taken out of the document, so that it holds exactly what was converted.
    """
    walk = _Walk(limits, rejections)
    try:
        wire = walk.container(document, _levels(signal))
    except BadValue as error:
        raise Undecodable(str(error), source=f"OTLP {signal} request") from None
    return Converted(wire, walk.items)


def json_to_protobuf(signal: SignalName, body: bytes) -> bytes:
    """A JSON request that passed the check, as protobuf."""
    rejections = Rejections(SIGNALS[signal].noun)
    limits = Limits(max_items=sys.maxsize, max_nested=sys.maxsize // 2)  # it was held to the receiver's before
    with uncollected():
        converted = convert(signal, parse(signal, body, limits), limits, rejections)
    if rejections.count:
        raise Undecodable(rejections.message, source=f"OTLP {signal} request")
    return converted.wire


def json_to_message(signal: SignalName, body: bytes) -> Any:
    """A JSON request that passed the check, as a message."""
    return SIGNALS[signal].request.FromString(json_to_protobuf(signal, body))


class _Walk:
    """One pass over a document, counting as it goes."""

    __slots__ = ("items", "limits", "rejections")

    def __init__(self, limits: Limits, rejections: Rejections) -> None:
        self.items = 0
        self.limits = limits
        self.rejections = rejections

    def container(self, value: Any, level: _Level) -> bytes:
        """Everything in one container; raises BadValue if its own fields are wrong."""
        if type(value) is not dict:
            raise BadValue(f"{level.own.name} must be an object")
        parts = [level.own(value, level.depth)]
        present = [(name, child) for name, child in level.children.items() if value.get(name) is not None]
        if len(present) > 1:
            raise BadValue(f"{level.own.name} has more than one kind of data")
        for name, child in present:
            if child.many:
                parts.append(self.entries(value, name, child))
            else:
                parts.append(delimited(child.tag, self.container(value[name], child)))
        return b"".join(parts)

    def entries(self, parent: dict[str, Any], name: str, level: _Level) -> bytes:
        """The entries of a list; those that do not fit are noted and taken out of their parent."""
        entries = parent[name]
        if type(entries) is not list:
            if level.depth > _SCOPE_DEPTH + 1:
                raise BadValue(f"{name} must be a list")
            raise Undecodable(f"{name} must be a list", source="OTLP JSON")
        parts, kept = [], []
        for at, entry in enumerate(entries):
            before = self.items
            try:
                data = self.container(entry, level) if level.children else self.record(entry, level)
            except BadValue as error:
                if level.depth <= _SCOPE_DEPTH and type(entry) is not dict:
                    raise Undecodable(f"{name} must hold objects", source="OTLP JSON") from None
                self.items = before
                self.rejections.add(at, str(error), _records(entry, level))
                continue
            parts.append(delimited(level.tag, data))
            kept.append(entry)
        if len(kept) < len(entries):
            parent[name] = kept
        return b"".join(parts)

    def record(self, entry: Any, level: _Level) -> bytes:
        """One record."""
        data = level.own(entry, level.depth)
        if level.ids is not None:
            why = level.ids.fault(*[_id(entry, name) for name in level.ids.fields])
            if why is not None:
                raise BadValue(why)
        self.items += 1
        if self.items > self.limits.max_items:
            raise TooLarge("items per request", self.limits.max_items)
        return data


def _records(entry: Any, level: _Level) -> int:
    """How many records are lost with an entry; what cannot be counted counts as one."""
    if not level.children or type(entry) is not dict:
        return 1
    count = 0
    for name, child in level.children.items():
        inner = entry.get(name)
        if child.many and type(inner) is list:
            count += sum(_records(each, child) for each in inner)
        elif inner is not None:
            count += _records(inner, child)
    return count


@cache
def _names(name: str) -> tuple[str, str]:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest), name


def _id(record: dict[str, Any], name: str) -> bytes:
    camel, snake = _names(name)
    value = record.get(camel)
    value = record.get(snake) if value is None else value
    return b"" if value is None else decode_id(value, name)


_ID_RULES: dict[SignalName, IdRule | None] = {"traces": SPAN_IDS, "logs": LOG_IDS, "metrics": None}


@cache
def _levels(signal: SignalName) -> _Level:
    """The nesting of a signal's JSON; the outermost level is the request itself."""
    return _level(SIGNALS[signal].descriptor, SIGNALS[signal].nesting, 1, b"", True, _ID_RULES[signal])


def _level(
    message: Descriptor,
    nesting: tuple[tuple[str, ...], ...],
    depth: int,
    tag: bytes,
    many: bool,
    ids: IdRule | None,
) -> _Level:
    if not nesting:
        return _Level(depth, tag, many, encoder(message), ids=ids)
    own, children = MessageEncoder(message), {}
    own.fields = dict(encoder(message).fields)
    own.oneofs = []
    for name in nesting[0]:
        descriptor = message.fields_by_name[name]
        assert descriptor.message_type is not None
        inner = _level(descriptor.message_type, nesting[1:], depth + 1, tag_of(descriptor), descriptor.is_repeated, ids)
        for spelling in _names(name):
            children[spelling] = inner
            own.fields[spelling] = _pass_over
    return _Level(depth, tag, many, own, children)


def _pass_over(value: Any, depth: int) -> bytes:
    """Levels of their own are walked apart."""
    return b""
