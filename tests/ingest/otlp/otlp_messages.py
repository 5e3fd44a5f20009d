"""OTLP bodies for tests: the captured ones, generated ones, and the pieces of wire format that bombs are made of."""

import base64
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import orjson
from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from ingest.otlp.signals import SIGNALS, Encoding, SignalName

TEXTS = ["", "a", "gen_ai.request.model", 'quoted "text" \\ back', "line\nbreak\ttab\x00\x1f", "naïve ☃ 😀", "x" * 300]
IDS = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}
_INTEGERS = {
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_SINT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_FIXED64: (0, 2**64 - 1),
    FieldDescriptor.TYPE_SFIXED64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_FIXED32: (0, 2**32 - 1),
}


def captured(folder: Path) -> Iterator[tuple[Path, SignalName, Encoding, bytes]]:
    """Every captured body."""
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".pb" or (path.suffix == ".json" and path.stem.isdigit()):
            encoding: Encoding = "protobuf" if path.suffix == ".pb" else "json"
            yield path, cast(SignalName, path.parent.name), encoding, path.read_bytes()


def count_records(signal: SignalName, document: dict[str, Any]) -> int:
    """The number of records of a decoded request, counted from its JSON."""
    level = [document]
    for names in SIGNALS[signal].nesting:
        spellings = [camel(name) for name in names]
        level = [
            entry
            for outer in level
            for name in spellings
            if name in outer
            for entry in (outer[name] if isinstance(outer[name], list) else [outer[name]])
        ]
    return len(level)


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def generated(signal: SignalName, rng: random.Random) -> Any:
    """A random request with every kind of field; its ids have the right lengths."""
    request = SIGNALS[signal].request()
    _fill(request, rng, 0)
    return request


def _fill(message: Any, rng: random.Random, depth: int) -> None:
    choices = {group.name: rng.choice(group.fields).name for group in message.DESCRIPTOR.oneofs}
    for field in message.DESCRIPTOR.fields:
        group = field.containing_oneof
        if group is not None and len(group.fields) > 1 and choices[group.name] != field.name:
            continue
        required = field.name in IDS and not field.name.startswith("parent")
        if field.name.endswith("strindex") or (rng.random() < 0.25 and depth > 3 and not required):
            continue
        _fill_field(message, field, rng, depth)


def _fill_field(message: Any, field: FieldDescriptor, rng: random.Random, depth: int) -> None:
    if field.message_type is not None:
        if depth > 10:
            return
        if not field.is_repeated:
            inner = getattr(message, field.name)
            inner.SetInParent()
            _fill(inner, rng, depth + 1)
            return
        for _ in range(rng.choice((0, 1, 2, 3)) if depth > 6 else rng.choice((1, 2))):
            _fill(getattr(message, field.name).add(), rng, depth + 1)
    elif field.is_repeated:
        getattr(message, field.name).extend(_scalar(field, rng) for _ in range(rng.randrange(4)))
    else:
        setattr(message, field.name, _scalar(field, rng))


def _scalar(field: FieldDescriptor, rng: random.Random) -> Any:
    if field.name in IDS:
        return b"\x01" + rng.randbytes(IDS[field.name] - 1)  # never all zero
    match field.type:
        case FieldDescriptor.TYPE_STRING:
            return rng.choice(TEXTS)
        case FieldDescriptor.TYPE_BYTES:
            return rng.randbytes(rng.randrange(6))
        case FieldDescriptor.TYPE_BOOL:
            return rng.random() < 0.5
        case FieldDescriptor.TYPE_DOUBLE:
            return rng.choice((0.0, -1.5, 1e300, 3.0, 0.1, float("inf"), rng.random()))
        case FieldDescriptor.TYPE_ENUM:
            assert field.enum_type is not None
            return rng.choice(field.enum_type.values).number
    low, high = _INTEGERS[field.type]
    return rng.choice((0, 1, low, high, rng.randint(low, high)))


def to_json(message: Message) -> bytes:
    """The request as OTLP/JSON: protobuf's own JSON, but ids in hex and enums as numbers."""
    document = json_format.MessageToDict(message, use_integers_for_enums=True)
    return orjson.dumps(_ids(document, lambda text: base64.b64decode(text).hex()))


def from_json(signal: SignalName, body: bytes) -> Any:
    """The request that protobuf's own JSON reader makes of OTLP/JSON."""
    document = _ids(orjson.loads(body), lambda text: base64.b64encode(bytes.fromhex(text)).decode())
    return json_format.ParseDict(document, SIGNALS[signal].request(), ignore_unknown_fields=True)


def _ids(value: Any, convert: Any) -> Any:
    if isinstance(value, list):
        return [_ids(entry, convert) for entry in value]
    if not isinstance(value, dict):
        return value
    ids = {camel(name) for name in IDS}
    return {k: convert(v) if k in ids and isinstance(v, str) else _ids(v, convert) for k, v in value.items()}


def field(tag: int, data: bytes) -> bytes:
    """A length-delimited field."""
    length, size = b"", len(data)
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return bytes([tag]) + length + bytes([size]) + data


def mutated(body: bytes, rng: random.Random) -> bytes:
    """The body with a few random changes."""
    data = bytearray(body)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(data) or 1)
        match rng.randrange(5):
            case 0:
                data[at : at + 1] = rng.randbytes(1)
            case 1:
                del data[at : at + rng.randint(1, 8)]
            case 2:
                data[at:at] = rng.randbytes(rng.randint(1, 4))
            case 3:
                other = rng.randrange(len(data) or 1)
                data[at : at + 8] = data[other : other + 8]
            case 4 if data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
    return bytes(data)
