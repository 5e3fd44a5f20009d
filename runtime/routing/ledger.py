"""The runtime-wide account of what was used, folded from facts of all sessions, and where each limit stands by it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from immutables import Map

from models.event import Event
from models.payloads.cost import CostRecorded, QuotaBlocked, QuotaLow, RateLimitHit
from models.payloads.limit import LimitChanged
from models.values import LimitState
from runtime.routing.limits import WINDOWS_S, Limit, SetLimit, Standing, window_end, window_start_s

NANO = 1_000_000_000
WIDER_SCOPES = frozenset({"turn", "task", "session"})
"""Costs of these contain costs that were recorded already."""

FROM_SETTINGS = "from the settings"
LENGTHS_S = (None, *WINDOWS_S.values())


class Spent(NamedTuple):
    """What was used in one window. Whole numbers, so the sum does not depend on the order of the facts."""

    start_s: int
    nano_usd: int = 0
    tokens: int = 0
    requests: int = 0
    unpriced: int = 0
    """Calls whose cost nobody knows."""

    uncounted: int = 0
    """Calls whose tokens nobody told."""


class Key(NamedTuple):
    """What a count is of; None stands for all."""

    window_s: int | None
    session_id: str | None
    provider: str | None
    model: str | None


class Reported(NamedTuple):
    """A provider's own limit, as it last told it."""

    state: LimitState
    provider: str | None
    model: str | None


@dataclass(frozen=True, slots=True)
class Ledger:
    """What was used and what may be used. Rebuilt at any time by folding the facts, each once."""

    spent: Map[Key, Spent] = field(default_factory=Map)
    """By window, session, provider and model; of each only the latest window."""

    limits: Map[tuple[str, str], Limit] = field(default_factory=Map)
    """Our own, by scope and name."""

    settings: Map[tuple[str, str], Limit] = field(default_factory=Map)
    """Those of ours that the settings gave, as they were then."""

    reported: Map[tuple[str | None, str | None, str | None], Reported] = field(default_factory=Map)
    """The providers' own, by provider, model and name."""

    held: Map[tuple[str | None, str | None], datetime] = field(default_factory=Map)
    """Until when a provider, or one model of it, takes no calls of ours."""

    warned: Map[tuple[str, str, str | None], int] = field(default_factory=Map)
    """The window in which `quota.low` was last told, by scope, name and session."""


def apply_event(ledger: Ledger, event: Event) -> Ledger:
    """The account after one more fact; facts that are not about cost or limits change nothing."""
    payload = event.payload
    if isinstance(payload, CostRecorded):
        return _spend(ledger, event, payload)
    if isinstance(payload, LimitChanged):
        return _change(ledger, payload)
    if isinstance(payload, RateLimitHit):
        return _hold(ledger, event, payload)
    if isinstance(payload, QuotaLow):
        return _warn(ledger, event, payload)
    return ledger


def fold(events: Iterable[Event], start: Ledger | None = None) -> Ledger:
    """The account after all of these facts."""
    ledger = start or Ledger()
    for event in events:
        ledger = apply_event(ledger, event)
    return ledger


def _spend(ledger: Ledger, event: Event, cost: CostRecorded) -> Ledger:
    if cost.scope in WIDER_SCOPES:
        return ledger
    usage = cost.usage
    counts = (usage.uncached_input_tokens, usage.cache_read_tokens, usage.cache_write_tokens) if usage else ()
    output = usage.output_tokens if usage else None
    more = Spent(
        0,
        round((cost.cost_usd or 0.0) * NANO),
        sum(count or 0 for count in (*counts, output)),
        0 if cost.scope == "tool_call" else 1,
        int(cost.cost_usd is None),
        int(not counts or counts[0] is None or output is None) if cost.scope != "tool_call" else 0,
    )
    spent = ledger.spent.mutate()
    for key in _keys(event.session_id, cost.provider_name, cost.model_name):
        start_s = window_start_s(key.window_s, event.timestamp)
        before = spent.get(key, Spent(start_s))
        if before.start_s > start_s:
            continue  # a late fact of a window that is over
        if before.start_s < start_s:
            before = Spent(start_s)
        spent[key] = Spent(start_s, *(a + b for a, b in zip(before[1:], more[1:], strict=True)))
    return replace(ledger, spent=spent.finish())


def _keys(session_id: str | None, provider: str | None, model: str | None) -> Iterator[Key]:
    whose = dict.fromkeys(((None, None), (provider, None), (provider, model)))
    for window_s in LENGTHS_S:
        for session in dict.fromkeys((None, session_id)):
            for one in whose:
                yield Key(window_s, session, *one)


def _change(ledger: Ledger, change: LimitChanged) -> Ledger:
    ours = change.kind in ("budget", "quota") and (change.scope or "").split(":")[0] in ("runtime", "session")
    if not ours:
        state = LimitState.model_validate(change.model_dump(include=set(LimitState.model_fields)))
        key = (change.provider_name, change.model_name, change.name)
        told = Reported(state, change.provider_name, change.model_name)
        return replace(ledger, reported=ledger.reported.set(key, told))
    name = (change.scope or "", change.name or "")
    before, limit = ledger.limits.get(name), Limit.told_by(change)
    if limit == before:
        return ledger
    if limit is None:
        ledger = replace(ledger, limits=ledger.limits.delete(name))
    else:
        ledger = replace(ledger, limits=ledger.limits.set(name, limit))
        if change.reason == FROM_SETTINGS:
            ledger = replace(ledger, settings=ledger.settings.set(name, limit))
    warned = ledger.warned.mutate()
    for key in [key for key in ledger.warned if key[:2] == name]:
        del warned[key]  # a changed limit may get low once more
    return replace(ledger, warned=warned.finish())


def _hold(ledger: Ledger, event: Event, hit: RateLimitHit) -> Ledger:
    until = hit.resets_at
    if until is None and hit.retry_after_ms is not None:
        until = event.timestamp + timedelta(milliseconds=hit.retry_after_ms)
    if until is None:
        return ledger
    key = (hit.provider_name, hit.model_name)
    return replace(ledger, held=ledger.held.set(key, max(until, ledger.held.get(key, until))))


def _warn(ledger: Ledger, event: Event, low: QuotaLow) -> Ledger:
    limit = ledger.limits.get((low.scope or "", low.name or ""))
    if limit is None:
        return ledger
    start_s = window_start_s(limit.window_s, event.timestamp)
    return replace(ledger, warned=ledger.warned.set(_warning(limit, event.session_id), start_s))


def _warning(limit: Limit, session_id: str | None) -> tuple[str, str, str | None]:
    return (limit.scope, limit.name, None if limit.scope == "runtime" else session_id)


def standing(ledger: Ledger, limit: Limit, now: datetime, session_id: str | None = None) -> Standing:
    """Where one of our limits stands for a session: `ok`, `low`, `blocked`, or `unknown` where a part of the use is."""
    session = None if limit.scope == "runtime" else limit.scope.partition(":")[2] or session_id
    start_s = window_start_s(limit.window_s, now)
    spent = ledger.spent.get(Key(limit.window_s, session, limit.provider, limit.model), Spent(start_s))
    if spent.start_s < start_s:
        spent = Spent(start_s)
    used = {"usd": spent.nano_usd / NANO, "tokens": float(spent.tokens), "requests": float(spent.requests)}[limit.unit]
    untold = {"usd": spent.unpriced, "tokens": spent.uncounted, "requests": 0}[limit.unit]
    threshold = round(limit.maximum * limit.low_at, 9)
    status = "blocked" if used >= limit.maximum else "low" if used >= threshold else "unknown" if untold else "ok"
    return Standing(
        kind=limit.kind,
        name=limit.name,
        scope=limit.scope,
        status=status,
        unit=limit.unit,
        used=used,
        maximum=limit.maximum,
        remaining=round(limit.maximum - used, 9),
        window_s=limit.window_s,
        resets_at=window_end(limit.window_s, now),
        provider_name=limit.provider,
        model_name=limit.model,
        threshold=threshold,
    )


def standings(ledger: Ledger, now: datetime, session_id: str | None = None) -> tuple[Standing, ...]:
    """Where every limit stands that can bind a call of this session now: ours, the providers', and their holds."""
    found = [standing(ledger, limit, now, session_id) for limit in _binding(ledger, session_id)]
    for (provider, model, _), told in sorted(ledger.reported.items(), key=lambda item: tuple(map(str, item[0]))):
        if told.state.resets_at is None or told.state.resets_at > now:
            found.append(Standing(**told.state.model_dump(), provider_name=provider, model_name=model))
    for (provider, model), until in sorted(ledger.held.items(), key=lambda item: tuple(map(str, item[0]))):
        if until > now:
            whom = {"provider_name": provider, "model_name": model}
            held = {"kind": "rate_limit", "name": "retry_after", "scope": "provider", "status": "hit"}
            found.append(Standing(**held, **whom, resets_at=until.astimezone(UTC)))
    return tuple(found)


def _binding(ledger: Ledger, session_id: str | None) -> list[Limit]:
    """Our limits for a session; one set for this very session takes the place of the same for every session."""
    own = {limit.name for limit in ledger.limits.values() if limit.scope == f"session:{session_id}"}
    found = [
        limit
        for limit in ledger.limits.values()
        if limit.counts_for(session_id) and not (limit.scope == "session" and limit.name in own)
    ]
    return sorted(found, key=lambda limit: (limit.scope, limit.name))


def quota_low(ledger: Ledger, now: datetime, session_id: str | None = None) -> tuple[QuotaLow, ...]:
    """The warnings that are due: once for each limit and window, as soon as the fact is folded in."""
    due = []
    for limit in _binding(ledger, session_id):
        stands = standing(ledger, limit, now, session_id)
        told_s = ledger.warned.get(_warning(limit, session_id))
        if stands.status in ("low", "blocked") and told_s != window_start_s(limit.window_s, now):
            due.append(QuotaLow(**stands.model_dump() | {"status": "low"}))
    return tuple(due)


def quota_blocked(stands: Standing, blocked: str = "model_call") -> QuotaBlocked:
    """The fact that a limit of ours stopped something."""
    until = f" until {stands.resets_at:%Y-%m-%d %H:%M} UTC" if stands.resets_at else ""
    return QuotaBlocked(
        **stands.model_dump(exclude={"threshold"}) | {"status": "blocked"},
        blocked=blocked,
        message=f"{stands.kind} {stands.name} is used up{until}: {amount(stands)}",
        requires_user_override=stands.resets_at is None,
    )


def amount(stands: LimitState) -> str:
    """How much of how much was used, for people."""
    used, maximum = (f"{value:.6g}" if value is not None else "unknown" for value in (stands.used, stands.maximum))
    return f"{used} of {maximum} {stands.unit or ''}".rstrip()


def set_limit(ledger: Ledger, request: SetLimit, now: datetime, session_id: str | None = None) -> LimitChanged:
    """The fact that sets, changes or lifts a limit."""
    before = ledger.limits.get((request.scope, request.name))
    limit = request.limit()
    told: dict[str, object] = {"kind": request.kind, "name": request.name, "scope": request.scope, "status": "ok"}
    if limit is not None:
        told = standing(ledger, limit, now, session_id).model_dump()
    if before is not None:
        told["previous_status"] = standing(ledger, before, now, session_id).status
        told["previous_maximum"] = before.maximum
    reason = request.reason or ("set by request" if limit else "lifted by request")
    return LimitChanged.model_validate(told | {"reason": reason})


def configured(ledger: Ledger, limits: Iterable[Limit], now: datetime) -> tuple[LimitChanged, ...]:
    """The facts that bring limits from the settings into the record: those that are new there or changed.

    What a request set stays until the settings say something new.
    """
    news = [limit for limit in limits if ledger.settings.get((limit.scope, limit.name)) != limit]
    return tuple(
        LimitChanged.model_validate(standing(ledger, limit, now).model_dump() | {"reason": FROM_SETTINGS})
        for limit in news
    )
