"""The Actions of one answer: those that do not wait for each other go on side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.loop.action import Action, action_id, call_id, ordered
from runtime.loop.closing import INTERRUPTED
from runtime.loop.conversation import calls_of
from runtime.loop.tool_call import ToolCallRun
from runtime.providers.provider import Message, ToolCallPart

if TYPE_CHECKING:
    from runtime.loop.work import Work

SIDE_BY_SIDE = 8
"""So many calls run at once."""


@dataclass(frozen=True)
class Pending:
    """An Action that is not done, and the call that is to carry it out."""

    action: Action
    tool_call_id: str


def actions_of(work: Work, model_request_id: str, answer: Message) -> tuple[Action, ...]:
    """The Actions that an answer asks for."""
    calls = [part for part in answer.parts if isinstance(part, ToolCallPart)]
    tools = work.runtime.tools
    return ordered([tools.action(part, action_id(model_request_id, at)) for at, part in enumerate(calls)])


def pending(work: Work, actions: Sequence[Action]) -> list[Pending]:
    """The Actions that are not done yet, by the state. One that only read when it was cut off is done again."""
    state, found = work.state, []
    for action in actions:
        calls = list(calls_of(state, action.id))
        last = calls[-1] if calls else None
        if last is None or last.ended_at is None:
            found.append(Pending(action, call_id(action.id, max(len(calls), 1))))
        elif last.is_read_only and last.error and last.error.category == INTERRUPTED and not last.cancelled:
            found.append(Pending(action, call_id(action.id, len(calls) + 1)))
    return found


async def carry_out(work: Work, model_request_id: str, waiting: Sequence[Pending]) -> None:
    """Carry out Actions, each as soon as those it depends on have ended."""
    room = asyncio.Semaphore(SIDE_BY_SIDE)
    as_it_came = model_request_id in work.answers
    under_way: dict[str, asyncio.Task[bool]] = {}

    async def one(entry: Pending) -> bool:
        before = [under_way[name] for name in entry.action.depends_on if name in under_way]
        if before:
            await asyncio.wait(before)
        run = ToolCallRun(work, entry.action, entry.tool_call_id, as_it_came=as_it_came)
        if entry.action.failure_policy == "stop_dependents" and not all(task.result() for task in before):
            await run.skip("dependency_failed", "An Action that this one depends on failed.")
            return False
        return await run.run(room)

    try:
        async with asyncio.TaskGroup() as group:
            for entry in waiting:
                under_way[entry.action.id] = group.create_task(one(entry), name=f"action {entry.action.id}")
    except BaseExceptionGroup as problems:
        raise problems.exceptions[0] from problems  # the first one is why the others were stopped
