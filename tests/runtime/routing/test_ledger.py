"""The account of all sessions: windows, limits, warnings, and the same sums whatever the order of the facts."""

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from models.event import Event
from models.payload import Payload
from models.payloads.cost import CostRecorded, RateLimitHit
from models.payloads.limit import LimitChanged
from models.values import Usage
from runtime.routing import (
    Ledger,
    Limit,
    SetLimit,
    apply_event,
    configured,
    fold,
    quota_blocked,
    quota_low,
    set_limit,
    standing,
    standings,
)
from tests.runtime.routing.scenarios import NOON

NUMBERS = count()
HOUR = timedelta(hours=1)


def event(payload: Payload, at: datetime = NOON, session: str | None = "s-1") -> Event:
    return Event(
        type=payload.event_type or "", event_id=f"e{next(NUMBERS)}", timestamp=at, session_id=session, payload=payload
    )


def cost(usd: float | None = 1.0, at: datetime = NOON, session: str = "s-1", **other: Any) -> Event:
    named = {"provider_name": "openai", "model_name": "gpt-5.4", "scope": "model_call"} | other
    usage = Usage(uncached_input_tokens=60, cache_read_tokens=30, cache_write_tokens=0, output_tokens=10)
    state = "unknown" if usd is None else "priced"
    return event(CostRecorded(**{"usage": usage} | named, cost_usd=usd, cost_state=state), at, session)


def with_limits(*limits: Limit) -> Ledger:
    return fold(event(change) for change in configured(Ledger(), limits, NOON))


DAILY = Limit(name="daily", unit="usd", maximum=10, window="day")


@pytest.mark.parametrize(
    ("limit", "used"),
    [
        (Limit(name="x", unit="usd", maximum=9), 4.0),
        (Limit(name="x", unit="tokens", maximum=9_000), 400.0),
        (Limit(name="x", unit="requests", maximum=9), 4.0),
        (Limit(name="x", unit="usd", maximum=9, scope="session"), 2.0),
        (Limit(name="x", unit="usd", maximum=9, scope="session:s-2"), 2.0),
        (Limit(name="x", unit="usd", maximum=9, window="day"), 3.0),
        (Limit(name="x", unit="usd", maximum=9, window="hour"), 1.0),
        (Limit(name="x", unit="usd", maximum=9, window="week", scope="session"), 1.0),
        (Limit(name="x", unit="usd", maximum=9, provider="openai"), 3.0),
        (Limit(name="x", unit="usd", maximum=9, provider="openai", model="gpt-5.4", window="day"), 2.0),
        (Limit(name="x", unit="usd", maximum=9, provider="nobody"), 0.0),
    ],
)
def test_a_limit_counts_what_it_is_about(limit: Limit, used: float) -> None:
    ledger = fold(
        [
            cost(at=NOON - timedelta(days=1)),
            cost(at=NOON - 2 * HOUR, session="s-2"),
            cost(at=NOON - 2 * HOUR, session="s-2", provider_name="anthropic", model_name="m"),
            cost(at=NOON),
            cost(at=NOON, scope="turn"),
        ]
    )
    assert standing(ledger, limit, NOON + timedelta(minutes=5), "s-1").used == used


def test_the_use_is_gone_when_the_window_is_over() -> None:
    ledger = fold([cost(9.0)], with_limits(DAILY))
    now = standing(ledger, DAILY, NOON)
    assert (now.status, now.remaining, now.resets_at) == ("low", 1.0, datetime(2026, 6, 2, tzinfo=UTC))
    assert standing(ledger, DAILY, NOON + 12 * HOUR).status == "ok"


def test_a_week_begins_on_monday() -> None:
    weekly = Limit(name="w", unit="usd", maximum=1, window="week")
    assert standing(Ledger(), weekly, datetime(2026, 6, 3, 5, tzinfo=UTC)).resets_at == datetime(2026, 6, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    ("used", "status"), [(7.99, "ok"), (8.0, "low"), (9.99, "low"), (10.0, "blocked"), (11, "blocked")]
)
def test_the_status_follows_the_use(used: float, status: str) -> None:
    assert standing(fold([cost(used)]), DAILY, NOON).status == status


def test_a_cost_that_nobody_knows_is_not_counted_as_nothing() -> None:
    unpriced = fold([cost(None)])
    assert standing(unpriced, DAILY, NOON).status == "unknown"
    assert standing(fold([cost(10)], unpriced), DAILY, NOON).status == "blocked"
    assert standing(unpriced, Limit(name="t", unit="tokens", maximum=1e6), NOON).status == "ok"
    untold = fold([cost(usage=Usage(output_tokens=4))])
    assert standing(untold, Limit(name="t", unit="tokens", maximum=1e6), NOON).status == "unknown"


def test_a_new_limit_counts_what_was_used_before_it() -> None:
    ledger = fold([cost(3.0)])
    change = set_limit(ledger, SetLimit(name="daily", maximum=4, window="day", low_at=0.5), NOON)
    assert (change.status, change.used, change.maximum) == ("low", 3.0, 4.0)
    ledger = apply_event(ledger, event(change))
    assert ledger.limits["runtime", "daily"] == Limit(name="daily", unit="usd", maximum=4, window="day", low_at=0.5)


def test_a_limit_is_changed_and_lifted() -> None:
    ledger = with_limits(DAILY)
    change = set_limit(ledger, SetLimit(name="daily", maximum=20, window="day", reason="a busy day"), NOON)
    assert (change.previous_maximum, change.previous_status, change.reason) == (10.0, "ok", "a busy day")
    ledger = apply_event(ledger, event(change))
    assert [stands.maximum for stands in standings(ledger, NOON)] == [20.0]
    ledger = apply_event(ledger, event(set_limit(ledger, SetLimit(name="daily"), NOON)))
    assert standings(ledger, NOON) == ()


def test_a_limit_for_one_session_takes_the_place_of_the_one_for_each() -> None:
    each = Limit(name="usd", unit="usd", maximum=1, scope="session")
    one = Limit(name="usd", unit="usd", maximum=5, scope="session:s-2")
    ledger = with_limits(each, one)
    assert [stands.maximum for stands in standings(ledger, NOON, "s-1")] == [1.0]
    assert [stands.maximum for stands in standings(ledger, NOON, "s-2")] == [5.0]


def test_a_warning_is_given_once_in_a_window_and_again_in_the_next() -> None:
    ledger = fold([cost(9.0)], with_limits(DAILY))
    (low,) = quota_low(ledger, NOON, "s-1")
    assert (low.status, low.used, low.threshold, low.resets_at) == ("low", 9.0, 8.0, datetime(2026, 6, 2, tzinfo=UTC))
    ledger = apply_event(ledger, event(low))
    assert quota_low(fold([cost(2.0)], ledger), NOON + HOUR, "s-2") == ()
    tomorrow = NOON + 24 * HOUR
    assert len(quota_low(fold([cost(9.0, at=tomorrow)], ledger), tomorrow, "s-1")) == 1


def test_each_session_is_warned_of_its_own_limit() -> None:
    ledger = with_limits(Limit(name="usd", unit="usd", maximum=1, scope="session"))
    ledger = fold([cost(0.9, session="s-1"), cost(0.9, session="s-2")], ledger)
    (low,) = quota_low(ledger, NOON, "s-1")
    ledger = apply_event(ledger, event(low, session="s-1"))
    assert quota_low(ledger, NOON, "s-1") == ()
    assert len(quota_low(ledger, NOON, "s-2")) == 1


def test_a_raised_limit_may_get_low_again() -> None:
    ledger = fold([cost(9.0)], with_limits(DAILY))
    ledger = apply_event(ledger, event(quota_low(ledger, NOON)[0]))
    ledger = apply_event(ledger, event(set_limit(ledger, SetLimit(name="daily", maximum=11, window="day"), NOON)))
    assert len(quota_low(ledger, NOON)) == 1


def test_what_stops_work_says_so_to_people() -> None:
    ledger = fold([cost(10.5)], with_limits(DAILY))
    blocked = quota_blocked(standing(ledger, DAILY, NOON), "turn")
    assert blocked.message == "budget daily is used up until 2026-06-02 00:00 UTC: 10.5 of 10 usd"
    assert (blocked.status, blocked.requires_user_override) == ("blocked", False)
    for_ever = Limit(name="total", unit="usd", maximum=1)
    assert quota_blocked(standing(ledger, for_ever, NOON)).requires_user_override is True


def test_the_settings_are_told_once_and_again_when_they_change() -> None:
    ledger = with_limits(DAILY)
    assert configured(ledger, [DAILY], NOON) == ()
    raised = apply_event(ledger, event(set_limit(ledger, SetLimit(name="daily", maximum=50, window="day"), NOON)))
    assert configured(raised, [DAILY], NOON) == (), "a restart must not undo what was set by request"
    (change,) = configured(raised, [DAILY.model_copy(update={"maximum": 7.0})], NOON)
    assert apply_event(raised, event(change)).limits["runtime", "daily"].maximum == 7.0


def test_a_hold_of_a_provider_ends_when_it_said() -> None:
    hit = RateLimitHit(limiter="provider", provider_name="openai", model_name="m", retry_after_ms=20_000)
    ledger = apply_event(Ledger(), event(hit))
    (held,) = standings(ledger, NOON)
    assert (held.status, held.provider_name, held.resets_at) == ("hit", "openai", NOON + timedelta(seconds=20))
    assert standings(ledger, NOON + timedelta(seconds=20)) == ()
    untold = RateLimitHit(limiter="provider", provider_name="openai")
    assert standings(apply_event(Ledger(), event(untold)), NOON) == ()


def test_a_limit_of_another_kind_changes_none_of_ours() -> None:
    ledger = with_limits(DAILY)
    foreign = LimitChanged(kind="policy", name="daily", scope="runtime", status="ok")
    assert apply_event(ledger, event(foreign)).limits == ledger.limits
    odd = LimitChanged(kind="budget", name="odd", scope="runtime", status="ok", unit="sheep", maximum=1, window_s=7)
    assert apply_event(ledger, event(odd)).limits == ledger.limits


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "x", "scope": "galaxy"},
        {"name": "x", "maximum": -1},
        {"name": "x", "maximum": 1, "model": "m"},
        {"name": "x", "window": "fortnight"},
        {"name": "x", "low_at": 0},
        {"name": "x", "limit": 3},
    ],
)
def test_a_request_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SetLimit.model_validate(wrong)


COSTS = st.lists(
    st.tuples(
        st.none() | st.floats(0, 3),
        st.integers(-40, 0).map(lambda hours: NOON + hours * HOUR),
        st.sampled_from(["s-1", "s-2"]),
        st.sampled_from(["a", "b"]),
    ),
    max_size=12,
)


@given(COSTS, st.randoms(use_true_random=False))
def test_the_account_does_not_depend_on_the_order_of_the_facts(told: list[Any], random: Any) -> None:
    facts = [cost(usd, at, session, model_name=model) for usd, at, session, model in told]
    shuffled = random.sample(facts, len(facts))
    assert fold(facts) == fold(shuffled)
    today = [usd for usd, at, _, _ in told if usd is not None and at.date() == NOON.date()]
    assert standing(fold(facts), DAILY, NOON).used == pytest.approx(sum(today), abs=1e-6)
