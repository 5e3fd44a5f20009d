"""How events change decisions of people and policies: actions, permissions, boundaries, hooks, tools on offer."""

from __future__ import annotations

from collections.abc import Callable

from models.governance_values import PermissionDecision, SandboxProfile, ToolEntry
from models.states import STOPPED
from views.state.step import Step, narrow
from views.state.talk import wait_in_turn
from views.state.talk_records import ActionState, ToolCall
from views.state.world_records import DecisionState, EnvironmentState, HookState, Inventory, PermissionState

TIME_IS_UP = frozenset({"timed_out", "timeout", "time_out", "expired"})
CALLED_OFF = frozenset({"cancelled", "canceled", "withdrawn"})
OUTCOMES = {"timed_out": "timed_out", "cancelled": "cancelled"}


def action_required(step: Step) -> None:
    """Somebody has to decide; what waits for it waits, and nobody's silence is consent."""
    action_id = step.named("action_id")
    if action_id is None:
        step.note("no_identity", "the event names no action")
        return
    names = ("action_type", "decision_kind", "prompt", "decisions", "default_decision", "input_schema", "expires_at")
    _open_action(step, action_id, step.named("tool_call_id"), **step.pick(*names, "policy_ref"))


def action_resolved(step: Step) -> None:
    """The decision was made, or the time was up, or nobody needs it any more."""
    action_id = step.named("action_id")
    if action_id is None:
        step.note("no_identity", "the event names no action")
        return
    known = step.get(ActionState, action_id)
    if known is not None and known.resolved_at is not None:
        step.note("contradiction", f"action {action_id} was resolved before: the first answer stands")
        return
    told = step.pick("confirmed", "decided_by", "reason", "response", "response_ref", "wait_ms")
    decision = step.told("decision") or step.told("result")
    _close_action(step, action_id, _outcome(step, decision), decision=decision, **told)


def _outcome(step: Step, decision: str | None) -> str:
    words = {step.maybe("status"), step.event.status, decision, step.maybe("decided_by"), step.maybe("outcome")}
    if words & TIME_IS_UP:
        return "timed_out"
    return "cancelled" if words & CALLED_OFF else "resolved"


def _open_action(step: Step, action_id: str, tool_call_id: str | None, **told: object) -> None:
    event, known = step.event, step.get(ActionState, action_id)
    if known is not None and known.resolved_at is not None:
        step.note("contradiction", f"action {action_id} was resolved before")
        return
    ids = {"thread_id": event.thread_id, "turn_id": event.turn_id, "task_id": event.task_id}
    action = step.put(ActionState, action_id, action_id=action_id, tool_call_id=tool_call_id, **ids, **told)
    status = step.maybe("status")
    step.put(ActionState, action_id, status="open", native_status=status if status != "open" else None)
    if known is None or known.requested_at is None:
        step.put(ActionState, action_id, requested_at=step.at)
        step.append(("actions",), action_id)
    if status not in STOPPED:
        status = "waiting_permission" if action.action_type == "permission" else "waiting_input"
    wait_in_turn(step, action.turn_id, status, 0 if step.is_open(ActionState, action_id) else 1)
    step.set_open(ActionState, action_id, True)
    if action.tool_call_id is not None:
        _mention_call(step, action.tool_call_id)
        step.put(ToolCall, action.tool_call_id, action_id=action_id)
        if step.is_open(ToolCall, action.tool_call_id):
            step.put(ToolCall, action.tool_call_id, status=status)


def _close_action(step: Step, action_id: str, status: str, **told: object) -> None:
    event = step.event
    ids = {"thread_id": event.thread_id, "turn_id": event.turn_id, "task_id": event.task_id}
    was_open = step.is_open(ActionState, action_id)
    action = step.put(ActionState, action_id, action_id=action_id, **ids)
    step.assign(ActionState, action_id, status=status, native_status=None, resolved_at=step.at)
    step.put(ActionState, action_id, **told)
    step.set_open(ActionState, action_id, False)
    if was_open:
        wait_in_turn(step, action.turn_id, "running", -1)
    call = step.get(ToolCall, action.tool_call_id)
    if call is not None and step.is_open(ToolCall, call.tool_call_id) and call.status in STOPPED:
        step.put(ToolCall, call.tool_call_id, status="running")


def permission_evaluated(step: Step) -> None:
    """Rules, mode and hooks say whether something may be done."""
    key = _decision(step, "evaluated")
    step.put(DecisionState, key, **step.pick("subject_kind", "tool_name", "command_summary"))
    decision = step.narrowed(PermissionDecision)
    if decision is not None and decision.decision is None and step.told("result") is not None:
        decision = decision.model_copy(update={"decision": step.told("result")})
    _on_call(step, decision)
    step.put(PermissionState, permission_mode=step.told("mode"))


def permission_requested(step: Step) -> None:
    """Somebody is asked for permission."""
    key = _decision(step, "requested")
    step.put(DecisionState, key, **step.pick("subject_kind", "tool_name", "command_summary", "prompt"))
    action_id = step.told("approval_action_id") or step.event.action_id
    if action_id is not None:
        told = step.pick("prompt", "decisions", "expires_at")
        _open_action(step, action_id, step.event.tool_call_id, action_type="permission", **told)


def permission_resolved(step: Step) -> None:
    """The permission was given or refused, or nobody answered."""
    key = _decision(step, "resolved")
    outcome = step.told("outcome") or step.told("result")
    step.put(DecisionState, key, outcome=outcome)
    _on_call(step, step.narrowed(PermissionDecision))
    action_id = step.told("approval_action_id") or step.event.action_id
    action = step.get(ActionState, action_id)
    if action is not None and action.resolved_at is None:
        decided = {"decision": step.told("decision") or outcome, "decided_by": step.told("decision_source")}
        _close_action(step, action.action_id, OUTCOMES.get(outcome or "", "resolved"), wait_ms=step.told("wait_ms"),
                      reason=step.told("decision_reason"), **decided)  # fmt: skip


def _decision(step: Step, status: str) -> str:
    """The record of a decision: by its own name, the action's, the call's, else the event's."""
    event = step.event
    action = step.maybe("approval_action_id") or event.action_id
    key = str(step.maybe("decision_id") or action or event.tool_call_id or event.event_id)
    if step.get(DecisionState, key) is None:
        step.append(("permissions",), key)
    ids = {name: getattr(event, name) for name in ("thread_id", "turn_id", "task_id", "tool_call_id")}
    told = {name: step.maybe(name) for name in PermissionDecision.model_fields}
    step.put(DecisionState, key, **{**ids, **told, "status": status, "at": step.at})
    return key


def _on_call(step: Step, decision: PermissionDecision | None) -> None:
    call_id = step.event.tool_call_id
    if call_id is not None and decision is not None:
        _mention_call(step, call_id)
        step.put(ToolCall, call_id, permission=decision)


def _mention_call(step: Step, call_id: str) -> None:
    """A call exists from the first event that names it, be it the decision whether it may be made."""
    if step.get(ToolCall, call_id) is None:
        step.put(ToolCall, call_id, tool_call_id=call_id)
        step.append(("tool_calls",), call_id)


def policy_changed(step: Step) -> None:
    """Another policy holds."""
    names = ("policy_id", "policy_ref", "policy_scope", "permission_mode")
    step.put(PermissionState, policy_version=step.told("version"), **step.pick(*names))


def sandbox_applied(step: Step) -> None:
    """A boundary holds."""
    profile = step.narrowed(SandboxProfile)
    enforced, mechanism = step.told("enforced"), step.told("mechanism")
    step.put(PermissionState, sandbox_profile=profile, sandbox_enforced=enforced, sandbox_mechanism=mechanism)
    network, limits = step.told("network"), step.told("process_limits")
    told = {"sandbox_profile": profile, "cwd": step.told("cwd"), "env_ref": step.told("environment_ref")}
    step.put(EnvironmentState, network_profile=network, resource_limits=limits, **told)
    step.put(EnvironmentState, additional_roots=step.told("write_roots"))


def sandbox_violation(step: Step) -> None:
    """Something tried to cross the boundary."""
    step.append_once(("violations",), step.told("violation_ref") or step.event.event_id)


def hook(step: Step) -> None:
    """A hook began or ended."""
    hook_id = step.told("hook_id") or step.event.event_id
    ids = {"turn_id": step.event.turn_id, "tool_call_id": step.event.tool_call_id}
    known = step.get(HookState, hook_id)
    step.put(HookState, hook_id, hook_id=hook_id, **ids, **step.pick("hook_name", "point"))
    if known is None:
        step.append(("hooks",), hook_id)
    if step.event.type == "hook.started":
        step.put(HookState, hook_id, status="running", started_at=step.at)
        step.set_open(HookState, hook_id, True)
        return
    default = "completed" if step.event.type == "hook.completed" else "failed"
    status, _, _ = step.told_status(default)
    told = {name: step.maybe(name) for name in ("decision", "reason", "fail_policy", "duration_ms")}
    step.put(HookState, hook_id, status=status, error=step.fault(), **told)
    step.set_open(HookState, hook_id, False)
    for ref in step.maybe("audit_refs") or ():
        step.append_once(("audit",), ref if isinstance(ref, str) else ref.ref or step.event.event_id)


def tools_resolved(step: Step) -> None:
    """The tools for the turn were selected."""
    tools = step.told("tools")
    if tools is None and step.told("tool_names") is not None:
        tools = tuple(ToolEntry.model_construct(tool_name=name) for name in step.told("tool_names"))
    told = step.pick("caller", "mode", "policy_ref", "inventory_ref", "tool_count")
    step.assign(Inventory, **told, tools=tools, resolved_at=step.at)


def call_environment(step: Step, profile: SandboxProfile | None) -> None:
    """What a process tells about where it runs."""
    if profile is not None:
        step.put(EnvironmentState, sandbox_profile=narrow(SandboxProfile, profile))
    step.put(EnvironmentState, **step.pick("cwd", "shell", "env_ref"))


HANDLERS: dict[str, Callable[[Step], None]] = {
    "action.required": action_required,
    "action.resolved": action_resolved,
    "permission.evaluated": permission_evaluated,
    "permission.requested": permission_requested,
    "permission.resolved": permission_resolved,
    "policy.changed": policy_changed,
    "sandbox.applied": sandbox_applied,
    "sandbox.violation": sandbox_violation,
    "hook.started": hook,
    "hook.completed": hook,
    "hook.failed": hook,
    "tool.catalog.resolved": tools_resolved,
}
