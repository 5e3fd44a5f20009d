"""Encodes parsed OTLP/JSON messages as protobuf, field by field from the message descriptors.

It takes what real clients send: int64 as text or number, numbers as text and text as numbers, hex or base64 ids, enum
values by number or name, lowerCamelCase or snake_case names, null for absent; unknown fields are passed over.
"""

import base64
import binascii
import math
import struct
from collections.abc import Callable
from functools import cache
from typing import Any

import orjson
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from ingest.otlp.refusals import Undecodable

FieldEncoder = Callable[[Any, int], bytes]
"""From a JSON value and its depth in messages to the field on the wire, tag included."""
ScalarEncoder = Callable[[Any], bytes]

MAX_DEPTH = 90
"""Messages within messages; decoders stop at 100."""

_IDS = frozenset({"trace_id", "span_id", "parent_span_id"})
_VARINTS = [bytes([n]) if n < 128 else bytes([n & 127 | 128, n >> 7]) for n in range(128 * 128)]
_PACK_DOUBLE = struct.Struct("<d").pack
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


_HEADS_KEPT = 4096
_SHORT_CHARS = 48
_SHORT_KEPT = 8192


class BadValue(Exception):
    """A value that does not fit its field; only the record around it is refused."""


class TooDeep(Undecodable):
    """Values nested deeper than any decoder takes."""

    def __init__(self) -> None:
        super().__init__("values are nested too deeply", source="OTLP JSON")


def varint(number: int) -> bytes:
    """The number as a protobuf varint."""
    if number < 16384:
        return _VARINTS[number]
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def delimited(tag: bytes, data: bytes) -> bytes:
    """A length-delimited field."""
    return tag + varint(len(data)) + data


def tag_of(field: FieldDescriptor, wire: int = 2) -> bytes:
    """The field's tag for a wire type."""
    return varint(field.number << 3 | wire)


class MessageEncoder:
    """Encodes JSON objects as one message type; called with the object and its depth."""

    __slots__ = ("fields", "name", "oneofs")

    def __init__(self, descriptor: Descriptor) -> None:
        self.name = descriptor.name
        self.fields: dict[str, FieldEncoder] = {}
        groups = (group for group in descriptor.oneofs if len(group.fields) > 1)
        self.oneofs = [frozenset(n for f in group.fields for n in (f.name, f.json_name)) for group in groups]

    def __call__(self, value: Any, depth: int) -> bytes:
        """The message without tag and length."""
        if type(value) is not dict:
            raise BadValue(f"{self.name} must be an object")
        if depth > MAX_DEPTH:
            raise TooDeep
        parts, fields = [], self.fields
        for name, inner in value.items():
            if inner is not None:
                field = fields.get(name)
                if field is not None:
                    parts.append(field(inner, depth))
                elif type(inner) is dict or type(inner) is list:
                    check_depth(inner, depth)
        if len(parts) > 1 and self.oneofs:
            self._check_choice(value)
        return b"".join(parts)

    def _check_choice(self, value: dict[str, Any]) -> None:
        for names in self.oneofs:
            if sum(value[name] is not None for name in names & value.keys()) > 1:
                raise BadValue(f"{self.name} has more than one value")


class KeyValueEncoder(MessageEncoder):
    """Encodes attributes, most of what is in a request, with a shorter way for the plain ones."""

    __slots__ = ("heads", "kinds")

    def __init__(self, descriptor: Descriptor) -> None:
        super().__init__(descriptor)
        self.kinds: dict[str, FieldEncoder] = {}
        """The kinds of value, by name."""
        self.heads: dict[str, bytes] = {}
        """Keys recur: their fields, encoded."""

    def __call__(self, value: Any, depth: int) -> bytes:
        """The message without tag and length."""
        if type(value) is dict and len(value) == 2:
            key, inner = value.get("key"), value.get("value")
            if type(key) is str and type(inner) is dict and len(inner) == 1:
                ((kind, plain),) = inner.items()
                if kind == "stringValue" and type(plain) is str:
                    text = plain.encode()
                    data = b"\x0a" + varint(len(text)) + text
                    return (self.heads.get(key) or self._head(key)) + varint(len(data)) + data
                if plain is not None and (field := self.kinds.get(kind)) is not None:
                    data = field(plain, depth + 1)
                    return (self.heads.get(key) or self._head(key)) + varint(len(data)) + data
        return super().__call__(value, depth)

    def _head(self, key: str) -> bytes:
        """The key's field and the tag of the value's."""
        head = delimited(b"\x0a", key.encode()) + b"\x12"
        if len(self.heads) < _HEADS_KEPT:
            self.heads[key] = head
        return head


class AttributeListEncoder:
    """Encodes a list of attributes. Most short texts and numbers recur from record to record: they are remembered."""

    __slots__ = ("inner", "known", "name", "tag")

    def __init__(self, field: FieldDescriptor, inner: KeyValueEncoder) -> None:
        self.name, self.tag = field.name, tag_of(field)
        self.inner = inner
        self.known: dict[tuple[str, str, str], bytes] = {}
        """By key, kind and value as sent: the field on the wire. Only of texts, because True, 1 and 1.0 are equal."""

    def __call__(self, value: Any, depth: int) -> bytes:
        """The field once for each attribute."""
        if type(value) is not list:
            raise BadValue(f"{self.name} must be a list")
        parts, known = [], self.known
        for entry in value:
            if type(entry) is dict and len(entry) == 2:
                key, inner = entry.get("key"), entry.get("value")
                if type(key) is str and type(inner) is dict and len(inner) == 1:
                    ((kind, plain),) = inner.items()
                    if type(plain) is str and len(plain) <= _SHORT_CHARS:
                        parts.append(known.get((key, kind, plain)) or self._remember((key, kind, plain), entry, depth))
                        continue
            parts.append(delimited(self.tag, self.inner(entry, depth + 1)))
        return b"".join(parts)

    def _remember(self, told: tuple[str, str, str], entry: Any, depth: int) -> bytes:
        data = delimited(self.tag, self.inner(entry, depth + 1))
        if len(told[0]) <= _SHORT_CHARS:
            if len(self.known) >= _SHORT_KEPT:
                self.known.clear()
            self.known[told] = data
        return data


def check_depth(value: Any, depth: int) -> None:
    """Raise TooDeep for unknown fields too: they are kept, so they must be encodable again."""
    if depth > MAX_DEPTH:
        raise TooDeep
    for inner in value.values() if type(value) is dict else value:
        if type(inner) is dict or type(inner) is list:
            check_depth(inner, depth + 1)


@cache
def encoder(descriptor: Descriptor) -> MessageEncoder:
    """The encoder of a message type."""
    return _build(descriptor, {})


def _build(descriptor: Descriptor, known: dict[str, MessageEncoder]) -> MessageEncoder:
    if descriptor.full_name in known:
        return known[descriptor.full_name]
    kind = KeyValueEncoder if descriptor.full_name == "opentelemetry.proto.common.v1.KeyValue" else MessageEncoder
    message = known[descriptor.full_name] = kind(descriptor)
    for field in descriptor.fields:
        made = _field(field, known)
        message.fields[field.json_name] = message.fields[field.name] = made
    if isinstance(message, KeyValueEncoder):
        message.kinds = known["opentelemetry.proto.common.v1.AnyValue"].fields
    return message


def _field(field: FieldDescriptor, known: dict[str, MessageEncoder]) -> FieldEncoder:
    if field.message_type is not None:
        inner = _build(field.message_type, known)
        if field.is_repeated and isinstance(inner, KeyValueEncoder):
            return AttributeListEncoder(field, inner)
        return _message_list(field, inner) if field.is_repeated else _message(field, inner)
    scalar = _scalar(field)
    if not field.is_repeated:
        tag = tag_of(field, _WIRE_TYPES.get(field.type, 0))
        return lambda value, depth: tag + scalar(value)
    if field.type == FieldDescriptor.TYPE_STRING:
        return _text_list(field, scalar)
    return _packed(field, scalar)


def _message(field: FieldDescriptor, inner: MessageEncoder) -> FieldEncoder:
    tag = tag_of(field)

    def encode(value: Any, depth: int) -> bytes:
        data = inner(value, depth + 1)
        return tag + varint(len(data)) + data

    return encode


def _message_list(field: FieldDescriptor, inner: MessageEncoder) -> FieldEncoder:
    tag, name = tag_of(field), field.name

    def encode(value: Any, depth: int) -> bytes:
        if type(value) is not list:
            raise BadValue(f"{name} must be a list")
        parts = [inner(entry, depth + 1) for entry in value]
        return b"".join([part for data in parts for part in (tag, varint(len(data)), data)])

    return encode


def _text_list(field: FieldDescriptor, scalar: ScalarEncoder) -> FieldEncoder:
    tag, name = tag_of(field), field.name

    def encode(value: Any, depth: int) -> bytes:
        if type(value) is not list:
            raise BadValue(f"{name} must be a list")
        return b"".join([tag + scalar(entry) for entry in value])

    return encode


def _packed(field: FieldDescriptor, scalar: ScalarEncoder) -> FieldEncoder:
    tag, name = tag_of(field), field.name

    def encode(value: Any, depth: int) -> bytes:
        if type(value) is not list:
            raise BadValue(f"{name} must be a list")
        return delimited(tag, b"".join(map(scalar, value)))

    return encode


_WIRE_TYPES = {
    FieldDescriptor.TYPE_DOUBLE: 1,
    FieldDescriptor.TYPE_FIXED64: 1,
    FieldDescriptor.TYPE_SFIXED64: 1,
    FieldDescriptor.TYPE_FIXED32: 5,
    FieldDescriptor.TYPE_STRING: 2,
    FieldDescriptor.TYPE_BYTES: 2,
}
"""All other types are varints."""


def _scalar(field: FieldDescriptor) -> ScalarEncoder:
    name = field.name
    match field.type:
        case FieldDescriptor.TYPE_STRING:
            return lambda value: _text(value, name)
        case FieldDescriptor.TYPE_BYTES:
            decode = decode_id if name in _IDS else decode_base64
            return lambda value: delimited(b"", decode(value, name))
        case FieldDescriptor.TYPE_BOOL:
            return lambda value: b"\x01" if _boolean(value, name) else b"\x00"
        case FieldDescriptor.TYPE_DOUBLE:
            return lambda value: _PACK_DOUBLE(_double(value, name))
        case FieldDescriptor.TYPE_ENUM:
            assert field.enum_type is not None
            numbers = {value.name: value.number for value in field.enum_type.values}
            return lambda value: varint(_integer(_number(value, numbers), name, -(2**31), 2**31) & (2**64 - 1))
    return _integer_scalar(field)


def _integer_scalar(field: FieldDescriptor) -> ScalarEncoder:
    name = field.name
    if field.type in _FIXED:
        form, low, high = _FIXED[field.type]
        pack = struct.Struct(form).pack
        return lambda value: pack(_integer(value, name, low, high))
    low, high = _VARINT_RANGES[field.type]
    if field.type == FieldDescriptor.TYPE_SINT32:

        def zigzag(value: Any) -> bytes:
            number = _integer(value, name, low, high)
            return varint(number << 1 if number >= 0 else (-number << 1) - 1)

        return zigzag
    return lambda value: varint(_integer(value, name, low, high) & (2**64 - 1))


_FIXED = {
    FieldDescriptor.TYPE_FIXED64: ("<Q", 0, 2**64),
    FieldDescriptor.TYPE_SFIXED64: ("<q", -(2**63), 2**63),
    FieldDescriptor.TYPE_FIXED32: ("<I", 0, 2**32),
}
_VARINT_RANGES = {
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63),
    FieldDescriptor.TYPE_UINT64: (0, 2**64),
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31),
    FieldDescriptor.TYPE_UINT32: (0, 2**32),
    FieldDescriptor.TYPE_SINT32: (-(2**31), 2**31),
}


def _number(value: Any, numbers: dict[str, int]) -> Any:
    """An enum's number, where its name was sent."""
    return numbers.get(value, value) if type(value) is str else value


def _integer(value: Any, name: str, low: int, high: int) -> int:
    if type(value) is str:
        digits = value[1:] if value[:1] == "-" else value
        if digits.isdecimal() and digits.isascii() and len(digits) <= 20:
            value = int(value)
    elif type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int or not low <= value < high:
        raise BadValue(f"{name} must be a whole number in its range")
    return value


def _double(value: Any, name: str) -> float:
    if type(value) is str:
        try:
            value = _NOT_FINITE[value] if value in _NOT_FINITE else float(value)
        except ValueError:
            raise BadValue(f"{name} must be a number") from None
    if type(value) is not float and type(value) is not int:
        raise BadValue(f"{name} must be a number")
    return float(value)


def _boolean(value: Any, name: str) -> bool:
    if value is True or value == "true":
        return True
    if value is False or value == "false":
        return False
    raise BadValue(f"{name} must be true or false")


def _text(value: Any, name: str) -> bytes:
    if type(value) is str:
        data = value.encode()
    elif type(value) in (int, float, bool):
        data = orjson.dumps(value)
    else:
        raise BadValue(f"{name} must be a text")
    return varint(len(data)) + data


def decode_id(value: Any, name: str) -> bytes:
    """An id in hex, as OTLP prescribes, or in base64, as protobuf's own JSON has it: their lengths differ."""
    if type(value) is str:
        if len(value) in (11, 12, 22, 24):
            return decode_base64(value, name)
        try:
            return binascii.unhexlify(value)
        except (binascii.Error, ValueError):
            pass
    raise BadValue(f"{name} must be hexadecimal")


def decode_base64(value: Any, name: str) -> bytes:
    """Base64 in the standard or the URL alphabet, with or without padding."""
    if type(value) is str:
        try:
            plain = value.rstrip("=").replace("-", "+").replace("_", "/")
            return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
        except (binascii.Error, ValueError):
            pass
    raise BadValue(f"{name} must be base64")
