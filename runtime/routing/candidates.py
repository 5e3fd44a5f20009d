"""What the work needs of a model, and which models could do it; of every other, why not."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict

from models.payloads.routing import RoutingCandidatesResolved, TaskProfileResolved
from models.shape import JsonMap
from models.values import CandidateModel, Name, Price
from runtime.routing.catalogue import COST_CLASSES, Catalogue, CostClass, Defaults, Model
from runtime.routing.ledger import amount
from runtime.routing.limits import Standing


class RoutingOptions(BaseModel):
    """What a turn may say about the model it wants; other options of the turn are left alone."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", use_attribute_docstrings=True, protected_namespaces=(), from_attributes=True
    )

    model: Name | None = None
    """The model to take, as `provider/model` or `model`; without a fallback it is the only candidate."""

    kind: Name | None = None
    """The sort of work, such as `coding`."""

    required_capabilities: tuple[str, ...] | None = None
    """What the model must be able to do."""

    latency_target: str | None = None
    """The latency class that is preferred."""

    budget_class: CostClass | None = None
    """The dearest cost class that may be taken."""

    fallback: Literal["chain", "none"] | None = None
    """Whether another model is tried after a failure."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """How things stand at the moment of choice."""

    now: datetime
    credentials: frozenset[str]
    """Providers whose key is there, or that need none."""

    limits: Sequence[Standing] = ()
    """Where the limits stand that can bind a call."""

    context_tokens: int = 0
    """How many tokens the call will send."""

    max_output_tokens: int | None = None
    """How many tokens the answer may have."""

    unreachable: Collection[str] = ()
    """Providers that are known to be down."""


def resolve_profile(
    options: RoutingOptions, defaults: Defaults, *, settings_source: str | None = None
) -> TaskProfileResolved:
    """What the work needs: as the caller says, else as the settings say."""
    asked = options.model or defaults.model
    told = options.model_dump(exclude_none=True, exclude={"model"})
    # Who names a model means that model: another one is taken only if the caller says so.
    fallback = options.fallback or ("none" if options.model else defaults.fallback)
    return TaskProfileResolved(
        kind=options.kind or defaults.kind,
        source="caller" if told else "default",
        required_capabilities=(
            defaults.required_capabilities if options.required_capabilities is None else options.required_capabilities
        ),
        latency_target=options.latency_target or defaults.latency_target,
        budget_class=options.budget_class or defaults.budget_class,
        fallback_policy=fallback,
        settings_source=settings_source,
        routing_mode="automatic" if asked is None else "fixed" if fallback == "none" else "preferred",
    )


def candidates(
    catalogue: Catalogue, profile: TaskProfileResolved, conditions: Conditions, *, requested: str | None = None
) -> RoutingCandidatesResolved:
    """The real choice: every model of the catalogue, as a candidate, the preferred first, or with its reasons."""
    catalogue = catalogue.including(requested)
    asked = catalogue.find(requested) if requested is not None else None
    chosen: list[CandidateModel] = []
    left_out: list[CandidateModel] = []
    gaps: dict[str, dict[str, None]] = {"credential": {}, "quota": {}, "rate_limit": {}, "provider_down": {}}
    for model in sorted(catalogue.models, key=lambda model: _rank(model, asked, profile)):
        reasons = dict(_reasons(catalogue, model, asked, requested, profile, conditions))
        for gap in gaps.keys() & reasons.keys():
            gaps[gap][model.provider] = None
        told = "; ".join(f"{code}: {sentence}" for code, sentence in reasons.items())
        (left_out if reasons else chosen).append(_described(catalogue, model, conditions, told or None))
    return RoutingCandidatesResolved(
        count=len(chosen),
        candidates=tuple(chosen),
        excluded=tuple(left_out),
        hard_constraints=_constraints(profile, conditions, requested),
        preferences={"latency_target": profile.latency_target, "order": "requested, latency, preference"},
        single=len(chosen) == 1,
        credential_gaps=tuple(gaps["credential"]),
        quota_gaps=tuple(gaps["quota"] | gaps["rate_limit"]),
        network_gaps=tuple(gaps["provider_down"]),
    )


def _rank(model: Model, asked: Model | None, profile: TaskProfileResolved) -> tuple[bool, bool, int]:
    slow = profile.latency_target is not None and model.latency_class != profile.latency_target
    return (model != asked, slow, model.preference)


def _constraints(profile: TaskProfileResolved, conditions: Conditions, requested: str | None) -> JsonMap:
    told: JsonMap = {
        "required_capabilities": list(profile.required_capabilities or ()),
        "context_tokens": conditions.context_tokens,
        "max_output_tokens": conditions.max_output_tokens,
        "budget_class": profile.budget_class,
        "requested": requested if profile.routing_mode == "fixed" else None,
    }
    return {name: value for name, value in told.items() if value is not None}


def _described(catalogue: Catalogue, model: Model, conditions: Conditions, reason: str | None) -> CandidateModel:
    return CandidateModel(
        provider_name=model.provider,
        model_name=model.model,
        capabilities=model.capabilities,
        context_window_tokens=model.context_window_tokens,
        cost_class=model.cost_class,
        price=catalogue.price(model, conditions.context_tokens, conditions.now),
        excluded_reason=reason,
    )


def _reasons(
    catalogue: Catalogue,
    model: Model,
    asked: Model | None,
    requested: str | None,
    profile: TaskProfileResolved,
    conditions: Conditions,
) -> Iterator[tuple[str, str]]:
    """Why a model cannot be taken: a word for programs and the rest for people; nothing if it can."""
    if profile.routing_mode == "fixed" and model != asked:
        yield "not_requested", f"{requested} was asked for"
        return
    if model.on_request and model != asked:
        yield "not_requested", "it is taken only if asked for"
        return
    yield from _shortcomings(model, profile, conditions)
    if model.provider not in conditions.credentials:
        variable = catalogue.providers[model.provider].credential
        yield "credential", f"{variable or 'its key'} is not set"
    if model.provider in conditions.unreachable:
        yield "provider_down", f"{model.provider} cannot be reached"
    yield from _limited(catalogue, model, conditions)


def _shortcomings(model: Model, profile: TaskProfileResolved, conditions: Conditions) -> Iterator[tuple[str, str]]:
    if model.capabilities is not None:
        lacking = [name for name in profile.required_capabilities or () if name not in model.capabilities]
        if lacking:
            yield "capability", f"it lacks {', '.join(lacking)}"
    needed = conditions.context_tokens + (conditions.max_output_tokens or 0)
    if model.context_window_tokens is not None and needed > model.context_window_tokens:
        yield "context", f"{needed} tokens do not fit into {model.context_window_tokens}"
    if model.cost_class is not None and profile.budget_class in COST_CLASSES:
        allowed = COST_CLASSES[: COST_CLASSES.index(profile.budget_class) + 1]
        if model.cost_class not in allowed:
            yield "budget_class", f"cost class {model.cost_class} is above {profile.budget_class}"


def _limited(catalogue: Catalogue, model: Model, conditions: Conditions) -> Iterator[tuple[str, str]]:
    """The first limit that stops the model, if any: ours as a quota, a provider's as a rate limit."""
    price = catalogue.price(model, conditions.context_tokens, conditions.now)
    for limit in conditions.limits:
        if not binds(limit, model):
            continue
        if limit.scope != "provider":
            if limit.status == "blocked":
                until = f" until {limit.resets_at:%Y-%m-%dT%H:%M:%SZ}" if limit.resets_at else ""
                yield "quota", f"{limit.kind} {limit.name} is used up{until} ({amount(limit)})"
                return
            if short := _too_short(limit, price, conditions.context_tokens):
                yield "quota", short
                return
        elif limit.status in ("hit", "blocked") and limit.resets_at is not None and limit.resets_at > conditions.now:
            yield "rate_limit", f"{limit.name or 'rate limit'} until {limit.resets_at:%Y-%m-%dT%H:%M:%SZ}"
            return


def _too_short(limit: Standing, price: Price | None, context_tokens: int) -> str | None:
    """Why what is left of a limit is too little for the input alone."""
    needed: Mapping[str, float | None] = {
        "tokens": float(context_tokens),
        # The cheapest the input can be: all of it read from a cache.
        "usd": None if price is None else context_tokens * (price.cache_read_usd_per_mtok or 0.0) / 1_000_000,
    }
    least = needed.get(limit.unit or "")
    if least is None or limit.remaining is None or least <= limit.remaining:
        return None
    return f"{limit.kind} {limit.name} has {limit.remaining:.6g} {limit.unit} left, the input needs {least:.6g}"


def binds(limit: Standing, model: Model) -> bool:
    """Whether a limit holds for calls of a model: by naming it, by naming nobody, or because the catalogue says so."""
    if limit.name in model.quotas and limit.provider_name in (None, model.provider):
        return True
    return limit.provider_name in (None, model.provider) and limit.model_name in (None, model.model)
