"""The command that sets a budget or quota."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from models.errors import NotFound
from models.event import Event
from models.values import LimitState
from runtime.control.command import Answer, Mutation, command
from runtime.control.turn_commands import Id
from runtime.kernel import Draft
from runtime.routing.ledger import set_limit as decide
from runtime.routing.limits import SetLimit

if TYPE_CHECKING:
    from runtime.runtime import Runtime


class LimitAsked(Mutation, SetLimit):
    """A limit on money, tokens or calls."""

    session_id: Id | None = Field(default=None)
    """The session in whose record the change is told; None: it is told of the runtime."""


class LimitAnswer(Answer):
    """The limit as it stands now."""

    limit: LimitState


@command(LimitAsked, LimitAnswer, effect="writes")
async def set_limit(runtime: Runtime, asked: LimitAsked) -> LimitAnswer:
    """Set, change or lift a budget or quota; work that would exceed it is stopped."""
    kernel = runtime.kernel
    wanted = SetLimit.model_validate(asked.model_dump(exclude={"idempotency_key", "session_id"}))
    session_id = asked.session_id or wanted.scope.partition(":")[2] or None
    if session_id is not None and not kernel.known(session_id):
        raise NotFound("session", session_id)
    changed = decide(runtime.account.ledger, wanted, kernel.clock())
    if session_id is None:
        fact = Event(
            type="limit.changed", event_id=kernel.telemetry.new_id(), timestamp=kernel.clock(), payload=changed
        )
        await kernel.tell(fact)
    else:
        async with kernel.writing(session_id) as state:
            request = runtime.request("set_limit", asked)
            if not kernel.repeated(state, request):
                await kernel.commit(session_id, [Draft(changed)], request=request)
    return LimitAnswer(limit=LimitState.model_validate(changed.model_dump(include=set(LimitState.model_fields))))
