"""Commands about decisions and limits that people set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson
from pydantic import Field, JsonValue

from models.errors import Conflict, NotFound
from models.event import Correlation
from models.payloads.action import ActionResolved
from runtime.control.command import Answer, Mutation, command
from runtime.control.turn_commands import Id
from runtime.kernel import Draft

if TYPE_CHECKING:
    from runtime.runtime import Runtime


class RespondAction(Mutation):
    """A decision on an open action."""

    session_id: Id
    action_id: Id
    decision: str = Field(min_length=1, max_length=200)
    """One of the answers that the action offers."""

    payload: JsonValue = None
    """The structured answer, where one was asked for."""

    decided_by: str = Field(default="user", max_length=200)
    reason: str | None = Field(default=None, max_length=2_000)


class Responded(Answer):
    """The decision as it is on record."""

    action_id: str
    decision: str
    status: str
    repeated: bool = False


@command(RespondAction, Responded, effect="writes")
async def respond_action(runtime: Runtime, asked: RespondAction) -> Responded:
    """Decide what the runtime waits for; nothing else lets it go on."""
    kernel = runtime.kernel
    if not kernel.known(asked.session_id):
        raise NotFound("session", asked.session_id)
    async with kernel.writing(asked.session_id) as state:
        action = state.actions.get(asked.action_id)
        if action is None:
            raise NotFound("action", asked.action_id)
        request = runtime.request("respond_action", asked)
        if kernel.repeated(state, request):
            return Responded(
                action_id=asked.action_id, decision=action.decision or asked.decision, status="resolved", repeated=True
            )
        if action.status != "open":
            raise Conflict(f"action {asked.action_id} was decided before: {action.decision} by {action.decided_by}")
        if action.decisions and asked.decision not in action.decisions:
            raise Conflict(
                f"{asked.decision!r} is no answer to action {asked.action_id}",
                next_step=f"answer with one of: {', '.join(action.decisions)}",
            )
        waited = (kernel.clock() - action.requested_at).total_seconds() * 1000 if action.requested_at else None
        ref = None
        if asked.payload is not None:
            ref = kernel.contents.stage(orjson.dumps(asked.payload), media_type="application/json").ref
        resolved = ActionResolved(
            action_id=asked.action_id, decision=asked.decision, decided_by=asked.decided_by, reason=asked.reason,
            confirmed=asked.decision in ("allow", "approve", "yes"), response_ref=ref, wait_ms=waited,
            status="resolved",
        )  # fmt: skip
        ids = Correlation(
            thread_id=action.thread_id, turn_id=action.turn_id, task_id=action.task_id,
            tool_call_id=action.tool_call_id, action_id=asked.action_id,
        )  # fmt: skip
        await kernel.commit(asked.session_id, [Draft(resolved, ids)], request=request)
    return Responded(action_id=asked.action_id, decision=asked.decision, status="resolved")
