"""JSON as it is found in files: other encodings than UTF-8, half emoji, numbers that JSON does not know."""

import json
import re
from datetime import UTC, datetime
from typing import Any

import orjson

from models.errors import MalformedInput

UTF8_BOM = b"\xef\xbb\xbf"
WIDE_BOMS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
HALF_CHARACTERS = re.compile("[\ud800-\udfff]")
SECONDS_BELOW = 10**11
"""A bare number below this is a time in seconds; above it (the year 5138 in seconds) in milliseconds."""


def parse(text: bytes) -> tuple[Any, bytes]:
    """The value, and the text as it may be kept: UTF-8 on one line. Raises MalformedInput with the reason.

    Agents cut texts in the middle of an emoji and write the half that is left; what strict readers refuse for that is
    read leniently, with the half replaced.
    """
    text = text.removeprefix(UTF8_BOM)
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as strict:
        return _lenient(text, str(strict).split(":")[0])
    return value, text if b"\n" not in text and b"\r" not in text else orjson.dumps(value)


def _lenient(text: bytes, reason: str) -> tuple[Any, bytes]:
    try:
        value = json.loads(text.decode())
    except UnicodeDecodeError:
        raise MalformedInput(f"not UTF-8 text ({guess(text)})") from None
    except (json.JSONDecodeError, RecursionError):
        raise MalformedInput(f"not JSON ({reason})") from None
    written = orjson.dumps(_whole(value))
    return orjson.loads(written), written


def _whole(value: Any) -> Any:
    if isinstance(value, str):
        return HALF_CHARACTERS.sub("\ufffd", value)
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    if isinstance(value, dict):
        return {HALF_CHARACTERS.sub("\ufffd", key): _whole(inner) for key, inner in value.items()}
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return float(value)
    return value


def guess(text: bytes) -> str:
    """What text that is not UTF-8 seems to be, for a report."""
    return "it looks like UTF-16" if b"\x00" in text[:200] else "it looks like an older 8-bit encoding"


def document(line: bytes) -> tuple[dict[str, Any], bytes]:
    """A line that must be a JSON object."""
    value, text = parse(line)
    if not isinstance(value, dict):
        raise MalformedInput(f"a JSON {_kind(value)}, not an object")
    return value, text


def _kind(value: Any) -> str:
    return {str: "text", list: "array", bool: "truth value", type(None): "null"}.get(type(value), "number")


def moment_ns(value: Any) -> int | None:
    """A time as nanoseconds since 1970: RFC 3339 text, or a number of seconds or milliseconds; None if it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return _in_range(int(value * 1_000_000_000 if abs(value) < SECONDS_BELOW else value * 1_000_000))
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return None
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    whole = int(aware.replace(microsecond=0).timestamp())
    return _in_range(whole * 1_000_000_000 + aware.microsecond * 1000)


def _in_range(nanoseconds: int) -> int | None:
    return nanoseconds if 0 <= nanoseconds < 2**63 else None


def text_of(value: Any) -> str | None:
    """A text that says something, or None."""
    return value if isinstance(value, str) and value else None


def table(value: Any) -> dict[str, Any]:
    """A JSON object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}
