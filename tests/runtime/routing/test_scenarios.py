"""Each way a choice can go is explained by the stored facts alone."""

from pathlib import Path
from typing import Any

import pytest

from models.pricing import Usage, price
from runtime.routing import Ledger, fold
from tests.runtime.routing.scenarios import (
    GPT,
    HAIKU,
    NOON,
    SCENARIOS,
    SONNET,
    blocked_by_quota,
    by_model,
    explained,
    fallback_after_error,
    fallback_after_rate_limit,
    keep,
    none,
    selected,
    single_candidate,
    told,
)

PROVEN = pytest.mark.req("AR-238", "GAP-26", "GAP-27", "GAP-33", "GAP-34")


def one(home: Path, scenario: Any) -> dict[str, Any]:
    turn = told(scenario)
    keep(home, turn.events)
    (choice,) = explained(home, turn.turn_id)
    return choice


def table_price(name: str) -> float:
    provider, _, model = name.partition("/")
    found = price(provider, model, Usage(9_000, 3_000, 0, 800), NOON)
    assert found is not None
    return found.cost_usd


@PROVEN
def test_a_selection_tells_its_candidates_its_reason_and_what_each_would_have_cost(tmp_path: Path) -> None:
    choice = one(tmp_path, selected)
    decision, models = choice["decision"], by_model(choice)
    assert (decision["outcome"], decision["candidate_count"]) == ("selected", 5)
    assert decision["reason"].startswith(f"{SONNET} comes first in the order of preference")
    assert choice["profile"]["required_capabilities"] == ["tools"]
    assert {name: row["role"] for name, row in models.items() if row["role"] != "candidate"} == {
        SONNET: "chosen",
        "scripted/script": "excluded",
    }
    assert models["scripted/script"]["reason"] == "not_requested: it is taken only if asked for"
    for name in (SONNET, GPT, HAIKU):
        assert models[name]["would_have_cost_usd"] == pytest.approx(table_price(name))
    assert decision["cost_usd"] == models[SONNET]["recorded_cost_usd"] == pytest.approx(table_price(SONNET))
    assert (decision["cost_state"], decision["model_calls"]) == ("priced", 1)
    assert choice["estimates"][0]["maximum_usd"] > decision["cost_usd"]


@PROVEN
def test_a_single_candidate_is_told_as_such_and_the_others_were_not_asked_for(tmp_path: Path) -> None:
    choice = one(tmp_path, single_candidate)
    assert choice["decision"]["outcome"] == "single_candidate"
    assert (choice["decision"]["decision_source"], choice["decision"]["candidate_count"]) == ("user", 1)
    models = by_model(choice)
    assert models.pop(HAIKU)["role"] == "chosen"
    assert {row["reason"] for row in models.values()} == {"not_requested: claude-haiku-4-5 was asked for"}
    assert models[SONNET]["would_have_cost_usd"] == pytest.approx(table_price(SONNET))


@PROVEN
def test_where_no_model_will_do_every_one_has_its_reasons(tmp_path: Path) -> None:
    choice = one(tmp_path, none)
    assert choice["decision"]["outcome"] == "not_possible"
    assert choice["decision"]["requires_user_override"] is True
    assert choice["recorded"] == []
    models = by_model(choice)
    assert models[SONNET]["reason"] == "capability: it lacks holography; credential: ANTHROPIC_API_KEY is not set"
    assert {row["role"] for row in models.values()} == {"excluded"}
    assert {row["would_have_cost_usd"] for row in models.values()} == {None}


@PROVEN
def test_a_fallback_after_an_error_tells_from_whom_to_whom_and_why(tmp_path: Path) -> None:
    choice = one(tmp_path, fallback_after_error)
    (fallback,) = choice["fallbacks"]
    assert (choice["decision"]["failed_calls"], choice["decision"]["model_calls"]) == (1, 0)
    assert (fallback["from_model"], fallback["selected_model"]) == ("claude-sonnet-4-6", "gpt-5.4")
    assert (fallback["failure_category"], fallback["fallback_index"]) == ("server_error", 1)
    assert fallback["cost_usd"] == pytest.approx(table_price(GPT))
    models = by_model(choice)
    assert (models[SONNET]["role"], models[GPT]["role"]) == ("chosen", "fallback")
    assert (models[SONNET]["recorded_calls"], models[GPT]["recorded_calls"]) == (0, 1)
    assert models[SONNET]["would_have_cost_usd"] == pytest.approx(table_price(SONNET))


@PROVEN
def test_a_fallback_after_a_rate_limit_tells_the_limit_and_until_when_it_holds(tmp_path: Path) -> None:
    choice = one(tmp_path, fallback_after_rate_limit)
    (fallback,) = choice["fallbacks"]
    assert fallback["failure_category"] == "rate_limited"
    changed, hit = choice["limit_facts"]
    assert (changed["type"], changed["payload"]["status"]) == ("limit.changed", "hit")
    assert (hit["type"], hit["payload"]["limiter"], hit["payload"]["http_status"]) == (
        "rate_limit.hit",
        "provider",
        429,
    )
    held = [limit for limit in fallback["limits"] if limit["name"] == "retry_after"]
    assert [(limit["status"], limit["model_name"]) for limit in held] == [("hit", "claude-sonnet-4-6")]
    assert held[0]["resets_at"] == hit["payload"]["resets_at"]


@PROVEN
def test_a_used_up_budget_warns_once_then_stops_work_and_says_which_it_is(tmp_path: Path) -> None:
    turn = told(blocked_by_quota)
    keep(tmp_path, turn.events)
    assert [event.type for event in turn.events].count("quota.low") == 1
    (before,) = explained(tmp_path, "turn_1")
    assert [fact["type"] for fact in before["limit_facts"]] == ["quota.low"]
    assert before["decision"]["cost_usd"] == pytest.approx(2 * table_price(SONNET))
    (after,) = explained(tmp_path, "turn_2")
    assert after["decision"]["outcome"] == "not_possible"
    assert after["limits_then"][0]["name"] == "daily_usd"
    assert after["limits_then"][0]["used"] == pytest.approx(2 * table_price(SONNET))
    (blocked,) = after["limit_facts"]
    assert (blocked["type"], blocked["payload"]["blocked"]) == ("quota.blocked", "turn")
    assert "quota: budget daily_usd is used up until 2026-06-02T00:00:00Z" in by_model(after)[SONNET]["reason"]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_decision_is_explained_by_its_own_id_too(tmp_path: Path, scenario: Any) -> None:
    turn = told(scenario)
    keep(tmp_path, turn.events)
    for event in turn.events:
        if event.type.startswith("routing.") and event.type != "routing.candidates.resolved":
            assert explained(tmp_path, event.event_id) == explained(tmp_path, event.turn_id or "")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_account_is_rebuilt_from_the_facts(scenario: Any) -> None:
    turn = told(scenario)
    assert fold(turn.events) == turn.ledger
    assert (turn.ledger.spent == Ledger().spent) is (scenario is none)
