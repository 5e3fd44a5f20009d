"""Figures and states in the words people read."""

from datetime import UTC, datetime

UNKNOWN = "unknown"

STATUS_WORDS = {
    "completed": "ok",
    "ok": "ok",
    "failed": "failed",
    "error": "failed",
    "running": "running",
    "streaming": "running",
    "queued": "waiting",
    "blocked": "waiting",
    "waiting_input": "waiting for input",
    "waiting_permission": "waiting for permission",
    "waiting_resource": "waiting",
    "denied": "denied",
    "cancelled": "stopped",
    "interrupted": "stopped",
    "terminated": "stopped",
}

STATUS_SIGNS = {"ok": "✓", "failed": "✗", "running": "▸", "denied": "⊘", "stopped": "■", UNKNOWN: "?"}


def status_word(status: str | None) -> str:
    """What to call a recorded status; `unknown` when no end was recorded, never `ok` by default."""
    if not status:
        return UNKNOWN
    return STATUS_WORDS.get(status, status.replace("_", " "))


def status_sign(status: str | None) -> str:
    """The word with a sign before it, so that colour is never the only signal."""
    word = status_word(status)
    return f"{STATUS_SIGNS.get(word, '·')} {word}"


def duration(milliseconds: float | None) -> str:
    """A length of time in the two units that matter; impossible ones are not told."""
    if milliseconds is None or not 0 <= milliseconds < 1e13:
        return UNKNOWN
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms" if milliseconds >= 10 else f"{milliseconds:.2g} ms"
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds_left = divmod(round(seconds), 60)
    hours, minutes_left = divmod(minutes, 60)
    days, hours_left = divmod(hours, 24)
    if days:
        return f"{days} d {hours_left} h"
    return f"{hours} h {minutes_left:02} min" if hours else f"{minutes} min {seconds_left:02} s"


def money(usd: float | None) -> str:
    """US dollars: cents, and four digits below a cent."""
    if usd is None or usd != usd:
        return UNKNOWN
    if 0 < usd < 0.0001:
        return "< $0.0001"
    return f"${usd:,.4f}" if 0 < usd < 0.01 else f"${usd:,.2f}"


def cost(usd: float | None, state: str | None) -> str:
    """A cost with what is known about it; a session without model calls has none."""
    if state is None:
        return "none"
    return f"≥ {money(usd)}" if state == "partial" else money(usd)


def unpriced(calls: int | None, share: float | None) -> str:
    """How much of a sum of costs is not in it."""
    if not calls:
        return "all calls are in it"
    return f"without {plural(calls, 'call')} of unknown price ({share or 0.0:.1%})"


COST_STATES = {
    "reported": "reported by the agent",
    "priced": "from the price table",
    "mixed": "partly reported, partly from the price table",
    "partial": "some calls have no known price",
    "unknown": "no price is known for the model",
}


def count(number: float | None) -> str:
    """A whole number with thousands marked."""
    return UNKNOWN if number is None or number != number else f"{int(number):,}"


def short_count(number: float | None) -> str:
    """A whole number in at most five characters."""
    if number is None or number != number:
        return UNKNOWN
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        # What would round up to the next thousand is told in the next unit.
        if number >= size * 0.9995:
            return f"{number / size:.3g} {letter}"
    return f"{int(number)}"


def size(size_bytes: float) -> str:
    """Bytes in decimal units."""
    for unit, letter in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {letter}"
    return f"{int(size_bytes)} B"


def ago(moment: datetime | None, now: datetime) -> str:
    """How long ago, in words."""
    if moment is None:
        return "never"
    passed_ms = (now - moment).total_seconds() * 1000
    if passed_ms < 2000:
        return "just now"
    for unit_ms, name in ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min")):
        if passed_ms >= unit_ms:
            return f"{passed_ms / unit_ms:.0f} {name} ago"
    return f"{passed_ms / 1000:.0f} s ago"


def utc(moment: datetime | None) -> str:
    """The moment with its zone, to the millisecond."""
    if moment is None:
        return UNKNOWN
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return aware.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"


def plural(number: int, noun: str) -> str:
    """`1 event`, `2 events`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
