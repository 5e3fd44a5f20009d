"""The choice among the candidates, and the next one after a failure; each with the reason in words."""

from collections import Counter
from collections.abc import Collection, Sequence

from models.payloads.routing import (
    RoutingCandidatesResolved,
    RoutingDecided,
    RoutingFallbackApplied,
    RoutingNotPossible,
    RoutingSingleCandidate,
    TaskProfileResolved,
)
from models.values import CandidateModel, CandidateModelSet
from runtime.routing.catalogue import Catalogue
from runtime.routing.limits import Standing
from runtime.routing.throttling import Failure

Decision = RoutingDecided | RoutingSingleCandidate | RoutingFallbackApplied

HOPELESS = frozenset({"invalid_request", "cancelled"})
"""Failures that another model would not mend: the request itself is wrong, or nobody wants an answer."""

LIFTED_BY_USER = frozenset({"credential", "quota", "not_requested", "budget_class"})
"""Reasons that only a person can remove; the others pass, or never will."""


def decide(
    catalogue: Catalogue,
    resolved: RoutingCandidatesResolved,
    profile: TaskProfileResolved,
    *,
    requested: str | None = None,
    by_default: bool = False,
    limits: Sequence[Standing] = (),
) -> RoutingDecided | RoutingSingleCandidate | RoutingNotPossible:
    """Choose the first candidate; `by_default` tells that the model asked for is the settings' and not the caller's."""
    choice = resolved.candidates or ()
    if not choice:
        return _impossible(resolved, profile, requested, limits)
    first = choice[0]
    asked = catalogue.including(requested).find(requested) if requested is not None else None
    hit = asked is not None and name_of(first) == asked.name
    told = {
        "task_kind": profile.kind,
        "routing_mode": profile.routing_mode,
        "decision_source": ("default" if by_default else "user") if hit else "router",
        "decision_reason": _reason(resolved, profile, requested, asked.name if asked else None),
        "selected_provider": first.provider_name,
        "selected_model": first.model_name,
        "requested_provider": asked.provider if asked else None,
        "requested_model": asked.model if asked else requested,
        "candidate_count": len(choice),
        "fallback_chain": _chain(catalogue, choice, profile),
        "capability_gap": "none" if first.capabilities is not None else "unknown",
        "requires_user_override": False,
        "limit_state_snapshot": tuple(limit.plain() for limit in limits),
    }
    kind = RoutingSingleCandidate if len(choice) == 1 else RoutingDecided
    return kind(**told)


def fall_back(
    decision: Decision,
    failure: Failure,
    tried: Collection[str],
    resolved: RoutingCandidatesResolved,
    profile: TaskProfileResolved,
    *,
    limits: Sequence[Standing] = (),
) -> RoutingFallbackApplied | RoutingNotPossible:
    """The next model of the chain that was not tried and can be chosen as things stand now (`resolved` afresh)."""
    failed = f"{decision.selected_provider}/{decision.selected_model}"
    able = {name_of(candidate): candidate for candidate in resolved.candidates or ()}
    chain = () if failure.category in HOPELESS else decision.fallback_chain or ()
    left = [name for name in chain if name in able and name not in {*tried, failed}]
    if failure.category == "context_length":
        left = [name for name in left if _larger(able[name], _known(resolved, failed))]
    if not left:
        return _exhausted(decision, failure, resolved, profile, limits)
    taken = able[left[0]]
    done = decision.fallback_index or 0 if isinstance(decision, RoutingFallbackApplied) else 0
    return RoutingFallbackApplied(
        task_kind=profile.kind,
        routing_mode=profile.routing_mode,
        decision_source="router",
        decision_reason=f"{failed} failed ({failure.category}): {name_of(taken)} is next in the fallback chain.",
        from_provider=decision.selected_provider,
        from_model=decision.selected_model,
        selected_provider=taken.provider_name,
        selected_model=taken.model_name,
        requested_provider=decision.requested_provider,
        requested_model=decision.requested_model,
        candidate_count=len(able),
        fallback_chain=tuple(left[1:]),
        fallback_index=done + 1,
        failure_category=failure.category,
        capability_gap="none" if taken.capabilities is not None else "unknown",
        requires_user_override=False,
        limit_state_snapshot=tuple(limit.plain() for limit in limits),
        status="retrying",
    )


def name_of(candidate: CandidateModel) -> str:
    """Provider and model in one word."""
    return f"{candidate.provider_name}/{candidate.model_name}"


def reason_codes(candidate: CandidateModel) -> tuple[str, ...]:
    """The words for programs in the reasons why a model was left out."""
    told = (candidate.excluded_reason or "").split("; ")
    return tuple(part.partition(":")[0] for part in told if part)


def _chain(catalogue: Catalogue, choice: Sequence[CandidateModel], profile: TaskProfileResolved) -> tuple[str, ...]:
    if profile.fallback_policy == "none":
        return ()
    others = [name_of(candidate) for candidate in choice[1:]]
    first = catalogue.find(name_of(choice[0]))
    if first is None or not first.fallback:
        return tuple(others)
    listed = [found.name for name in first.fallback if (found := catalogue.find(name)) is not None]
    return tuple(name for name in listed if name in others)


def _reason(
    resolved: RoutingCandidatesResolved, profile: TaskProfileResolved, requested: str | None, asked: str | None
) -> str:
    choice = resolved.candidates or ()
    first = name_of(choice[0])
    if first == asked:
        return f"{first} was asked for and can be chosen."
    out = next((one for one in resolved.excluded or () if name_of(one) == asked), None)
    why = ""
    if out is not None:
        why = f"{asked} was asked for and cannot be chosen ({out.excluded_reason}). "
    elif requested is not None:
        why = f"{requested} was asked for and is not known. "
    if len(choice) == 1:
        return f"{why}{first} is the only model that meets every constraint."
    fast = f", latency {profile.latency_target} first" if profile.latency_target else ""
    return f"{why}{first} comes first in the order of preference{fast} among {len(choice)} that meet every constraint."


def _impossible(
    resolved: RoutingCandidatesResolved,
    profile: TaskProfileResolved,
    requested: str | None,
    limits: Sequence[Standing],
) -> RoutingNotPossible:
    codes = [code for candidate in resolved.excluded or () for code in reason_codes(candidate)]
    told = ", ".join(f"{code} ({count})" for code, count in Counter(codes).most_common())
    unknown = requested is not None and set(codes) <= {"not_requested"}
    reason = f"{requested} was asked for and is not known." if unknown else f"Every model is left out: {told}."
    if not codes:
        reason = "The catalogue has no models."
    return RoutingNotPossible(
        task_kind=profile.kind,
        reason=reason,
        candidates=CandidateModelSet.model_validate(resolved.model_dump(include=set(CandidateModelSet.model_fields))),
        requested_model=requested,
        candidate_count=0,
        capability_gap=_gap(resolved),
        requires_user_override=bool(LIFTED_BY_USER & set(codes)),
        limits=tuple(limit.plain() for limit in limits if limit.status in ("hit", "blocked")),
        status="blocked",
        status_reason=reason,
    )


def _gap(resolved: RoutingCandidatesResolved) -> str | None:
    """What no model could do, if that alone is what every one lacks."""
    lacking = [
        set(part.removeprefix("capability: it lacks ").split(", "))
        for candidate in resolved.excluded or ()
        for part in (candidate.excluded_reason or "").split("; ")
        if part.startswith("capability: ")
    ]
    if not lacking or len(lacking) < len(resolved.excluded or ()):
        return None
    return ", ".join(sorted(set.intersection(*lacking))) or None


def _exhausted(
    decision: Decision,
    failure: Failure,
    resolved: RoutingCandidatesResolved,
    profile: TaskProfileResolved,
    limits: Sequence[Standing],
) -> RoutingNotPossible:
    failed = f"{decision.selected_provider}/{decision.selected_model}"
    if failure.category in HOPELESS:
        why = "another model would fail alike"
    elif profile.fallback_policy == "none":
        why = "no other model may be taken"
    else:
        why = "no model is left in its fallback chain"
    reason = f"{failed} failed ({failure.category}) and {why}."
    return RoutingNotPossible(
        task_kind=profile.kind,
        reason=reason,
        candidates=CandidateModelSet.model_validate(resolved.model_dump(include=set(CandidateModelSet.model_fields))),
        requested_provider=decision.requested_provider,
        requested_model=decision.requested_model,
        candidate_count=resolved.count,
        requires_user_override=profile.fallback_policy == "none",
        limits=tuple(limit.plain() for limit in limits if limit.status in ("hit", "blocked")),
        status="blocked",
        status_reason=reason,
    )


def _known(resolved: RoutingCandidatesResolved, name: str) -> CandidateModel | None:
    everyone = (*(resolved.candidates or ()), *(resolved.excluded or ()))
    return next((candidate for candidate in everyone if name_of(candidate) == name), None)


def _larger(candidate: CandidateModel, than: CandidateModel | None) -> bool:
    if than is None or than.context_window_tokens is None or candidate.context_window_tokens is None:
        return False
    return candidate.context_window_tokens > than.context_window_tokens
