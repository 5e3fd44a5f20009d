"""Masks secrets in a decoded OTLP request; only texts change."""

import base64
import binascii
from collections import Counter
from collections.abc import Iterable
from typing import Any, Protocol

import orjson
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.unknown_fields import UnknownFieldSet

from ingest.otlp.signals import SIGNALS, SignalName

_KEY_VALUE = "opentelemetry.proto.common.v1.KeyValue"
_TEXT = FieldDescriptor.TYPE_STRING
_MESSAGE = FieldDescriptor.TYPE_MESSAGE
_BYTES = FieldDescriptor.TYPE_BYTES
_WRAPPERS = frozenset(
    {"value", "values", "stringValue", "string_value", "arrayValue", "array_value", "kvlistValue", "kvlist_value"}
)
"""Fields between an attribute's name and its text; any other field's own name may tell that its text is a secret."""
_RECORDS = frozenset({"spans", "logRecords", "log_records", "metrics"})
_IDS = frozenset({"trace_id", "span_id", "parent_span_id", "traceId", "spanId", "parentSpanId"})


class Redactor(Protocol):
    """What finds and masks secrets."""

    def suspects(self, data: bytes, /) -> bool:
        """Whether the bytes may hold a secret: fast, and never a wrong no."""

    def mask_text(self, text: str, /) -> tuple[str, dict[str, int]]:
        """The text with its secrets masked, and how many of each kind."""

    def mask_value(self, name: str, text: str, /) -> tuple[str, dict[str, int]]:
        """The same for the value of a named attribute, whose name may tell that it is a secret."""


def mask_request(signal: SignalName, request: Any, redactor: Redactor) -> dict[str, int]:
    """Mask every text of the request in place; the redactions by kind."""
    found: Counter[str] = Counter()
    resources, scopes, records = (names[0] for names in SIGNALS[signal].nesting[:3])
    for resource in getattr(request, resources):
        _mask_fields(resource, redactor, found, skip=scopes)
        for scope in getattr(resource, scopes):
            _mask_fields(scope, redactor, found, skip=records)
            for record in getattr(scope, records):
                # Looking again record by record is far cheaper than walking them all for one secret.
                if redactor.suspects(record.SerializeToString()):
                    _mask_fields(record, redactor, found)
    _drop_unknown_secrets(request, redactor, found)
    return dict(found)


def _mask_fields(message: Any, redactor: Redactor, found: Counter[str], name: str = "", skip: str = "") -> None:
    """Mask the texts of a message and of those below it; `name` is the attribute its values belong to."""
    if message.DESCRIPTOR.full_name == _KEY_VALUE:
        name = message.key
    for field, value in message.ListFields():
        if field.name == skip:
            continue
        if field.type == _MESSAGE:
            for inner in value if field.is_repeated else (value,):
                _mask_fields(inner, redactor, found, name)
        elif field.type == _TEXT and field.is_repeated:
            value[:] = [_masked(text, redactor, found) for text in value]
        elif field.type == _TEXT:
            within = "" if field.name == "key" else name
            masked = _masked(value, redactor, found, within)
            if masked != value:
                setattr(message, field.name, masked)
        elif field.type == _BYTES and field.name not in _IDS:
            masked_bytes = _masked_bytes(value, redactor, found, name)
            if masked_bytes != value:
                setattr(message, field.name, masked_bytes)


def mask_json(value: Any, redactor: Redactor, found: Counter[str], name: str = "") -> Any:
    """The parsed JSON with its texts masked, unknown fields and their names included."""
    if isinstance(value, str):
        return _masked(value, redactor, found, name)
    if isinstance(value, list):
        return [mask_json(inner, redactor, found, name) for inner in value]
    if not isinstance(value, dict):
        return value
    key = value.get("key")
    if isinstance(key, str) and "value" in value:
        name = key
    masked = {}
    for field, inner in value.items():
        if field in _IDS:
            masked[field] = inner
        elif field in _RECORDS and isinstance(inner, list):
            masked[field] = [_mask_record(record, redactor, found, field) for record in inner]
        elif field in ("bytesValue", "bytes_value") and isinstance(inner, str):
            masked[field] = _masked_base64(inner, redactor, found, name)
        else:
            within = "" if field == "key" else name if field in _WRAPPERS else field
            masked[_masked(field, redactor, found)] = mask_json(inner, redactor, found, within)
    return masked


def _mask_record(record: Any, redactor: Redactor, found: Counter[str], name: str) -> Any:
    """A record of a JSON request; as in protobuf, only those are walked in which something is suspected."""
    if isinstance(record, dict) and not redactor.suspects(orjson.dumps(record)):
        return record
    return mask_json(record, redactor, found, name)


def _masked(text: str, redactor: Redactor, found: Counter[str], name: str = "") -> str:
    masked, kinds = redactor.mask_value(name, text) if name else redactor.mask_text(text)
    found.update(kinds)
    return masked


def _masked_bytes(data: bytes, redactor: Redactor, found: Counter[str], name: str) -> bytes:
    """Bytes that are text are masked as text; other bytes stay."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    return _masked(text, redactor, found, name).encode()


def _masked_base64(text: str, redactor: Redactor, found: Counter[str], name: str) -> str:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return _masked(text, redactor, found, name)
    masked = _masked_bytes(data, redactor, found, name)
    return text if masked == data else base64.b64encode(masked).decode()


def _drop_unknown_secrets(request: Any, redactor: Redactor, found: Counter[str]) -> None:
    """Fields newer than we know are kept as bytes that we cannot mask: if a secret is in one, drop them all."""
    known = type(request)()
    known.CopyFrom(request)
    known.DiscardUnknownFields()
    if known.ByteSize() == request.ByteSize():
        return
    inside: Counter[str] = Counter()
    _look_in_unknown(request, redactor, inside)
    if inside:
        found.update(inside)
        request.DiscardUnknownFields()


def _look_in_unknown(message: Any, redactor: Redactor, found: Counter[str]) -> None:
    fields: Iterable[Any] = UnknownFieldSet(message)  # type: ignore[assignment]  # a sequence; its stub does not say so
    for unknown in fields:
        if isinstance(unknown.data, bytes):
            _masked(unknown.data.decode(errors="replace"), redactor, found)
    for field, value in message.ListFields():
        if field.type == _MESSAGE:
            for inner in value if field.is_repeated else (value,):
                _look_in_unknown(inner, redactor, found)
