"""Providers' rate-limit headers as limit states, and how long a refused caller should wait."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from models.values import LimitState

_OPENAI = re.compile(r"^x-ratelimit-(limit|remaining|reset)-([a-z][a-z-]*)$")
_ANTHROPIC = re.compile(r"^anthropic-ratelimit-([a-z][a-z-]*)-(limit|remaining|reset)$")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|[hmsd])")
_SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_LOW_SHARE = 0.1
_LONGEST_S = 366 * 86400.0


def limits_in(headers: Mapping[str, str], *, provider: str, now: datetime) -> tuple[LimitState, ...]:
    """The limits a response tells, by name; what cannot be read is left out, not guessed."""
    told: dict[str, dict[str, str]] = {}
    for header, value in headers.items():
        if match := _OPENAI.match(header.lower()):
            told.setdefault(match[2], {})[match[1]] = value
        elif match := _ANTHROPIC.match(header.lower()):
            told.setdefault(match[1], {})[match[2]] = value
    states = (_state(name, values, provider, now) for name, values in sorted(told.items()))
    return tuple(state for state in states if state is not None)


def _state(name: str, values: Mapping[str, str], provider: str, now: datetime) -> LimitState | None:
    maximum, remaining = _number(values.get("limit")), _number(values.get("remaining"))
    if maximum is None and remaining is None:
        return None
    both = maximum is not None and remaining is not None
    return LimitState(
        kind="rate_limit",
        name=name.replace("-", "_"),
        scope=provider,
        status=_status(maximum, remaining),
        unit="requests" if "requests" in name else "tokens" if "tokens" in name else None,
        used=max(0.0, maximum - remaining) if both and maximum is not None and remaining is not None else None,
        maximum=maximum,
        remaining=remaining,
        resets_at=_moment(values.get("reset"), now),
    )


def _status(maximum: float | None, remaining: float | None) -> str:
    if remaining is None:
        return "unknown"
    if remaining <= 0:
        return "hit"
    return "low" if maximum is not None and remaining < maximum * _LOW_SHARE else "ok"


def _number(text: str | None) -> float | None:
    if text is None or not re.fullmatch(r"-?\d{1,18}(\.\d{1,9})?", text.strip(), re.ASCII):
        return None
    value = float(text)
    return value if value >= 0 else None


def _moment(text: str | None, now: datetime) -> datetime | None:
    """A moment told as RFC 3339, or as a span from now such as `6m0s`, `120ms` or bare seconds."""
    if text is None:
        return None
    span_s = _span_s(text.strip())
    if span_s is not None:
        return now + timedelta(seconds=span_s) if span_s <= _LONGEST_S else None
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return moment.astimezone(UTC) if moment.tzinfo else None


def _span_s(text: str) -> float | None:
    bare = _number(text)
    if bare is not None:
        return bare
    if not text or _SPAN.sub("", text):
        return None
    return sum(float(count) * _SECONDS[unit] for count, unit in _SPAN.findall(text))


def retry_after_ms(headers: Mapping[str, str], *, now: datetime) -> float | None:
    """How long the provider asks to wait: `retry-after-ms`, or `Retry-After` as seconds or as a date."""
    exact = _number(headers.get("retry-after-ms"))
    if exact is not None:
        return exact
    told = headers.get("retry-after")
    seconds = _number(told)
    if seconds is not None:
        return seconds * 1000
    if told is None:
        return None
    try:
        moment = parsedate_to_datetime(told)
    except ValueError:
        return None
    return max(0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - now).total_seconds() * 1000)
