"""How events change the tries at a task; every try stays on record."""

from __future__ import annotations

from models.states import TERMINAL
from models.states import State as WorkState
from views.state.step import Step
from views.state.work_records import AttemptState, TaskState

MIRRORED = frozenset(WorkState) - {
    *(WorkState.COMPLETED, WorkState.UNKNOWN, WorkState.DRAFT, WorkState.ACCEPTED, WorkState.QUEUED),
    *(WorkState.RETRYING, WorkState.ARCHIVED),
}
"""States of a task that are those of its try under way as well; that a task completed proves nothing about a try."""


def run_of(step: Step) -> str | None:
    """The try that an event names."""
    return step.named("run_id") or step.named("attempt_id")


def start_attempt(step: Step, task_id: str, status: str) -> None:
    """A try began, or is under way."""
    run = run_of(step)
    if run is None:
        step.note("no_identity", "the event names no try")
        return
    known = step.get(AttemptState, run)
    ids = {"run_id": step.named("run_id"), "attempt_id": step.named("attempt_id"), "task_id": task_id}
    names = ("worker", "input_refs", "checkpoint_refs", "retry_policy", "cause")
    told = {name: step.maybe(name) for name in names}
    step.put(AttemptState, run, status=status, attempt_count=step.told("attempt_index"), **ids, **told)
    if known is None or known.started_at is None:
        step.put(AttemptState, run, started_at=step.at)
    if known is None:
        step.append(("runs", task_id), run)
    task = step.get(TaskState, task_id)
    if task is not None and task.current_run_id not in (None, run):
        step.set_open(AttemptState, str(task.current_run_id), False)  # another try took its place; its state stays
    step.put(TaskState, task_id, current_run_id=run)
    step.set_open(AttemptState, run, True)


def end_attempt(step: Step, task_id: str, status: str, run: str | None = None) -> None:
    """A try ended; `run` names it if the event itself is about something else."""
    own = run is None
    run = run or run_of(step)
    if run is None:
        step.note("no_identity", "the event names no try")
        return
    if step.get(AttemptState, run) is None:
        step.put(AttemptState, run, task_id=task_id, run_id=run)
        step.append(("runs", task_id), run)
    if own:
        ids = {"run_id": step.named("run_id"), "attempt_id": step.named("attempt_id")}
        names = ("worker", "output_refs", "checkpoint_refs", "completion_summary")
        told = {name: step.maybe(name) for name in names}
        index = {"attempt_count": step.maybe("attempt_index")}
        step.put(AttemptState, run, last_error=step.fault(), **ids, **index, **told)
    _end(step, task_id, run, status)


def _end(step: Step, task_id: str, run: str, status: str) -> None:
    attempt = step.put(AttemptState, run, status=status)
    if attempt.ended_at is None:
        step.put(AttemptState, run, ended_at=step.at)
    step.set_open(AttemptState, run, False)
    task = step.get(TaskState, task_id)
    if task is not None and task.current_run_id == run:
        step.assign(TaskState, task_id, current_run_id=None)


def mirror(step: Step, task_id: str, status: str) -> None:
    """The try under way is in the state of its task, as long as it has not ended itself."""
    task = step.get(TaskState, task_id)
    run = task.current_run_id if task else None
    if run is None or not step.is_open(AttemptState, run):
        return
    if status in TERMINAL and status not in MIRRORED:
        _end(step, task_id, run, "unknown")  # it does not go on any more, and nobody told how it ended
    elif status not in MIRRORED:
        return
    elif status in TERMINAL:
        step.put(AttemptState, run, last_error=step.fault())
        _end(step, task_id, run, status)
    else:
        step.put(AttemptState, run, status=status)
