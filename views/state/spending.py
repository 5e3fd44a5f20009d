"""What model calls used and cost, added up by session, day, model, thread, turn and task."""

from __future__ import annotations

from math import isfinite

from models.values import Cost, Usage
from views.state.step import Step
from views.state.talk_records import ModelCall
from views.state.work_records import Spending

DIGITS = 12
"""Sums of dollars are rounded here, so that the order of additions does not show."""

Keys = frozenset[tuple[str, ...]]
Amounts = dict[str, int]


def charge_calls(step: Step) -> None:
    """Bring the sums up to date after calls changed; a call that was told twice counts once, as told last."""
    for before, after in step.changed_records(ModelCall):
        old, new = _keys(before), _keys(after)
        if before is None or (old, before.usage, before.cost) != (new, after.usage, after.cost):
            _charge(step, before, after, old, new)


def _charge(step: Step, before: ModelCall | None, after: ModelCall, old: Keys, new: Keys) -> None:
    for key in sorted(old | new):
        held = step.get(Spending, key) or Spending()
        counts, usd, usage = _counts(held), held.known_usd, held.usage
        for call, keys, sign in ((before, old, -1), (after, new, 1)):
            if call is None or key not in keys:
                continue
            counts = {name: counts[name] + sign * by for name, by in _share(call).items()}
            usd += sign * (known_usd(call.cost) or 0.0)
            usage = _added(usage, call.usage, sign)
        step.put(Spending, key, known_usd=round(usd, DIGITS), usage=usage, **counts)


def known_usd(cost: Cost | None) -> float | None:
    """The dollars of a cost that somebody knows; None where nobody does."""
    if cost is None or cost.cost_usd is None or cost.cost_state not in (None, "reported", "priced"):
        return None
    return cost.cost_usd if isfinite(cost.cost_usd) and cost.cost_usd < 1e12 else None


def total_cost(spent: Spending) -> Cost:
    """The cost of all calls: unknown as soon as that of one is; how much is known stands beside it."""
    if not spent.calls:
        return Cost(cost_state="unknown")
    if spent.unknown_cost_calls:
        known = {"known_usd": spent.known_usd, "unknown_cost_calls": spent.unknown_cost_calls, "calls": spent.calls}
        return Cost.model_validate({"cost_state": "unknown", **known})
    return Cost(cost_usd=spent.known_usd, cost_state="priced" if spent.priced_calls else "reported")


def _keys(call: ModelCall | None) -> Keys:
    """The sums that a call is part of: none while nothing is known of its end."""
    if call is None or (call.ended_at is None and call.usage is None and call.cost is None):
        return frozenset()
    keys: list[tuple[str, ...]] = [("session",), ("model", call.provider_name or "", call.model_name or "")]
    if call.ended_at is not None:
        keys.append(("day", call.ended_at.date().isoformat()))
    owners = {"thread": call.thread_id, "turn": call.turn_id, "task": call.task_id}
    keys += [(name, owner) for name, owner in owners.items() if owner is not None]
    return frozenset(keys)


def _counts(spent: Spending) -> Amounts:
    names = ("calls", "calls_with_usage", "reported_calls", "priced_calls", "unknown_cost_calls")
    return {name: getattr(spent, name) for name in names}


def _share(call: ModelCall) -> Amounts:
    """What one call adds to the counts."""
    known = known_usd(call.cost) is not None
    priced = known and call.cost is not None and call.cost.cost_state == "priced"
    return {
        "calls": 1,
        "calls_with_usage": int(call.usage is not None),
        "reported_calls": int(known and not priced),
        "priced_calls": int(priced),
        "unknown_cost_calls": int(not known),
    }


def _added(held: Usage | None, told: Usage | None, sign: int) -> Usage | None:
    if told is None:
        return held
    names = [name for name in Usage.model_fields if getattr(told, name) is not None]
    sums = {name: ((getattr(held, name) if held else None) or 0) + sign * getattr(told, name) for name in names}
    return (held or Usage()).model_copy(update=sums)
