"""OTLP values as JSON text, from decoded messages."""

import base64
import math
from collections.abc import Iterable
from typing import Any

import orjson


def quote(text: str) -> str:
    """A JSON string."""
    return orjson.dumps(text).decode()


def number_text(number: float) -> str:
    """A JSON number; those JSON does not have are strings, as protobuf's JSON spells them."""
    if math.isfinite(number):
        return orjson.dumps(number).decode()
    return '"NaN"' if math.isnan(number) else '"Infinity"' if number > 0 else '"-Infinity"'


def bytes_text(data: bytes) -> str:
    """Bytes are marked, so that they are not taken for a text."""
    return f'{{"base64":"{base64.b64encode(data).decode()}"}}'


def value_text(value: Any) -> str:
    """An AnyValue; an unset one is null."""
    match value.WhichOneof("value"):
        case "string_value":
            return quote(value.string_value)
        case "int_value":
            return str(value.int_value)
        case "double_value":
            return number_text(value.double_value)
        case "bool_value":
            return "true" if value.bool_value else "false"
        case "array_value":
            return array_text(value.array_value.values)
        case "kvlist_value":
            return object_text(value.kvlist_value.values)
        case "bytes_value":
            return bytes_text(value.bytes_value)
    return "null"  # not set, or an index into the string table of another signal


def array_text(values: Iterable[Any]) -> str:
    """A list of AnyValues."""
    return f"[{','.join(map(value_text, values))}]"


def object_text(attributes: Iterable[Any]) -> str:
    """KeyValues; a repeated key stays repeated, so that nothing sent is lost."""
    return f"{{{','.join([f'{quote(each.key)}:{value_text(each.value)}' for each in attributes])}}}"
