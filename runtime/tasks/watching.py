"""Budgets of time and inactivity: tasks that exceed theirs are ended."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, NamedTuple

from models.errors import TachographError
from models.payloads.task import TaskTimedOut
from runtime.tasks import decisions
from runtime.tasks.plan import Plan
from views.state import State
from views.state.work_records import TaskState

if TYPE_CHECKING:
    from runtime.runtime import Runtime

LOOK_EVERY_S = 1.0


class Overdue(NamedTuple):
    """A task that exceeded a budget."""

    task_id: str
    kind: Literal["time", "inactivity"]
    budget_s: float


def overdue(state: State, now: datetime) -> list[Overdue]:
    """The tasks that have exceeded a budget by now."""
    found = []
    for key in state.open_keys("tasks"):
        task = state.tasks[str(key)]
        if task.status in ("draft", "paused", "lost"):
            continue
        for kind, since, budget_s in _budgets(task):
            if since is not None and now - since > timedelta(seconds=budget_s):
                found.append(Overdue(str(key), kind, budget_s))
                break
    return found


def _budgets(task: TaskState) -> list[tuple[Literal["time", "inactivity"], datetime | None, float]]:
    limits = task.constraints.time if task.constraints else None
    if not isinstance(limits, dict):
        return []
    spans: list[tuple[Literal["time", "inactivity"], datetime | None, object]] = [
        ("time", task.started_at, limits.get("budget_s")),
        ("inactivity", task.last_activity_at or task.started_at, limits.get("inactivity_s")),
    ]
    return [(kind, since, float(budget)) for kind, since, budget in spans if isinstance(budget, int | float)]


def end_overdue(plan: Plan, late: Overdue) -> None:
    """The facts that end a task whose budget is used up."""
    message = f"the {late.kind} budget of {late.budget_s:g} s is used up"
    decisions.end_attempt(plan, late.task_id, "timed_out", "timeout", message)
    told = TaskTimedOut(
        budget_kind=late.kind, budget_ms=late.budget_s * 1000, failure_category="timeout", message=message,
        retryable=True, status="timed_out",
    )  # fmt: skip
    plan.add(late.task_id, told)


async def watch(runtime: Runtime) -> None:
    """Look at the tasks of every session that is in memory, again and again."""
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        for session_id in runtime.kernel.loaded():
            await end_late_tasks(runtime, session_id)


async def end_late_tasks(runtime: Runtime, session_id: str) -> list[str]:
    """End the tasks of a session that exceeded a budget, and stop the turns that work on them."""
    kernel = runtime.kernel
    if not overdue(kernel.state(session_id), kernel.clock()):
        return []
    async with kernel.writing(session_id) as state:
        plan = Plan(state, kernel.clock(), kernel.new_id)
        late = overdue(state, kernel.clock())
        for one in late:
            try:
                end_overdue(plan, one)
            except TachographError:  # its state changed to one that cannot time out
                continue
        await kernel.commit(session_id, plan.drafts)
    ended = [one.task_id for one in late]
    runtime.engine.interrupt_tasks(session_id, ended, "the budget of its task is used up")
    return ended
