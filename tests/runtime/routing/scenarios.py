"""The six ways a choice of model can go, told as facts by the pure functions, stored, and explained from the store."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from collector.loader import Loader
from journal import Entry, Journal
from models.event import Event
from models.payload import Payload
from models.payloads.model import ModelFailed
from models.payloads.routing import (
    RoutingCandidatesResolved,
    RoutingDecided,
    RoutingNotPossible,
    RoutingSingleCandidate,
    TaskProfileResolved,
)
from models.values import LimitState, Usage
from runtime.providers.provider import ProviderFailed
from runtime.routing import (
    Catalogue,
    Conditions,
    Ledger,
    Limit,
    RoutingOptions,
    apply_event,
    candidates,
    configured,
    decide,
    estimate,
    fall_back,
    limit_changes,
    load,
    quota_blocked,
    quota_low,
    rate_limit_hit,
    record_cost,
    resolve_profile,
    standings,
)
from runtime.routing.decision import Decision
from store import Layout, Store
from store import open as open_store
from views.explanation import TYPES, explain

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
KEYS = frozenset({"anthropic", "openai", "scripted"})
USED = Usage(uncached_input_tokens=9_000, cache_read_tokens=3_000, cache_write_tokens=0, output_tokens=800)
SONNET, GPT, HAIKU = "anthropic/claude-sonnet-4-6", "openai/gpt-5.4", "anthropic/claude-haiku-4-5"


@dataclass
class Told:
    """A turn being told: every fact in its order, folded into the ledger as the runtime does."""

    turn_id: str = "turn_1"
    session_id: str = "s-1"
    now: datetime = NOON
    events: list[Event] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)

    def tell(self, *payloads: Payload, **ids: str) -> None:
        """One fact after the other, a second apart, complete enough to be emitted."""
        for payload in payloads:
            self.now += timedelta(seconds=1)
            number = len(self.events) + 1
            event = Event(
                type=payload.event_type or "",
                event_id=f"{self.turn_id}.e{number}",
                timestamp=self.now,
                sequence=number,
                schema_version="1",
                runtime_id="rt",
                session_id=self.session_id,
                thread_id="th",
                turn_id=self.turn_id,
                payload=payload,
                **ids,
            ).check_emission()
            self.events.append(event)
            self.ledger = apply_event(self.ledger, event)

    def conditions(self, **other: Any) -> Conditions:
        """How things stand now."""
        limits = standings(self.ledger, self.now, self.session_id)
        return replace(Conditions(now=self.now, credentials=KEYS, limits=limits, context_tokens=12_000), **other)


@dataclass(frozen=True)
class Routed:
    """The facts of a choice."""

    profile: TaskProfileResolved
    resolved: RoutingCandidatesResolved
    decision: RoutingDecided | RoutingSingleCandidate | RoutingNotPossible

    @property
    def made(self) -> RoutingDecided | RoutingSingleCandidate:
        """The decision, where there is one."""
        assert not isinstance(self.decision, RoutingNotPossible), self.decision.reason
        return self.decision


def route(catalogue: Catalogue, options: RoutingOptions, conditions: Conditions) -> Routed:
    """Profile, candidates and decision."""
    profile = resolve_profile(options, catalogue.defaults, settings_source=catalogue.source)
    asked = options.model or catalogue.defaults.model
    resolved = candidates(catalogue, profile, conditions, requested=asked)
    return Routed(profile, resolved, decide(catalogue, resolved, profile, requested=asked, limits=conditions.limits))


def choose(told: Told, options: RoutingOptions | None = None, **conditions: Any) -> Routed:
    """Tell a choice."""
    found = route(load(), options or RoutingOptions(required_capabilities=("tools",)), told.conditions(**conditions))
    told.tell(found.profile, found.resolved, found.decision)
    return found


def spend(told: Told, decision: Decision, usage: Usage = USED) -> None:
    """Tell what the chosen model will and did cost."""
    catalogue = load()
    model = catalogue.find(f"{decision.selected_provider}/{decision.selected_model}")
    assert model is not None
    told.tell(estimate(catalogue, model, 12_000, 1_000, told.now), record_cost(catalogue, model, usage, told.now))


def selected(told: Told) -> None:
    """Several could be chosen."""
    spend(told, choose(told).made)


def single_candidate(told: Told) -> None:
    """The caller names the model."""
    spend(told, choose(told, RoutingOptions(model="claude-haiku-4-5", required_capabilities=("tools",))).made)


def none(told: Told) -> None:
    """No model can do what is needed, and no key is set."""
    choose(told, RoutingOptions(required_capabilities=("holography",)), credentials=frozenset({"scripted"}))


def failed(told: Told, found: Routed, failure: ProviderFailed, **conditions: Any) -> None:
    """The chosen model fails, the next of the chain answers."""
    decision = found.made
    name = {"provider_name": decision.selected_provider, "model_name": decision.selected_model}
    told.tell(
        ModelFailed(**name, failure_category=failure.category, message=failure.message, retryable=True),
        model_request_id="req_1",
    )
    if failure.category == "rate_limited":
        provider, model = str(decision.selected_provider), decision.selected_model
        told.tell(*limit_changes(told.ledger, provider, model, failure.limits))
        told.tell(rate_limit_hit(failure, provider, model, told.now))
    now = told.conditions(**conditions)
    afresh = candidates(load(), found.profile, now)
    after = fall_back(decision, failure, (), afresh, found.profile, limits=now.limits)
    told.tell(after)
    assert not isinstance(after, RoutingNotPossible), after.reason
    spend(told, after)


def fallback_after_error(told: Told) -> None:
    """The provider has a fault."""
    failed(told, choose(told), ProviderFailed("server_error", "The provider failed.", http_status=500))


def fallback_after_rate_limit(told: Told) -> None:
    """The provider holds us back."""
    full = LimitState(kind="rate_limit", name="tokens", status="hit", unit="tokens", maximum=8e4, remaining=0.0)
    limited = ProviderFailed("rate_limited", "Too many.", http_status=429, retry_after_ms=20_000, limits=(full,))
    failed(told, choose(told), limited)


def blocked_by_quota(told: Told) -> None:
    """The budget of the day gets low in one turn and is used up in the next."""
    daily = Limit(name="daily_usd", unit="usd", maximum=0.05, window="day", low_at=0.5)
    told.tell(*configured(told.ledger, [daily], told.now))
    first = choose(told).made
    spend(told, first)
    told.tell(*quota_low(told.ledger, told.now, told.session_id))
    spend(told, first)
    told.turn_id = told.turn_id.replace("1", "2")
    found = choose(told)
    assert isinstance(found.decision, RoutingNotPossible)
    told.tell(*(quota_blocked(limit, "turn") for limit in standings(told.ledger, told.now, told.session_id)))


SCENARIOS: tuple[Callable[[Told], None], ...] = (
    selected,
    single_candidate,
    none,
    fallback_after_error,
    fallback_after_rate_limit,
    blocked_by_quota,
)


def told(scenario: Callable[[Told], None]) -> Told:
    """The facts of a scenario."""
    turn = Told()
    scenario(turn)
    return turn


def keep(home: Path, events: Sequence[Event]) -> None:
    """Store facts as the collector does: in its journal, and from there in the tables."""
    body = b"\n".join(event.to_json() for event in events)
    with Journal(Layout(home).journal, compress=False) as journal, Store.open(home) as store:
        journal.append(Entry("events", body))
        loader = Loader(journal, store)
        loader.catch_up()
        loader.close()


def explained(home: Path, decision_or_turn: str, session_id: str = "s-1") -> list[dict[str, Any]]:
    """The explanation by the tables alone."""
    with open_store(home) as reader:
        return explain(reader.events(session_id, types=TYPES).collect(), decision_or_turn)


def by_model(choice: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The models of an explained choice by name."""
    return {f"{row['provider']}/{row['model']}": row for row in choice["models"]}
