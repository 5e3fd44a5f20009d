"""Rate-limit headers and refusals of providers become facts, once for each change."""

from datetime import timedelta

from models.event import Event
from models.values import LimitState
from runtime.providers.provider import ProviderFailed
from runtime.providers.rate_limits import limits_in
from runtime.routing import Ledger, apply_event, limit_changes, provider_quota_blocked, rate_limit_hit, standings
from tests.runtime.routing.scenarios import NOON


def headers(remaining: int) -> tuple[LimitState, ...]:
    told = {
        "x-ratelimit-limit-tokens": "1000",
        "x-ratelimit-remaining-tokens": str(remaining),
        "x-ratelimit-reset-tokens": "30s",
    }
    return limits_in(told, provider="openai", now=NOON)


def after(ledger: Ledger, remaining: int) -> tuple[Ledger, list[str | None]]:
    changes = limit_changes(ledger, "openai", "m", headers(remaining))
    for number, change in enumerate(changes):
        assert not list(change.emission_problems())
        ledger = apply_event(ledger, Event(type="limit.changed", event_id=f"e{number}", timestamp=NOON, payload=change))
    return ledger, [change.status for change in changes]


def test_a_limit_is_told_when_it_is_new_and_when_its_status_changes() -> None:
    ledger, told = after(Ledger(), 900)
    assert told == ["ok"]
    ledger, told = after(ledger, 800)
    assert told == []
    ledger, told = after(ledger, 50)
    assert told == ["low"]
    ledger, told = after(ledger, 0)
    assert told == ["hit"]
    (stands,) = standings(ledger, NOON)
    assert (stands.provider_name, stands.model_name, stands.status) == ("openai", "m", "hit")
    assert standings(ledger, NOON + timedelta(seconds=31)) == ()


def test_a_refusal_names_the_limit_that_is_used_up_and_when_to_try_again() -> None:
    failure = ProviderFailed("rate_limited", "No.", http_status=429, retry_after_ms=1_500, limits=headers(0))
    hit = rate_limit_hit(failure, "openai", "m", NOON)
    assert not list(hit.emission_problems())
    assert (hit.name, hit.limiter, hit.http_status, hit.retry_after_ms) == ("tokens", "provider", 429, 1_500)
    assert hit.resets_at == NOON + timedelta(milliseconds=1_500)


def test_without_a_time_to_wait_the_limit_itself_says_when_it_ends() -> None:
    failure = ProviderFailed("rate_limited", "No.", limits=headers(0))
    assert rate_limit_hit(failure, "openai", "m", NOON).resets_at == NOON + timedelta(seconds=30)
    assert rate_limit_hit(ProviderFailed("rate_limited", "No."), "openai", "m", NOON).resets_at is None


def test_an_account_without_credit_is_told_as_a_quota_that_only_the_user_can_lift() -> None:
    blocked = provider_quota_blocked(ProviderFailed("quota", "The account has no credit."), "openai", "m")
    assert (blocked.scope, blocked.requires_user_override) == ("provider", True)
    assert not list(blocked.emission_problems())
