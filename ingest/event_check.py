"""Decides before the answer which lines of `POST /v1/events` are kept."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from ingest.otlp.check import Checked
from ingest.otlp.masking import Redactor, mask_json
from ingest.otlp.refusals import Limits, TooLarge
from models.errors import MalformedInput
from models.event import Event

FIRST_REASONS = 5
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MOMENT = EPOCH + timedelta(microseconds=(2**64 - 1) // 1000)
"""In the year 2554; later times do not fit into the nanoseconds since 1970 that OpenTelemetry counts in."""


def check_lines(
    body: bytes, redactor: Redactor | None, limits: Limits | None = None, *, first_line: int = 1
) -> Checked:
    """What may be stored of a body of JSON lines, one event envelope each; blank lines count for nothing."""
    limits = limits or Limits()
    if body.count(b"\n") >= limits.max_items:
        raise TooLarge("max_items", limits.max_items)
    masking = redactor is not None and redactor.suspects(body)
    kept: list[bytes] = []
    reasons: list[str] = []
    redactions: Counter[str] = Counter()
    changed = False
    for number, line in enumerate(body.split(b"\n"), first_line):
        if not line.strip():
            continue
        try:
            document = json_object(line)
            _datable(Event.from_json(document))
        except (orjson.JSONDecodeError, MalformedInput) as problem:
            reasons.append(f"line {number}: {_reason(problem)}")
            continue
        if masking and redactor is not None:
            before = redactions.total()
            document = mask_json(document, redactor, redactions)
            if redactions.total() > before:
                line, changed = orjson.dumps(document), True
        kept.append(line)
    if reasons or changed:
        body = b"\n".join(kept) + b"\n" if kept else b""
    return Checked(body, len(kept), len(reasons), "; ".join(reasons[:FIRST_REASONS]), dict(redactions))


def json_object(line: bytes) -> dict[str, Any]:
    """A line as JSON, read the same way before it is accepted and later: other readers understand numbers otherwise."""
    document = orjson.loads(line)
    if not isinstance(document, dict):
        raise MalformedInput("not a JSON object")
    return document


def _reason(problem: Exception) -> str:
    """Why a line is refused, without repeating what it says."""
    if isinstance(problem, MalformedInput):
        return problem.reason
    return f"not JSON ({str(problem).split(':')[0]})"


def _datable(event: Event) -> None:
    if not EPOCH <= event.timestamp <= LAST_MOMENT:
        raise MalformedInput("the timestamp must lie between the years 1970 and 2554")
