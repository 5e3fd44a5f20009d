"""Which model a turn uses: the choice at its beginning, and the next one when a model does not do."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from models.errors import TachographError
from models.payload import Payload
from models.payloads.cost import QuotaBlocked
from models.payloads.routing import (
    RoutingCandidatesResolved,
    RoutingDecided,
    RoutingFallbackApplied,
    RoutingNotPossible,
    TaskProfileResolved,
)
from runtime.providers import open_provider
from runtime.providers.provider import Provider, ProviderFailed
from runtime.routing import (
    Conditions,
    Model,
    Standing,
    candidates,
    decide,
    fall_back,
    quota_blocked,
    resolve_profile,
    standings,
)
from runtime.routing.candidates import binds
from runtime.routing.decision import Decision, reason_codes
from views.state.work_records import RoutingState

if TYPE_CHECKING:
    from runtime.loop.work import Work
    from runtime.runtime import RuntimeOptions


class Choice(NamedTuple):
    """A choice, with the facts that explain it."""

    facts: tuple[Payload, ...]
    decision: Decision | None
    """None: there is no model to take."""

    category: str | None = None
    """The class of failure if there is none."""

    reason: str | None = None


class Connections:
    """The providers of a runtime, each opened when it is first needed."""

    def __init__(self, options: RuntimeOptions) -> None:
        self._options = options
        self._open: dict[str, Provider] = {}

    def get(self, name: str) -> Provider:
        """A provider; raises ProviderFailed if it cannot be opened, so that another may be tried."""
        if name not in self._open:
            options = self._options
            settings = options.provider_settings.get(name, {})
            try:
                self._open[name] = open_provider(
                    name, settings=settings, environment=options.environment, clock=options.clock
                )
            except TachographError as problem:
                told = f"{problem.message}{f' ({problem.next_step})' if problem.next_step else ''}"
                raise ProviderFailed("auth", told, retryable=False) from problem
        return self._open[name]

    async def close(self) -> None:
        """Let go of all of them."""
        for provider in self._open.values():
            await provider.close()
        self._open.clear()


class Routes:
    """The choice of models for one turn."""

    def __init__(self, work: Work) -> None:
        self._work = work
        options = work.runtime.options
        catalogue = options.catalogue.including(work.routing.model or options.catalogue.defaults.model)
        self.catalogue = catalogue
        self._requested = work.routing.model or catalogue.defaults.model

    def _profile(self) -> TaskProfileResolved:
        return resolve_profile(self._work.routing, self.catalogue.defaults, settings_source=self.catalogue.version)

    def _limits(self) -> tuple[Standing, ...]:
        work = self._work
        return standings(work.runtime.account.ledger, work.now, work.session_id)

    def _candidates(
        self, profile: TaskProfileResolved, limits: tuple[Standing, ...], context_tokens: int
    ) -> RoutingCandidatesResolved:
        environment = self._work.runtime.options.environment
        conditions = Conditions(
            now=self._work.now,
            credentials=self.catalogue.credentials_present(environment),
            limits=limits,
            context_tokens=context_tokens,
        )
        return candidates(self.catalogue, profile, conditions, requested=self._requested)

    def choose(self, context_tokens: int) -> Choice:
        """The model for a turn."""
        profile, limits = self._profile(), self._limits()
        resolved = self._candidates(profile, limits, context_tokens)
        by_default = self._work.routing.model is None
        found = decide(
            self.catalogue, resolved, profile, requested=self._requested, by_default=by_default, limits=limits
        )
        if not isinstance(found, RoutingNotPossible):
            return Choice((profile, resolved, found), found)
        if not _is_quota(resolved):
            return Choice((profile, resolved, found), None, "routing", found.reason)
        return Choice((profile, resolved, found, *self._blocking(limits)), None, "quota", found.reason)

    def _blocking(self, limits: tuple[Standing, ...]) -> tuple[QuotaBlocked, ...]:
        ours = (one for one in limits if one.scope != "provider")
        return tuple(quota_blocked(one, "turn") for one in ours if one.status == "blocked")

    def next(self, decision: Decision, failure: ProviderFailed, context_tokens: int) -> Choice:
        """The model to take after one that failed."""
        profile, limits = self._profile(), self._limits()
        resolved = self._candidates(profile, limits, context_tokens)
        found = fall_back(decision, failure, self._tried(), resolved, profile, limits=limits)
        if isinstance(found, RoutingFallbackApplied):
            return Choice((found,), found)
        return Choice((found,), None, failure.category, failure.message)

    def _tried(self) -> set[str]:
        """The models that were taken in this turn, by the state."""
        routing = self._work.state.routing.get(self._work.turn_id)
        fallbacks = (routing.fallbacks or ()) if routing else ()
        tried = {f"{one.selected_provider}/{one.selected_model}" for one in fallbacks}
        given_up = [one.model_dump() for one in fallbacks]
        return tried | {f"{one['from_provider']}/{one['from_model']}" for one in given_up if "from_model" in one}

    def current(self) -> Decision | None:
        """The choice that holds, by the state; None: none was made yet."""
        return recalled(self._work.state.routing.get(self._work.turn_id))

    def model(self, decision: Decision) -> Model:
        """The chosen model."""
        name = f"{decision.selected_provider}/{decision.selected_model}"
        found = self.catalogue.including(name).find(name)
        if found is None:  # the settings changed since
            return Model(provider=decision.selected_provider or "", model=decision.selected_model or "")
        return found

    def stopped_by(self, model: Model) -> Standing | None:
        """A limit of ours that forbids another call of this model."""
        for limit in self._limits():
            if limit.scope != "provider" and limit.status == "blocked" and binds(limit, model):
                return limit
        return None


def recalled(routing: RoutingState | None) -> Decision | None:
    """The choice that the state remembers."""
    if routing is None or routing.decision is None:
        return None
    told = routing.decision.model_dump(exclude_none=True)
    if routing.fallbacks:
        return RoutingFallbackApplied.model_validate(told | {"fallback_index": len(routing.fallbacks)})
    return RoutingDecided.model_validate(told)


def _is_quota(resolved: RoutingCandidatesResolved) -> bool:
    """Whether quotas are what keeps every model out that could be taken otherwise."""
    kept_out = [reason_codes(one) for one in resolved.excluded or ()]
    return any(codes == ("quota",) for codes in kept_out)
