"""The choice and the fallbacks, with reasons a person understands."""

from dataclasses import replace
from typing import Any

import pytest

from models.payloads.routing import RoutingFallbackApplied, RoutingNotPossible
from runtime.providers.provider import ProviderFailed
from runtime.routing import Conditions, RoutingOptions, decide, fall_back, load
from runtime.routing.candidates import candidates
from runtime.routing.decision import Decision
from tests.runtime.routing.scenarios import GPT, HAIKU, KEYS, NOON, SONNET, Routed, route

NOW = Conditions(now=NOON, credentials=KEYS, context_tokens=12_000)


def routed(**options: Any) -> Routed:
    return route(load(), RoutingOptions(**options), NOW)


def after(
    found: Routed, category: Any, tried: tuple[str, ...] = (), decision: Decision | None = None, **conditions: Any
) -> RoutingFallbackApplied | RoutingNotPossible:
    afresh = candidates(load(), found.profile, replace(NOW, **conditions))
    return fall_back(decision or found.made, ProviderFailed(category, "No."), tried, afresh, found.profile)


def test_a_preferred_model_that_cannot_be_had_is_named_in_the_reason() -> None:
    conditions = replace(NOW, credentials=frozenset({"anthropic"}))
    decision = route(load(), RoutingOptions(model=GPT, fallback="chain"), conditions).made
    assert decision.selected_model == "claude-sonnet-4-6"
    assert decision.decision_source == "router"
    assert decision.decision_reason is not None
    assert decision.decision_reason.startswith(
        f"{GPT} was asked for and cannot be chosen (credential: OPENAI_API_KEY is not set). {SONNET} comes first"
    )


def test_a_model_that_nobody_knows_makes_no_choice_possible() -> None:
    found = routed(model="clever-9000").decision
    assert isinstance(found, RoutingNotPossible)
    assert found.reason == "clever-9000 was asked for and is not known."
    assert found.requires_user_override is True


def test_a_capability_that_no_model_has_is_the_gap() -> None:
    catalogue = load()
    able = catalogue.model_copy(update={"models": catalogue.models[:3]})
    found = route(able, RoutingOptions(required_capabilities=("tools", "smell", "taste")), NOW).decision
    assert isinstance(found, RoutingNotPossible)
    assert (found.capability_gap, found.requires_user_override) == ("smell, taste", False)
    assert found.reason == "Every model is left out: capability (3)."
    assert found.candidates is not None
    assert len(found.candidates.excluded or ()) == 3


def test_an_empty_catalogue_is_told() -> None:
    found = route(load().model_copy(update={"models": ()}), RoutingOptions(), NOW).decision
    assert isinstance(found, RoutingNotPossible)
    assert found.reason == "The catalogue has no models."


def test_the_default_model_of_the_settings_is_told_as_a_default() -> None:
    found = routed()
    decision = decide(load(), found.resolved, found.profile, requested=SONNET, by_default=True)
    assert not isinstance(decision, RoutingNotPossible)
    assert decision.decision_source == "default"


def test_a_model_with_a_chain_of_its_own_falls_back_along_it() -> None:
    catalogue = load()
    first = catalogue.models[0].model_copy(update={"fallback": (HAIKU, "openai/gone", "gpt-5.4")})
    own = catalogue.model_copy(update={"models": (first, *catalogue.models[1:])})
    assert route(own, RoutingOptions(), NOW).made.fallback_chain == (HAIKU, GPT)


def test_the_next_of_the_chain_is_taken_and_the_count_goes_up() -> None:
    found = routed()
    first = after(found, "timeout")
    assert isinstance(first, RoutingFallbackApplied)
    assert (first.from_model, first.selected_model, first.fallback_index) == ("claude-sonnet-4-6", "gpt-5.4", 1)
    second = after(found, "overloaded", (SONNET,), first)
    assert isinstance(second, RoutingFallbackApplied)
    assert (second.from_model, second.selected_model, second.fallback_index) == ("gpt-5.4", "claude-haiku-4-5", 2)
    assert GPT not in (second.fallback_chain or ())


def test_a_model_that_was_tried_or_cannot_be_had_any_more_is_passed_over() -> None:
    found = after(routed(), "timeout", (GPT,), credentials=frozenset({"openai"}))
    assert isinstance(found, RoutingFallbackApplied)
    assert found.selected_model == "gpt-5.4-mini"


def test_a_context_that_is_too_long_needs_a_larger_window() -> None:
    found = after(routed(model=HAIKU, fallback="chain"), "context_length", (SONNET, GPT))
    assert isinstance(found, RoutingFallbackApplied)
    assert found.selected_model == "gpt-5.4-mini"
    assert isinstance(after(routed(), "context_length", (GPT,)), RoutingNotPossible)


@pytest.mark.parametrize(
    ("options", "category", "tried", "why", "override"),
    [
        ({}, "invalid_request", (), "another model would fail alike", False),
        ({"model": SONNET}, "timeout", (), "no other model may be taken", True),
        (
            {},
            "quota",
            (GPT, HAIKU, "openai/gpt-5.4-mini", "anthropic/claude-opus-4-7"),
            "no model is left in its fallback chain",
            False,
        ),
    ],
)
def test_where_nothing_is_left_it_is_told_why(
    options: dict[str, Any], category: Any, tried: tuple[str, ...], why: str, override: bool
) -> None:
    found = after(routed(**options), category, tried)
    assert isinstance(found, RoutingNotPossible)
    assert found.reason == f"{SONNET} failed ({category}) and {why}."
    assert found.requires_user_override is override
