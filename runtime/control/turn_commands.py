"""Commands about turns and their queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from models.errors import Conflict, NotFound
from models.event import Correlation
from models.payloads.run import RunStatus
from models.payloads.thread import ThreadStarted
from models.payloads.turn import TurnFailed, TurnSubmitted
from models.payloads.turn_queue import QueueChanged
from models.shape import JsonMap
from models.values import QueuedTurn
from runtime.control.command import Answer, Asked, Mutation, command
from runtime.kernel import Draft, Request
from views.state import State

if TYPE_CHECKING:
    from runtime.runtime import Runtime

Id = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""The name of a thing, as the caller or the runtime gave it."""

MAX_QUEUED = 1_000


class TextPart(Asked):
    """A piece of text of the input."""

    type: Literal["text"] = "text"
    text: str = Field(min_length=1, max_length=2_000_000)


class TurnOptions(Asked):
    """How a turn is to be carried out; kept with the turn, so that it holds after a restart too."""

    model: str | None = Field(default=None, max_length=200)
    """The model asked for, as `provider/model` or just the model; None: the router chooses."""

    approval_policy: Literal["ask", "deny"] | None = None
    """What happens when a tool wants to write: ask a person, or refuse. None: ask, unless nobody is there."""

    sandbox_policy: Literal["workspace_write", "read_only"] | None = None
    """Whether the workspace may be written at all."""

    interactive: bool = True
    """Whether a person can be asked; if not, nothing waits for one."""

    max_steps: int | None = Field(default=None, gt=0, le=10_000)
    """How many model calls the turn may make."""

    task_id: Id | None = None
    """The task the turn works on."""

    action_timeout_s: float | None = Field(default=None, gt=0)
    """How long a person has for a decision, in seconds."""

    instructions: str | None = Field(default=None, max_length=200_000)
    """Words put before the conversation, for this turn."""


class SubmitTurn(Mutation):
    """An input for a thread, which may be a new one."""

    session_id: Id | None = None
    """The session; None: a new one."""

    thread_id: Id | None = None
    """The thread; None: the session's first, made if there is none."""

    create: Literal["if_missing", "never"] = "if_missing"
    """Whether a session or thread that does not exist is made."""

    turn_id: Id | None = None
    """The caller's own name for the turn: submitted twice it is one turn."""

    input: tuple[TextPart, ...] = Field(min_length=1, max_length=1_000)
    """The input, in parts."""

    when_busy: Literal["queue", "refuse"] = "queue"
    """What happens while another turn of the thread is under way."""

    options: TurnOptions = TurnOptions()
    metadata: JsonMap | None = None
    """Further metadata by the author's own keys."""

    source: str = Field(default="user", max_length=200)
    """Who submits it: a user, a schedule, another agent."""

    title: str | None = Field(default=None, max_length=500)
    """The name of a new session."""


class SubmittedTurn(Answer):
    """The turn as it was accepted."""

    session_id: str
    thread_id: str
    turn_id: str
    status: str
    """`accepted`, `queued`, or what has become of it when the same request came again."""

    queued_turn_id: str | None = None
    position: int | None = None
    """Its place in the queue, the next to run being 0."""

    repeated: bool = False
    """Whether this request was carried out before."""


class InterruptTurn(Mutation):
    """A turn that is to stop."""

    session_id: Id
    thread_id: Id | None = None
    turn_id: Id | None = None
    """The turn; None: whichever is under way."""

    reason: str = Field(default="interrupted by the user", max_length=2_000)


class Interrupted(Answer):
    """What the interrupt did."""

    outcome: Literal["accepted", "no_op"]
    turn_id: str | None = None
    reason: str | None = None
    """Why there was nothing to do."""


class ResumeThread(Mutation):
    """A thread whose work is to go on."""

    session_id: Id
    thread_id: Id
    resume_token: str | None = Field(default=None, max_length=100)
    """The number of the last fact the caller knows; refused if the session has never had so many."""


class Resumed(Answer):
    """What the resume did."""

    outcome: Literal["resumed", "already_running", "nothing_to_resume"]
    turn_id: str | None = None
    """The turn that runs now or next."""

    queued: int = 0
    """How many turns wait."""


class QueueTarget(Mutation):
    """A turn that waits."""

    session_id: Id
    thread_id: Id | None = None
    queued_turn_id: Id
    reason: str | None = Field(default=None, max_length=2_000)


class QueueAnswer(Answer):
    """The queue after the change."""

    session_id: str
    thread_id: str
    queued_turn_ids: tuple[str, ...]


@command(SubmitTurn, SubmittedTurn, effect="writes")
async def submit_turn(runtime: Runtime, asked: SubmitTurn) -> SubmittedTurn:
    """Submit an input: it is carried out now, or queued behind the turn under way."""
    kernel = runtime.kernel
    if asked.session_id is None and asked.create == "never":
        raise NotFound("session", None)
    key = asked.idempotency_key or asked.turn_id
    session_id = asked.session_id or runtime.session_of_request(key) or kernel.new_id("session")
    if asked.create == "never" and not kernel.known(session_id):
        raise NotFound("session", session_id)
    async with kernel.writing(session_id) as state:
        request = runtime.request("submit_turn", asked, key=key)
        if kernel.repeated(state, request):
            return _again(state, request)
        drafts, answer = _submission(runtime, state, asked, request)
        await kernel.commit(session_id, drafts, request=request)
    runtime.engine.wake(session_id, answer.thread_id)
    return answer


def _submission(
    runtime: Runtime, state: State, asked: SubmitTurn, request: Request
) -> tuple[list[Draft], SubmittedTurn]:
    new_id = runtime.kernel.new_id
    drafts: list[Draft] = []
    if not state.event_count:
        drafts.append(Draft(runtime.session_payload(asked.title, asked.source)))
    thread_id = asked.thread_id or next(iter(state.lane("threads")), None)
    if thread_id is None or thread_id not in state.threads:
        if asked.create == "never":
            raise NotFound("thread", thread_id)
        thread_id = thread_id or new_id("thread")
        drafts.append(Draft(ThreadStarted(source=asked.source, status="idle"), Correlation(thread_id=thread_id)))
        busy = False
    else:
        busy = runtime.engine.is_busy(state, thread_id)
    turn_id = asked.turn_id or new_id("turn")
    if turn_id in state.turns:
        raise Conflict(f"turn {turn_id} was submitted before, with other content or another key")
    if busy and asked.when_busy == "refuse":
        raise Conflict(f"thread {thread_id} is busy", next_step="wait, or submit with when_busy: queue")
    if asked.options.task_id is not None and asked.options.task_id not in state.tasks:
        raise NotFound("task", asked.options.task_id)
    text = "\n\n".join(part.text for part in asked.input)
    stored = runtime.kernel.contents.stage(text)
    ids = Correlation(thread_id=thread_id, turn_id=turn_id, task_id=asked.options.task_id)
    queue = state.queue(thread_id)
    if busy and len(queue) >= MAX_QUEUED:
        raise Conflict(f"{MAX_QUEUED} turns wait already", next_step="remove some, or wait")
    submitted = TurnSubmitted(
        input_ref=stored.ref,
        input_chars=len(text),
        source=asked.source,
        queued_turn_id=turn_id if busy else None,
        idempotency_key=request.key,
        options=runtime.input_snapshot(asked.options),
        metadata=asked.metadata,
        status="queued" if busy else "accepted",
    )
    drafts.append(Draft(submitted, ids))
    if busy:
        waiting = QueuedTurn(
            queued_turn_id=turn_id, source=asked.source, status="queued", policy="in_order",
            queued_at=runtime.kernel.clock(),
        )  # fmt: skip
        drafts.append(queue_change("added", thread_id, (*queue, waiting), turn_id))
    return drafts, SubmittedTurn(
        session_id=state.session_id,
        thread_id=thread_id,
        turn_id=turn_id,
        status="queued" if busy else "accepted",
        queued_turn_id=turn_id if busy else None,
        position=len(queue) if busy else None,
    )


def _again(state: State, request: Request) -> SubmittedTurn:
    """The answer to a request that was carried out before: its turn, as it is now."""
    turn = state.turns[state.index["idempotency", request.key]]
    thread_id = turn.thread_id or ""
    queue = [queued.queued_turn_id for queued in state.queue(thread_id)]
    position = queue.index(turn.turn_id) if turn.turn_id in queue else None
    return SubmittedTurn(
        session_id=state.session_id,
        thread_id=thread_id,
        turn_id=turn.turn_id,
        status=turn.status,
        queued_turn_id=turn.turn_id if position is not None else None,
        position=position,
        repeated=True,
    )


def queue_change(
    change: str,
    thread_id: str,
    queue: tuple[QueuedTurn, ...],
    turn_id: str | None = None,
    reason: str | None = None,
    status: str | None = None,
) -> Draft:
    """The fact that a queue changed, with the whole queue after it."""
    placed = tuple(turn.model_copy(update={"position": at}) for at, turn in enumerate(queue))
    payload = QueueChanged(
        change=change, queued_turn_id=turn_id, queued_turns=placed, length=len(placed), policy="in_order",
        reason=reason, status=status,
    )  # fmt: skip
    return Draft(payload, Correlation(thread_id=thread_id, turn_id=turn_id))


@command(InterruptTurn, Interrupted, effect="writes")
async def interrupt_turn(runtime: Runtime, asked: InterruptTurn) -> Interrupted:
    """Stop the turn under way; what waits stays queued until the thread is resumed."""
    kernel = runtime.kernel
    async with kernel.writing(_existing(runtime, asked.session_id)) as state:
        request = runtime.request("interrupt_turn", asked)
        if kernel.repeated(state, request):
            return Interrupted(outcome="accepted", turn_id=asked.turn_id)
        turn_id = _running(state, asked)
        if turn_id is None:
            return Interrupted(outcome="no_op", turn_id=asked.turn_id, reason="no such turn is under way")
        thread_id = state.turns[turn_id].thread_id or ""
        intent = RunStatus(status="cancelling", phase="interrupting", title="Interrupt", detail=asked.reason)
        ids = Correlation(thread_id=thread_id, turn_id=turn_id)
        await kernel.commit(asked.session_id, [Draft(intent, ids)], request=request)
    runtime.engine.interrupt(asked.session_id, thread_id, turn_id, asked.reason)
    return Interrupted(outcome="accepted", turn_id=turn_id)


def _running(state: State, asked: InterruptTurn) -> str | None:
    if asked.thread_id is not None and asked.thread_id not in state.threads:
        raise NotFound("thread", asked.thread_id)
    if asked.turn_id is not None and asked.turn_id not in state.turns:
        raise NotFound("turn", asked.turn_id)
    threads = [asked.thread_id] if asked.thread_id is not None else list(state.lane("threads"))
    active = [state.threads[thread].active_turn_id for thread in threads]
    found = [turn for turn in active if turn is not None and asked.turn_id in (None, turn)]
    return found[0] if found else None


@command(ResumeThread, Resumed, effect="writes")
async def resume_thread(runtime: Runtime, asked: ResumeThread) -> Resumed:
    """Let a thread go on: with the turn that was under way, else with what waits in its queue."""
    kernel = runtime.kernel
    async with kernel.writing(_existing(runtime, asked.session_id)) as state:
        thread = state.threads.get(asked.thread_id)
        if thread is None:
            raise NotFound("thread", asked.thread_id)
        if asked.resume_token is not None:
            _check_token(asked.resume_token, state)
        queue = state.queue(asked.thread_id)
        if runtime.engine.is_running(asked.session_id, asked.thread_id):
            return Resumed(outcome="already_running", turn_id=thread.active_turn_id, queued=len(queue))
        waiting = queue[0].queued_turn_id if queue else None
        next_turn = thread.active_turn_id or waiting
        if next_turn is None:
            return Resumed(outcome="nothing_to_resume")
        request = runtime.request("resume_thread", asked)
        if not kernel.repeated(state, request):
            change = queue_change("resumed", asked.thread_id, queue, status="active")
            await kernel.commit(asked.session_id, [change], request=request)
    runtime.engine.wake(asked.session_id, asked.thread_id)
    return Resumed(outcome="resumed", turn_id=next_turn, queued=len(queue))


def _check_token(token: str, state: State) -> None:
    if not token.isdecimal() or int(token) > (state.sequence or 0):
        raise Conflict(f"resume token {token!r} is not of this session", next_step="resume without a token")


@command(QueueTarget, QueueAnswer, effect="writes")
async def remove_queued_turn(runtime: Runtime, asked: QueueTarget) -> QueueAnswer:
    """Take a turn out of the queue; it ends as cancelled."""
    return await _change_queue(runtime, asked, "removed")


@command(QueueTarget, QueueAnswer, effect="writes")
async def promote_queued_turn(runtime: Runtime, asked: QueueTarget) -> QueueAnswer:
    """Put a turn at the head of the queue."""
    return await _change_queue(runtime, asked, "promoted")


async def _change_queue(runtime: Runtime, asked: QueueTarget, change: Literal["removed", "promoted"]) -> QueueAnswer:
    kernel = runtime.kernel
    async with kernel.writing(_existing(runtime, asked.session_id)) as state:
        request = runtime.request("remove_queued_turn" if change == "removed" else "promote_queued_turn", asked)
        turn = state.turns.get(asked.queued_turn_id)
        if turn is None or asked.thread_id not in (None, turn.thread_id):
            raise NotFound("turn", asked.queued_turn_id)
        thread_id = turn.thread_id or ""
        queue = state.queue(thread_id)
        if not kernel.repeated(state, request):
            entry = next((one for one in queue if one.queued_turn_id == asked.queued_turn_id), None)
            if entry is None:
                raise Conflict(f"turn {asked.queued_turn_id} does not wait any more: it is {turn.status}")
            rest = tuple(one for one in queue if one is not entry)
            queue = rest if change == "removed" else (entry, *rest)
            drafts = [queue_change(change, thread_id, queue, turn.turn_id, asked.reason)]
            if change == "removed":
                drafts.append(_removed(thread_id, turn.turn_id, asked.reason))
                if not rest and state.queues[thread_id].resume_state == "held":
                    # Nothing is left to hold back; what is submitted from now on waits for its turn only.
                    drafts.append(queue_change("resumed", thread_id, (), status="active"))
            await kernel.commit(asked.session_id, drafts, request=request)
    names = tuple(one.queued_turn_id for one in queue if one.queued_turn_id is not None)
    return QueueAnswer(session_id=asked.session_id, thread_id=thread_id, queued_turn_ids=names)


def _removed(thread_id: str, turn_id: str, reason: str | None) -> Draft:
    payload = TurnFailed(
        status="cancelled", failure_category="removed_from_queue", message=reason or "removed from the queue",
        interrupted=True, retryable=True,
    )  # fmt: skip
    return Draft(payload, Correlation(thread_id=thread_id, turn_id=turn_id))


def _existing(runtime: Runtime, session_id: str) -> str:
    if not runtime.kernel.known(session_id):
        raise NotFound("session", session_id)
    return session_id
