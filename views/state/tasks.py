"""How events change tasks and their states; which event may follow which state is decided in `models.states`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from models.errors import IllegalTransition
from models.states import RULES, STOPPED, TERMINAL, next_state
from models.states import State as WorkState
from models.task_values import TaskDescription, TaskProgress
from models.values import TaskProfile
from views.state.attempts import end_attempt, mirror, start_attempt
from views.state.edges import delegate, dependency, put_edge
from views.state.step import Step
from views.state.work_records import TaskState

MOVING = frozenset(rule.event_type for rule in RULES if rule.target is not None and rule.event_type.startswith("task."))
"""Events that lead a task to another state; when one of these may not come, nobody knows the state any more."""

BLOCKERS = ("waiting_for", "action_id", "resource", "depends_on", "wait_until", "blocker_kind", "blocker_id")
IDS = ("parent_task_id", "root_task_id", "session_id", "thread_id", "turn_id")


def mention_task(step: Step) -> None:
    """A task exists from the first event that names it; it is `unknown` if we did not see its beginning."""
    task_id = step.event.task_id
    if task_id is None:
        return
    if step.get(TaskState, task_id) is None:
        step.put(TaskState, task_id, task_id=task_id, status="unknown", session_id=step.event.session_id)
        step.append(("tasks",), task_id)
        step.count("task", "unknown")
        step.set_open(TaskState, task_id, True)
    step.put(TaskState, task_id, last_activity_at=step.at)


def follow_task(step: Step) -> None:
    """The state of the task that the event names, after the event."""
    event = step.event
    task = step.get(TaskState, event.task_id)
    if task is None or event.task_id is None or event.type == "history.reconstructed":
        return
    before = task.status or "unknown"
    after = _next(step, event.task_id, before)
    if not event.type.startswith("task."):
        if after != before:
            move_task(step, event.task_id, after)
        return
    native = step.maybe("native_status") or event.native_status
    told = step.maybe("status") or event.status
    if told is not None and told != after:
        if told not in WorkState.__members__.values():
            native = native or told
        elif event.type == "task.waiting" and after == "unknown" and told in STOPPED and not step.doubted:
            after = told  # it does not say for what, but how
        elif event.type in MOVING and not step.doubted:
            step.note("contradiction", f"{event.type} says {told}; after {before} it leads to {after}")
    if event.type in MOVING or after != before:
        reason = step.maybe("status_reason") or event.status_reason or step.maybe("reason")
        move_task(step, event.task_id, after, native, reason or _doubt(before, after, event.type))


def _next(step: Step, task_id: str, before: str) -> str:
    try:
        return str(next_state(before, step.event.type, step.maybe("waiting_for")))
    except IllegalTransition as problem:
        step.note("illegal_transition", f"task {task_id}: {problem}")
        step.doubted = True
        return "unknown" if step.event.type in MOVING else before


def _doubt(before: str, after: str, event_type: str) -> str | None:
    return f"{event_type} may not follow {before}" if after == "unknown" and before != "unknown" else None


def move_task(step: Step, task_id: str, status: str, native: str | None = None, reason: str | None = None) -> None:
    """Set the state of a task, and what hangs on it: the counts, the open tasks, its end, the try under way."""
    before = step.get(TaskState, task_id)
    old = (before.status if before else None) or "unknown"
    step.assign(TaskState, task_id, status=status, native_status=native, status_reason=reason, updated_at=step.at)
    if status not in STOPPED:
        step.assign(TaskState, task_id, **dict.fromkeys(BLOCKERS))
    if status != old:
        step.count("task", old, -1)
        step.count("task", status)
    ended, had_ended = status in TERMINAL, old in TERMINAL
    step.set_open(TaskState, task_id, not ended)
    if ended and not had_ended:
        step.assign(TaskState, task_id, ended_at=step.at)
        step.append(("ended_tasks",), task_id)
    elif had_ended and not ended:
        step.assign(TaskState, task_id, ended_at=None)
    mirror(step, task_id, status)


def _described(step: Step, task_id: str) -> None:
    step.put(TaskState, task_id, updated_at=step.at, **step.pick(*TaskDescription.model_fields))


def created(step: Step, task_id: str) -> None:
    """A task was made."""
    ids = {name: getattr(step.event, name) for name in IDS}
    step.put(TaskState, task_id, created_at=step.at, **ids)
    _described(step, task_id)
    if step.event.parent_task_id is not None:
        put_edge(step, task_id, {"kind": "parent", "target_id": step.event.parent_task_id})
    for edge in step.told("relationships") or ():
        put_edge(step, task_id, edge.model_dump(exclude_none=True))
    if key := step.told("idempotency_key"):
        step.put(TaskState, task_id, idempotency_key=key)
        step.name(("task_idempotency", key), task_id)


def accepted(step: Step, task_id: str) -> None:
    """Somebody took the task."""
    step.put(TaskState, task_id, owner=step.told("owner"))


def queued(step: Step, task_id: str) -> None:
    """The task waits for its turn."""
    step.put(TaskState, task_id, **step.pick("queue_id", "position", "not_before"))


def started(step: Step, task_id: str) -> None:
    """Execution of the task began."""
    _begin(step, task_id)
    step.put(TaskState, task_id, worker=step.told("worker"))
    start_attempt(step, task_id, "running")


def attempt_started(step: Step, task_id: str) -> None:
    """A try at the task began."""
    _begin(step, task_id)
    step.put(TaskState, task_id, worker=step.told("worker"))
    start_attempt(step, task_id, "preparing")


def _begin(step: Step, task_id: str) -> None:
    task = step.get(TaskState, task_id)
    if task is None or task.started_at is None:
        step.put(TaskState, task_id, started_at=step.at)
    step.put(TaskState, task_id, thread_id=step.event.thread_id)


def waiting(step: Step, task_id: str) -> None:
    """The task waits for something named."""
    values = dict.fromkeys(BLOCKERS) | step.pick("waiting_for", "resource", "depends_on")
    values |= {"wait_until": step.told("until"), "action_id": step.told("action_id") or step.event.action_id}
    step.assign(TaskState, task_id, **values)


def blocked(step: Step, task_id: str) -> None:
    """Something that is missing blocks the task."""
    step.assign(TaskState, task_id, **dict.fromkeys(BLOCKERS))
    step.put(TaskState, task_id, **step.pick("blocker_kind", "blocker_id"))


def paused(step: Step, task_id: str) -> None:
    """Somebody stopped the task for a while."""
    step.assign(TaskState, task_id, **dict.fromkeys(BLOCKERS))
    step.put(TaskState, task_id, pause_propagation=step.told("propagation"))


def retrying(step: Step, task_id: str) -> None:
    """The task is to be tried again; the try that failed stays on record."""
    delay_ms = step.told("delay_ms")
    not_before = step.at + timedelta(milliseconds=delay_ms) if delay_ms is not None and delay_ms < 1e12 else None
    told = {"next_attempt_index": step.told("next_attempt_index"), "retry_not_before": not_before}
    step.assign(TaskState, task_id, **told)
    failed = step.told("failed_run_id") or step.told("failed_attempt_id")
    if failed is not None:
        end_attempt(step, task_id, "failed", run=failed)


def cancel_requested(step: Step, task_id: str) -> None:
    """Somebody wants the task to end."""
    step.put(TaskState, task_id, cancel_requested_at=step.at, cancel_propagation=step.told("propagation"))


def failed(step: Step, task_id: str) -> None:
    """The task failed or ran out of time."""
    step.put(TaskState, task_id, last_error=step.fault())


def lost(step: Step, task_id: str) -> None:
    """Nobody can prove that the worker is alive."""
    step.put(TaskState, task_id, **step.pick("worker", "last_seen_at"))


def completed(step: Step, task_id: str) -> None:
    """The owner declared the task complete."""
    step.put(TaskState, task_id, **step.pick("completed_by", "completion_summary", "delivery_state"))
    for artifact_id in step.told("artifact_ids") or ():
        step.append_once(("task_artifacts", task_id), artifact_id)
    for ref in step.told("evidence_refs") or ():
        step.append_once(("task_evidence", task_id), ref)


def archived(step: Step, task_id: str) -> None:
    """The task left active scheduling."""
    task = step.get(TaskState, task_id)
    step.put(TaskState, task_id, archived_from=step.told("final_status") or (task.status if task else None))


def updated(step: Step, task_id: str) -> None:
    """The owner changed the description."""
    _described(step, task_id)


def progressed(step: Step, task_id: str) -> None:
    """The task got on."""
    step.put_part(TaskState, task_id, "progress", step.narrowed(TaskProgress))
    step.put(TaskState, task_id, updated_at=step.at, delivery_state=step.told("delivery_state"))


def profiled(step: Step, task_id: str) -> None:
    """What the task needs of a model is known."""
    step.put(TaskState, task_id, task_profile=step.narrowed(TaskProfile))


def attempt_completed(step: Step, task_id: str) -> None:
    """A try completed; the task completes only when its owner says so."""
    end_attempt(step, task_id, "completed")


def attempt_failed(step: Step, task_id: str) -> None:
    """A try failed."""
    step.put(TaskState, task_id, last_error=step.fault())
    end_attempt(step, task_id, "failed")


def _nothing(step: Step, task_id: str) -> None:
    """The event changes nothing but the state."""


FACTS: dict[str, Callable[[Step, str], Any]] = {
    "task.created": created,
    "task.accepted": accepted,
    "task.queued": queued,
    "task.started": started,
    "task.updated": updated,
    "task.progress": progressed,
    "task.waiting": waiting,
    "task.blocked": blocked,
    "task.paused": paused,
    "task.resumed": _nothing,
    "task.retrying": retrying,
    "task.cancel_requested": cancel_requested,
    "task.cancelled": _nothing,
    "task.timed_out": failed,
    "task.failed": failed,
    "task.lost": lost,
    "task.completed": completed,
    "task.archived": archived,
    "task.delegated": delegate,
    "task.dependency.updated": dependency,
    "task.attempt.started": attempt_started,
    "task.attempt.completed": attempt_completed,
    "task.attempt.failed": attempt_failed,
    "task.profile.resolved": profiled,
}


def of_task(fact: Callable[[Step, str], Any]) -> Callable[[Step], None]:
    """A handler for a fact about the task that the envelope names."""

    def handle(step: Step) -> None:
        if step.event.task_id is not None:
            fact(step, step.event.task_id)
        elif step.event.type != "task.profile.resolved":  # a turn may have a profile without a task
            step.note("no_identity", "the event names no task")

    return handle


HANDLERS: dict[str, Callable[[Step], None]] = {name: of_task(fact) for name, fact in FACTS.items()}
