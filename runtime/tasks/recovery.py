"""What a start says about tasks that were under way when the runtime ended."""

from collections.abc import Callable
from datetime import datetime

from models.payloads.task import TaskCancelRequested, TaskLost
from runtime.kernel import Draft
from runtime.tasks import decisions
from runtime.tasks.plan import Plan
from views.state import State


def after_restart(state: State, now: datetime, new_id: Callable[[str], str], runtime_id: str) -> list[Draft]:
    """Facts about tasks of a state that `history.reconstructed` is the last fact of.

    A cancellation that was asked for is finished. A task whose turn goes on gets a new try. Of all others that were
    under way nobody can prove that somebody works on them: they are lost, and may be tried again.
    """
    plan = Plan(state, now, new_id)
    going_on = {state.turns[str(turn)].task_id for turn in state.open_keys("turns")}
    for key in state.open_keys("tasks"):
        task = state.tasks[str(key)]
        task_id = str(key)
        if task.status != "stale":
            continue
        if task.cancel_requested_at is not None:
            reason = "asked for before the restart"
            plan.add(task_id, TaskCancelRequested(reason=reason, requested_by="runtime", status="cancelling"))
            decisions.cancel(plan, [task_id], reason, "runtime")
        elif task_id in going_on:
            policy = plan.retry_policy(task_id)
            decisions.end_attempt(plan, task_id, "failed", "interrupted", "the runtime ended")
            decisions.attempt(plan, task_id, "crash_resume", None, policy, runtime_id)
        else:
            tries = state.attempts_of(task_id)
            told = TaskLost(
                reason="the runtime was started again, and nothing proves that the worker is alive",
                worker=tries[-1].worker if tries else None,
                last_seen_at=task.last_seen_at or task.last_activity_at,
                status="lost",
            )
            plan.add(task_id, told)
    return plan.drafts
