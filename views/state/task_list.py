"""The read model of the tasks: active, waiting, failed, lost and lately ended ones, their graph and their tries."""

from __future__ import annotations

from models.read_models import TaskSnapshot
from models.states import EXECUTING, STOPPED, TERMINAL
from models.states import State as WorkState
from models.summaries import TaskCounts
from models.task_values import Edge, TaskRecord
from views.state.lists import head
from views.state.shape import State
from views.state.step import narrow

ACTIVE = EXECUTING | {WorkState.ACCEPTED, WorkState.QUEUED, WorkState.CANCELLING}


def task_snapshot(state: State, window: int | None = 50) -> TaskSnapshot | None:
    """Open tasks and the last ones that ended; without a window all of them. None if no event names a task."""
    if not state.tasks:
        return None
    ended = _lately_ended(state, window)
    shown = _shown(state, ended, window)
    tasks = [task for task_id in shown if (task := state.task(task_id)) is not None]
    by_state: dict[str, list[str]] = {}
    for task in tasks:
        by_state.setdefault(task.status or "unknown", []).append(task.task_id or "")
    return TaskSnapshot(
        status=_overall(by_state),
        tasks=tuple(_plain(task) for task in tasks),
        active_task_ids=_ids(by_state, ACTIVE),
        waiting_task_ids=_ids(by_state, STOPPED),
        failed_task_ids=_ids(by_state, frozenset({"failed", "timed_out"})),
        lost_task_ids=_ids(by_state, frozenset({"lost"})),
        recent_terminal_task_ids=tuple(ended),
        graph=tuple(narrow(Edge, edge) or Edge() for task_id in shown for edge in state.edges_of(task_id)) or None,
        current_run_ids={task.task_id or "": task.current_run_id for task in tasks if task.current_run_id} or None,
        delivery_states={task.task_id or "": task.delivery_state for task in tasks if task.delivery_state} or None,
        counts=task_counts(state),
        **head(state, "tasks", "attempts", "edges"),
    )


def task_counts(state: State) -> TaskCounts:
    """How many tasks there are in all, whatever the window."""

    def count(states: frozenset[str] | frozenset[WorkState]) -> int:
        return sum(state.counts.get(("task", str(name)), 0) for name in states)

    return TaskCounts(
        active=count(ACTIVE),
        waiting=count(STOPPED),
        failed=count(frozenset({"failed", "timed_out"})),
        lost=count(frozenset({"lost"})),
        completed=count(frozenset({"completed"})),
        cancelled=count(frozenset({"cancelled"})),
    )


def _shown(state: State, ended: list[str], window: int | None) -> list[str]:
    if window is None:
        return list(state.lane("tasks"))
    going_on = [str(key) for key in state.open_keys("tasks")]
    return [*going_on, *(task_id for task_id in ended if task_id not in going_on)]


def _lately_ended(state: State, window: int | None) -> list[str]:
    """The last tasks that ended and have not been taken up again, the oldest first."""
    found: dict[str, None] = {}
    for _, task_id in state.lane("ended_tasks").newest():
        if window is not None and len(found) >= window:
            break
        if (state.tasks[task_id].status or "unknown") in TERMINAL:
            found.setdefault(task_id)
    return list(found)[::-1]


def _overall(by_state: dict[str, list[str]]) -> str:
    """What a reader should know first."""
    for status, states in (("running", ACTIVE), ("blocked", STOPPED), ("stale", frozenset({"lost", "stale"}))):
        if any(name in by_state for name in states):
            return status
    return "unknown" if "unknown" in by_state else "idle"


def _ids(by_state: dict[str, list[str]], states: frozenset[str] | frozenset[WorkState]) -> tuple[str, ...]:
    return tuple(task_id for name in sorted(states) for task_id in by_state.get(str(name), ()))


def _plain(task: TaskRecord) -> TaskRecord:
    """The record without what only the reducer needs."""
    whole = {name: getattr(task, name) for name in TaskRecord.model_fields if getattr(task, name) is not None}
    return TaskRecord.model_construct(**whole)
