"""Every model is either a candidate or has the reason why it is not."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from models.payloads.routing import RoutingCandidatesResolved
from runtime.routing import Conditions, RoutingOptions, Standing, load
from runtime.routing.candidates import resolve_profile
from runtime.routing.catalogue import Defaults
from runtime.routing.decision import name_of
from tests.runtime.routing.scenarios import GPT, HAIKU, KEYS, NOON, SONNET, route

NOW = Conditions(now=NOON, credentials=KEYS, context_tokens=12_000)


def resolved(options: RoutingOptions | None = None, **conditions: Any) -> RoutingCandidatesResolved:
    return route(load(), options or RoutingOptions(), replace(NOW, **conditions)).resolved


def reasons(found: RoutingCandidatesResolved) -> dict[str, str | None]:
    return {name_of(one): one.excluded_reason for one in found.excluded or ()}


def names(found: RoutingCandidatesResolved) -> list[str]:
    return [name_of(one) for one in found.candidates or ()]


def test_all_models_of_the_catalogue_are_accounted_for() -> None:
    found = resolved()
    assert sorted([*names(found), *reasons(found)]) == sorted(model.name for model in load().models)
    assert found.count == len(names(found)) == 5
    assert all(one.price is not None for one in (*(found.candidates or ()), *(found.excluded or ())))


@pytest.mark.parametrize(
    ("options", "conditions", "model", "reason"),
    [
        ({"required_capabilities": ("tools", "smell")}, {}, GPT, "capability: it lacks smell"),
        ({"budget_class": "low"}, {}, SONNET, "budget_class: cost class medium is above low"),
        ({"model": GPT}, {}, SONNET, f"not_requested: {GPT} was asked for"),
        ({}, {"context_tokens": 200_001}, HAIKU, "context: 200001 tokens do not fit into 200000"),
        (
            {},
            {"context_tokens": 199_000, "max_output_tokens": 2_000},
            HAIKU,
            "context: 201000 tokens do not fit into 200000",
        ),
        ({}, {"credentials": frozenset({"openai"})}, HAIKU, "credential: ANTHROPIC_API_KEY is not set"),
        ({}, {"unreachable": ("anthropic",)}, HAIKU, "provider_down: anthropic cannot be reached"),
    ],
)
def test_a_model_is_left_out_for_one_reason(
    options: dict[str, Any], conditions: dict[str, Any], model: str, reason: str
) -> None:
    assert reasons(resolved(RoutingOptions(**options), **conditions))[model] == reason


def test_a_model_is_left_out_for_several_reasons_at_once() -> None:
    found = resolved(RoutingOptions(budget_class="low"), credentials=frozenset({"scripted"}))
    assert reasons(found)[GPT] == (
        "budget_class: cost class medium is above low; credential: OPENAI_API_KEY is not set"
    )
    assert found.credential_gaps == ("anthropic", "openai")


def test_limits_leave_out_those_whom_they_bind() -> None:
    used_up = Standing(kind="quota", name="q", scope="runtime", status="blocked", unit="requests", used=3, maximum=3)
    found = resolved(limits=(used_up.model_copy(update={"provider_name": "openai"}),))
    assert reasons(found)[GPT] == "quota: quota q is used up (3 of 3 requests)"
    assert names(found) == [SONNET, HAIKU, "anthropic/claude-opus-4-7"]
    assert found.quota_gaps == ("openai",)


def test_a_rate_limit_leaves_a_model_out_until_it_is_over() -> None:
    held = Standing(
        kind="rate_limit", name="retry_after", scope="provider", status="hit", provider_name="anthropic",
        model_name="claude-haiku-4-5", resets_at=NOON + timedelta(seconds=30),
    )  # fmt: skip
    assert reasons(resolved(limits=(held,)))[HAIKU] == "rate_limit: retry_after until 2026-06-01T12:00:30Z"
    assert SONNET in names(resolved(limits=(held,)))
    assert HAIKU in names(resolved(limits=(held,), now=NOON + timedelta(seconds=31)))


@pytest.mark.parametrize(
    ("unit", "remaining", "reason"),
    [
        ("tokens", 11_999.0, "quota: budget b has 11999 tokens left, the input needs 12000"),
        ("tokens", 12_000.0, None),
        ("usd", 0.0035, "quota: budget b has 0.0035 usd left, the input needs 0.0036"),
        ("usd", 0.0036, None),
        ("requests", 1.0, None),
    ],
)
def test_a_model_whose_input_alone_exceeds_what_is_left_is_left_out(
    unit: str, remaining: float, reason: str | None
) -> None:
    left = Standing(kind="budget", name="b", scope="runtime", status="low", unit=unit, remaining=remaining)
    assert reasons(resolved(limits=(left,))).get(SONNET) == reason


def test_a_limit_that_the_catalogue_refers_to_binds_the_model_though_it_names_another() -> None:
    catalogue = load()
    models = tuple(model.model_copy(update={"quotas": ("account",)}) for model in catalogue.models)
    shared = catalogue.model_copy(update={"models": models})
    hit = Standing(
        kind="rate_limit", name="account", scope="provider", status="hit", provider_name="openai", model_name="other",
        resets_at=NOON + timedelta(minutes=1),
    )  # fmt: skip
    found = route(shared, RoutingOptions(), replace(NOW, limits=(hit,))).resolved
    assert set(reasons(found)) == {GPT, "openai/gpt-5.4-mini", "scripted/script"}


def test_the_preferred_come_first_and_speed_before_preference() -> None:
    assert names(resolved())[0] == SONNET
    assert names(resolved(RoutingOptions(latency_target="fast")))[:2] == [HAIKU, "openai/gpt-5.4-mini"]
    assert names(resolved(RoutingOptions(model=GPT, fallback="chain")))[:2] == [GPT, SONNET]


def test_an_unlisted_model_of_a_known_provider_is_taken_without_knowing_what_it_can_do() -> None:
    options = RoutingOptions(model="openai/gpt-4o-mini", required_capabilities=("tools",))
    assert names(resolved(options)) == ["openai/gpt-4o-mini"]
    assert route(load(), options, NOW).made.capability_gap == "unknown"


def test_the_profile_says_what_came_from_the_caller() -> None:
    defaults = Defaults(kind="coding", required_capabilities=("tools",))
    asked = resolve_profile(RoutingOptions(kind="summarise"), defaults, settings_source="models.yaml")
    assert (asked.kind, asked.source, asked.required_capabilities) == ("summarise", "caller", ("tools",))
    assert (asked.routing_mode, asked.fallback_policy) == ("automatic", "chain")
    plain = resolve_profile(RoutingOptions(model=GPT), defaults)
    assert (plain.kind, plain.source, plain.routing_mode) == ("coding", "default", "fixed")
    assert resolve_profile(RoutingOptions(model=GPT, fallback="chain"), defaults).routing_mode == "preferred"
    assert not list(asked.emission_problems())
