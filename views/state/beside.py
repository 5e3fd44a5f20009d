"""What other emitters tell beside the payload: the same facts, read into the same records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from models.governance_values import ExecutionEnvironment, PermissionDecision, SandboxProfile
from models.shape import Shape
from models.task_values import Attempt, Edge, TaskDescription, TaskProgress, Worker
from models.values import CandidateModelSet, LimitState, RoutingDecision, TaskProfile
from views.state.edges import put_edge
from views.state.step import Step
from views.state.talk_records import ToolCall
from views.state.work_records import AttemptState, LimitEntry, RoutingState, TaskState
from views.state.world_records import EnvironmentState, PermissionState


def read_beside(step: Step) -> None:
    """Take what stands beside the payload; what is not valid leaves a note."""
    told = step.event.__dict__
    for name, (shape, take) in READERS.items():
        if told[name] is None:
            continue
        try:
            value = shape.model_validate(told[name])
        except ValidationError:
            step.note("unreadable_payload", f"{name} beside the payload is not valid")
        else:
            take(step, value)


def _values(shape: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(shape, name) for name in names or type(shape).model_fields}


def _task(step: Step, told: Any) -> None:
    if step.event.task_id is not None:
        step.put(TaskState, step.event.task_id, **_values(told))


def _attempt(step: Step, told: Any) -> None:
    run = told.run_id or told.attempt_id or step.named("run_id") or step.named("attempt_id")
    if run is None or step.event.task_id is None:
        step.note("no_identity", "a try without its name or its task")
        return
    if step.get(AttemptState, run) is None:
        step.append(("runs", step.event.task_id), run)
    step.put(AttemptState, run, task_id=step.event.task_id, **_values(told))


def _edge(step: Step, told: Any) -> None:
    if (source := told.source_id or step.event.task_id) is not None:
        put_edge(step, source, _values(told))


def _progress(step: Step, told: Any) -> None:
    if step.event.task_id is not None:
        step.put_part(TaskState, step.event.task_id, "progress", told)
        step.put(TaskState, step.event.task_id, delivery_state=told.delivery_state)


def _delivery(step: Step, told: Any) -> None:
    state = (told.model_extra or {}).get("state")
    if step.event.task_id is not None and isinstance(state, str):
        step.put(TaskState, step.event.task_id, delivery_state=state)


def _worker(step: Step, told: Any) -> None:
    if step.event.task_id is not None:
        step.put(TaskState, step.event.task_id, worker=told)


def _routing(field: str) -> Callable[[Step, Any], None]:
    def take(step: Step, told: Any) -> None:
        key = step.event.turn_id or ""
        if step.get(RoutingState, key) is None:
            step.append(("routing",), key)
        count = getattr(told, "candidate_count", None) or getattr(told, "count", None)
        step.put(RoutingState, key, turn_id=step.event.turn_id, candidate_count=count, **{field: told})

    return take


def _limit(step: Step, told: Any) -> None:
    key = (told.kind or "", told.scope or "", told.name or "", "", "")
    if step.get(LimitEntry, key) is None:
        step.append(("limits",), key)
    step.put(LimitEntry, key, updated_at=step.at, **_values(told))


def _permission(step: Step, told: Any) -> None:
    if (call_id := step.event.tool_call_id) is not None:
        step.put(ToolCall, call_id, tool_call_id=call_id, permission=told)


def _sandbox(step: Step, told: Any) -> None:
    step.put(PermissionState, sandbox_profile=told)


def _environment(step: Step, told: Any) -> None:
    step.put(EnvironmentState, **_values(told))


READERS: dict[str, tuple[type[Shape], Callable[[Step, Any], None]]] = {
    "task": (TaskDescription, _task),
    "task_attempt": (Attempt, _attempt),
    "task_relationship": (Edge, _edge),
    "task_progress": (TaskProgress, _progress),
    "delivery_state": (Shape, _delivery),
    "worker": (Worker, _worker),
    "task_profile": (TaskProfile, _routing("task_profile")),
    "candidate_model_set": (CandidateModelSet, _routing("candidates")),
    "routing_decision": (RoutingDecision, _routing("decision")),
    "limit_state": (LimitState, _limit),
    "permission_decision": (PermissionDecision, _permission),
    "sandbox_profile": (SandboxProfile, _sandbox),
    "execution_environment": (ExecutionEnvironment, _environment),
}
"""Field of the envelope -> its shape, and where it goes."""
