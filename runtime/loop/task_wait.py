"""A task waits while the turn that works on it waits for a person."""

from __future__ import annotations

from models.event import Correlation
from models.payloads.task import TaskResumed, TaskWaiting
from models.states import EXECUTING, WAITING
from runtime.kernel import Draft
from runtime.loop.work import Work
from views.state import State
from views.state.talk_records import ActionState


async def hold(work: Work, action: ActionState) -> None:
    """Tell that the turn's task, if it has one that is under way, waits for this decision."""
    async with work.runtime.kernel.writing(work.session_id) as state:
        if _status(work, state) not in EXECUTING:
            return
        what = "permission" if action.action_type == "permission" else "input"
        told = TaskWaiting(
            waiting_for=what, action_id=action.action_id, status=f"waiting_{what}", until=action.expires_at
        )
        await work.runtime.kernel.commit(work.session_id, [Draft(told, _ids(work, state, action))])


async def release(work: Work, action: ActionState) -> None:
    """Tell that the task goes on, unless another decision of the turn is still open."""
    async with work.runtime.kernel.writing(work.session_id) as state:
        if _status(work, state) not in WAITING or state.open_actions(work.turn_id):
            return
        told = TaskResumed(reason=f"{action.status} by {action.decided_by}", requested_by="runtime", status="running")
        await work.runtime.kernel.commit(work.session_id, [Draft(told, _ids(work, state, action))])


def _status(work: Work, state: State) -> str | None:
    task = state.tasks.get(work.ids.task_id or "")
    return task.status if task else None


def _ids(work: Work, state: State, action: ActionState) -> Correlation:
    run_id = state.tasks[work.ids.task_id or ""].current_run_id
    return work.ids.model_copy(update={"run_id": run_id, "action_id": action.action_id})
