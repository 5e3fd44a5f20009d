"""Usage, cost and limits: added up at the level of model calls only, and unknown where one is unknown."""

from typing import Any

import pytest

from models.payloads import cost, limit, model, routing
from models.values import CandidateModel, CandidateModelSet, Cost, Usage
from tests.views.state.stories import Story, check
from views.state import routing_summary, total_cost


def usage(tokens: int) -> Usage:
    return Usage(uncached_input_tokens=tokens, output_tokens=tokens)


def completed(story: Story, call: str, *, paid: Cost | None, tokens: int = 10, **ids: Any) -> None:
    done = model.ModelCompleted(provider_name="p", model_name="m", stop_reason="stop", usage=usage(tokens), cost=paid)
    story.tell(done, model_request_id=call, **ids)


PRICED, REPORTED = Cost(cost_usd=0.5, cost_state="priced"), Cost(cost_usd=0.25, cost_state="reported")


@pytest.mark.req("AR-209")
def test_sums_are_of_model_calls_and_wider_scopes_are_not_added_again() -> None:
    story = Story(thread_id="th", turn_id="tu", task_id="t")
    completed(story, "r1", paid=PRICED)
    completed(story, "r2", paid=REPORTED)
    for scope in ("model_call", "tool_call", "turn", "task", "session"):
        total = cost.CostRecorded(cost_usd=0.5, cost_state="priced", usage=usage(10), scope=scope)
        story.tell(total, model_request_id="r1", tool_call_id="c")
    state = story.state
    check(state)
    for key in (
        ("session",),
        ("turn", "tu"),
        ("task", "t"),
        ("thread", "th"),
        ("model", "p", "m"),
        ("day", "2026-05-04"),
    ):
        assert state.spending[key].known_usd == 0.75, key
        assert state.spending[key].usage == Usage(uncached_input_tokens=20, output_tokens=20)
    assert state.bills["turn", "tu"].cost == PRICED
    shown = routing_summary(state)
    assert shown is not None
    assert shown.cost == Cost(cost_usd=0.75, cost_state="priced")
    assert state.source(("spending", ("session",), "known_usd")) == ("e-2", 2, "model.completed")


def test_a_call_that_is_told_again_counts_once_as_told_last() -> None:
    story = Story(thread_id="th")
    recorded = cost.CostRecorded(cost_usd=0.1, cost_state="priced", usage=usage(7), scope="model_call")
    story.tell(recorded, model_request_id="r", turn_id="t1")
    assert story.state.spending["session",].known_usd == 0.1, "counted before the call has ended"
    completed(story, "r", paid=PRICED, turn_id="t2")
    state = story.state
    check(state)
    assert (state.spending["session",].known_usd, state.spending["session",].calls) == (0.5, 1)
    assert (state.spending["turn", "t1"].calls, state.spending["turn", "t2"].calls) == (0, 1)


def test_one_call_of_unknown_cost_makes_the_whole_unknown_and_tells_how_much_is_known() -> None:
    story = Story()
    completed(story, "r1", paid=PRICED)
    story.tell(model.ModelFailed(failure_category="timeout", message="m", retryable=True), model_request_id="r2")
    spent = story.state.spending["session",]
    assert (spent.calls, spent.unknown_cost_calls, spent.calls_with_usage) == (2, 1, 1)
    whole = total_cost(spent)
    assert (whole.cost_usd, whole.cost_state) == (None, "unknown")
    assert whole.model_extra == {"known_usd": 0.5, "unknown_cost_calls": 1, "calls": 2}


def test_a_cost_that_names_no_scope_is_noted_and_not_added() -> None:
    story = Story()
    story.tell(cost.CostRecorded(cost_usd=9.0, cost_state="reported", usage=usage(1)))
    story.tell(cost.CostRecorded(cost_usd=9.0, cost_state="reported", usage=usage(1), scope="model_call"))
    assert ("session",) not in story.state.spending
    assert [note.code for note in story.state.notes.values()] == ["no_identity"] * 2


def test_where_no_call_is_known_the_total_of_the_source_is_shown() -> None:
    story = Story()
    story.tell(cost.CostRecorded(cost_usd=9.0, cost_state="reported", usage=usage(1), scope="session"))
    shown = routing_summary(story.state)
    assert shown is not None
    assert shown.cost == Cost(cost_usd=9.0, cost_state="reported")


@pytest.mark.req("AR-209")
def test_the_choice_of_a_model_is_told_with_its_candidates_its_fallbacks_and_its_end() -> None:
    story = Story(thread_id="th", turn_id="tu")
    assert routing_summary(story.state) is None
    story.tell(routing.TaskProfileResolved(kind="coding", source="caller", required_capabilities=("tools",)))
    found = (CandidateModel(model_name="m"), CandidateModel(model_name="n"))
    story.tell(routing.RoutingCandidatesResolved(count=2, candidates=found))
    chosen = {"decision_source": "router", "candidate_count": 2}
    story.tell(routing.RoutingDecided(selected_model="m", decision_reason="best", **chosen))
    story.tell(cost.CostEstimated(cost_usd=0.2, cost_state="priced"))
    shown = routing_summary(story.state)
    assert shown is not None
    assert (shown.status, shown.candidate_count, shown.native_status) == ("available", 2, "decided")
    assert shown.task_profile is not None
    assert shown.task_profile.kind == "coding"
    assert shown.decision is not None
    assert shown.decision.selected_model == "m"
    story.tell(routing.RoutingFallbackApplied(from_model="m", selected_model="n", decision_reason="429"))
    held = story.state.routing["tu"]
    assert (held.status, held.estimate) == ("fallback", Cost(cost_usd=0.2, cost_state="priced"))
    assert held.fallbacks is not None
    assert held.fallbacks[0].model_extra == {"from_model": "m"}
    none = CandidateModelSet(count=0, excluded=(CandidateModel(model_name="n", excluded_reason="quota"),))
    story.tell(routing.RoutingNotPossible(reason="all excluded", candidates=none))
    after = routing_summary(story.state)
    assert after is not None
    assert (after.status, after.status_reason, after.decision) == ("blocked", "all excluded", None)
    assert after.candidate_count == 0


@pytest.mark.req("AR-209")
def test_limits_stand_where_the_last_fact_put_them() -> None:
    story = Story(thread_id="th", turn_id="tu")
    named = {"name": "tokens", "scope": "account", "unit": "tokens", "provider_name": "p"}
    story.tell(limit.LimitChanged(kind="quota", status="ok", used=1, maximum=100, **named))
    story.tell(cost.QuotaLow(used=91, maximum=100, **named))
    story.tell(cost.RateLimitHit(limiter="provider", name="rpm", retry_after_ms=1000, provider_name="p"))
    states = {one.name: (one.kind, one.status, one.used) for one in story.state.limits.values()}
    assert states == {"tokens": ("quota", "low", 91), "rpm": ("rate_limit", "hit", None)}
    story.tell(cost.QuotaBlocked(**named))
    shown = routing_summary(story.state)
    assert shown is not None
    assert (shown.status, shown.status_reason) == ("blocked", "tokens")
    assert [one.status for one in shown.limits or ()] == ["blocked", "hit"]
