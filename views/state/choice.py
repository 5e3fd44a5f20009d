"""How events change the choice of a model, the limits and the bills."""

from __future__ import annotations

from collections.abc import Callable

from models.values import CandidateModelSet, Cost, LimitState, RoutingDecision, TaskProfile
from views.state.step import Step
from views.state.talk_records import ModelCall
from views.state.work_records import Bill, LimitEntry, RoutingState

SCOPES = {"turn": "turn_id", "task": "task_id", "session": "session_id", "tool_call": "tool_call_id"}
TYPE_OF_LIMIT = {"rate_limit.hit": ("rate_limit", "hit"), "quota.low": ("quota", "low")}
TYPE_OF_LIMIT |= {"quota.blocked": ("quota", "blocked")}


def _routing(step: Step) -> str:
    """The record of the turn's choice; the latest one is the last of its lane."""
    key = step.event.turn_id or ""
    if step.get(RoutingState, key) is None:
        step.append(("routing",), key)
    step.put(RoutingState, key, turn_id=step.event.turn_id)
    return key


def profile_resolved(step: Step) -> None:
    """What the work needs of a model is known."""
    step.put(RoutingState, _routing(step), task_profile=step.narrowed(TaskProfile))


def candidates_resolved(step: Step) -> None:
    """The real choice is known."""
    count = step.told("candidate_count")
    count = step.told("count") if count is None else count
    found = step.narrowed(CandidateModelSet)
    step.assign(RoutingState, _routing(step), candidates=found, candidate_count=count)


def decided(step: Step) -> None:
    """A model was chosen, or there was only one."""
    status = "single_candidate" if step.event.type == "routing.single_candidate" else "decided"
    key = _routing(step)
    reason, override = step.told("decision_reason"), step.told("requires_user_override")
    told = {"decision": step.narrowed(RoutingDecision), "requires_user_override": override, "reason": reason}
    step.assign(RoutingState, key, status=status, **told)
    step.put(RoutingState, key, candidate_count=step.told("candidate_count"))


def fallback_applied(step: Step) -> None:
    """Another model was taken because the first did not do."""
    key = _routing(step)
    decision = step.narrowed(RoutingDecision) or RoutingDecision()
    names = ("from_provider", "from_model", "failure_category", "fallback_index")
    extra = {name: value for name, value in step.pick(*names).items() if value is not None}
    applied = decision.model_copy(update=extra)
    held = step.get(RoutingState, key)
    fallbacks = (*((held.fallbacks or ()) if held else ()), applied)
    step.assign(RoutingState, key, status="fallback", decision=decision, reason=step.told("decision_reason"))
    step.put(RoutingState, key, fallbacks=fallbacks, candidate_count=step.told("candidate_count"))


def not_possible(step: Step) -> None:
    """There is no model to choose."""
    found: CandidateModelSet | None = step.told("candidates")
    count = step.told("candidate_count")
    told = {"requires_user_override": step.told("requires_user_override"), "reason": step.told("reason")}
    key = _routing(step)
    step.assign(RoutingState, key, status="blocked", decision=None, **told)
    step.put(RoutingState, key, candidates=found, candidate_count=found.count if found and count is None else count)


def estimated(step: Step) -> None:
    """What the work will cost, by estimate; it is not added to what was spent."""
    estimate = step.narrowed(Cost)
    step.put(RoutingState, _routing(step), estimate=estimate)
    if (call_id := step.event.model_request_id) is not None:
        if step.get(ModelCall, call_id) is None:
            step.append(("model_calls",), call_id)
        step.put(ModelCall, call_id, model_request_id=call_id, estimate=estimate)


def recorded(step: Step) -> None:
    """What was really used. Only calls of models are added up: a wider scope contains the narrower ones."""
    scope, call_id = step.told("scope"), step.event.model_request_id
    cost, usage = step.narrowed(Cost), step.told("usage")
    if scope == "model_call" and call_id is not None:
        names = {name: getattr(step.event, name) for name in ("thread_id", "turn_id", "task_id", "run_id", "step_id")}
        told = {"cost": cost, "usage": usage, "model_request_id": call_id, **names}
        if step.get(ModelCall, call_id) is None:
            step.append(("model_calls",), call_id)
        step.put(ModelCall, call_id, **told, **step.pick("provider_name", "model_name"))
        return
    if scope not in SCOPES:
        step.note("no_identity", "a cost whose scope, or whose model call, is not told: it is not added up")
    owner = getattr(step.event, SCOPES[scope]) if scope in SCOPES else step.event.event_id
    step.put(Bill, (scope or "", owner or ""), cost=cost, usage=usage, source=step.told("source"))


def limit_changed(step: Step) -> None:
    """A limit moved, was hit, gets low or blocks."""
    kind, status = TYPE_OF_LIMIT.get(step.event.type, (None, None))
    told = {name: step.maybe(name) for name in (*LimitState.model_fields, "provider_name", "model_name")}
    told["kind"] = told["kind"] or kind
    told["status"] = told["status"] or step.maybe("limit_status") or status
    key = tuple(told[name] or "" for name in ("kind", "scope", "name", "provider_name", "model_name"))
    if step.get(LimitEntry, key) is None:
        step.append(("limits",), key)
    step.put(LimitEntry, key, **told, updated_at=step.at)
    step.assign(LimitEntry, key, retry_after_ms=step.maybe("retry_after_ms"))


HANDLERS: dict[str, Callable[[Step], None]] = {
    "routing.candidates.resolved": candidates_resolved,
    "routing.decided": decided,
    "routing.single_candidate": decided,
    "routing.fallback.applied": fallback_applied,
    "routing.not_possible": not_possible,
    "cost.estimated": estimated,
    "cost.recorded": recorded,
    "limit.changed": limit_changed,
    "rate_limit.hit": limit_changed,
    "quota.low": limit_changed,
    "quota.blocked": limit_changed,
}
