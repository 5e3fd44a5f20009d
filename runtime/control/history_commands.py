"""Commands about the history of a thread: compaction and rollback, both of our own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from models.errors import Conflict, NotFound
from models.event import Correlation
from models.payloads.turn import TurnSubmitted
from models.values import QueuedTurn
from runtime.control.command import Answer, Mutation, command
from runtime.control.turn_commands import Id, TurnOptions, queue_change
from runtime.kernel import Draft
from runtime.loop.compaction import affected_turns
from runtime.loop.rollback import roll_back

if TYPE_CHECKING:
    from runtime.runtime import Runtime
    from views.state import State

COMPACT = "compact"


class CompactThread(Mutation):
    """A thread whose earlier turns are to be summed up."""

    session_id: Id
    thread_id: Id
    model: str | None = Field(default=None, max_length=200)
    """The model that sums up; None: the router chooses."""


class Compacting(Answer):
    """The turn in which the runtime compacts."""

    session_id: str
    thread_id: str
    turn_id: str
    status: str
    """`accepted`, `queued`, or what has become of it when the same request came again."""

    affected_turns: tuple[str, ...] = ()
    """The turns that would be summed up if it were done now."""

    repeated: bool = False


class RollbackThread(Mutation):
    """A thread that is to go back to the end of one of its turns."""

    session_id: Id
    thread_id: Id
    turn_id: Id
    """The turn to go back to; it stays, those after it are taken back."""

    reason: str | None = Field(default=None, max_length=2_000)


class RolledBack(Answer):
    """What the rollback did."""

    rollback_id: str
    removed_turns: tuple[str, ...]
    affected_artifacts: tuple[str, ...] = ()
    repair: str | None = None
    """What it could not undo and has to be put right by hand."""

    repeated: bool = False


@command(CompactThread, Compacting, effect="writes")
async def compact_thread(runtime: Runtime, asked: CompactThread) -> Compacting:
    """Sum up the earlier turns of a thread now; the model sees the summary in their place."""
    kernel = runtime.kernel
    if not kernel.known(asked.session_id):
        raise NotFound("session", asked.session_id)
    async with kernel.writing(asked.session_id) as state:
        if asked.thread_id not in state.threads:
            raise NotFound("thread", asked.thread_id)
        request = runtime.request("compact_thread", asked)
        if kernel.repeated(state, request):
            return _compacting(state, asked, state.index[("idempotency", request.key)], repeated=True)
        turn_id = kernel.new_id("turn")
        busy = runtime.engine.is_busy(state, asked.thread_id)
        drafts = [_system_turn(runtime, asked, turn_id, request.key, busy)]
        if busy:
            waiting = QueuedTurn(queued_turn_id=turn_id, source="system", status="queued", policy="in_order",
                                 queued_at=kernel.clock())  # fmt: skip
            queue = (*state.queue(asked.thread_id), waiting)
            drafts.append(queue_change("added", asked.thread_id, queue, turn_id))
        await kernel.commit(asked.session_id, drafts, request=request)
    runtime.engine.wake(asked.session_id, asked.thread_id)
    return _compacting(kernel.state(asked.session_id), asked, turn_id)


def _system_turn(runtime: Runtime, asked: CompactThread, turn_id: str, key: str, busy: bool) -> Draft:
    text = "Sum up the earlier turns of this thread."
    options = runtime.input_snapshot(TurnOptions(model=asked.model, interactive=False))
    payload = TurnSubmitted(
        input_ref=runtime.contents.stage(text).ref,
        input_chars=len(text),
        source="system",
        queued_turn_id=turn_id if busy else None,
        idempotency_key=key,
        options=options | {"operation": COMPACT},
        status="queued" if busy else "accepted",
    )
    return Draft(payload, Correlation(thread_id=asked.thread_id, turn_id=turn_id))


def _compacting(state: State, asked: CompactThread, turn_id: str, *, repeated: bool = False) -> Compacting:
    return Compacting(
        session_id=state.session_id,
        thread_id=asked.thread_id,
        turn_id=turn_id,
        status=state.turns[turn_id].status,
        affected_turns=affected_turns(state, asked.thread_id, turn_id),
        repeated=repeated,
    )


@command(RollbackThread, RolledBack, effect="writes")
async def rollback_thread(runtime: Runtime, asked: RollbackThread) -> RolledBack:
    """Go back to the end of a turn: later ones are gone from the conversation; files stay as they were written."""
    kernel = runtime.kernel
    if not kernel.known(asked.session_id):
        raise NotFound("session", asked.session_id)
    async with kernel.writing(asked.session_id) as state:
        request = runtime.request("rollback_thread", asked)
        if kernel.repeated(state, request):
            return _again(state, asked)
        if runtime.engine.is_running(asked.session_id, asked.thread_id):
            raise Conflict(f"a turn of thread {asked.thread_id} is under way", next_step="interrupt it and try again")
        found = roll_back(state, asked.thread_id, asked.turn_id, asked.reason, kernel.new_id)
        await kernel.commit(asked.session_id, found.drafts, request=request)
    return RolledBack(
        rollback_id=found.rollback_id,
        removed_turns=found.removed_turns,
        affected_artifacts=found.affected_artifacts,
        repair=found.repair,
    )


def _again(state: State, asked: RollbackThread) -> RolledBack:
    """The answer to a request that was carried out before."""
    for rollback_id in reversed(state.lane("rollbacks").last()):
        held = state.rollbacks[rollback_id]
        if held.thread_id == asked.thread_id and held.target == asked.turn_id:
            return RolledBack(
                rollback_id=rollback_id,
                removed_turns=held.removed_turns or (),
                affected_artifacts=held.affected_artifacts or (),
                repair=held.repair,
                repeated=True,
            )
    raise NotFound("rollback to turn", asked.turn_id)
