"""Compaction: a summary by the model takes the place of the turns before, and the boundary tells what it keeps."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from models.payloads.context import ContextCompactionCompleted, ContextCompactionFailed, ContextCompactionStarted
from models.payloads.runtime_fault import RuntimeWarned
from runtime.loop.conversation import Conversation, is_system_work, tokens
from runtime.loop.model_call import Answered, Asked, ModelCall
from runtime.loop.routes import Routes
from runtime.providers.provider import Message, ProviderFailed, TextPart, ToolCallPart, ToolResultPart
from runtime.routing import Model
from runtime.routing.decision import Decision
from views.state import State

if TYPE_CHECKING:
    from runtime.loop.work import Work

Trigger = Literal["auto", "manual", "limit"]

BREAKER = 3
"""After so many failures in a row nothing is compacted by itself any more, until a person asks for it and it works."""

TRIES = 2
SUMMARIZE = "summarize"
PRESERVED = 50
PIECE_CHARACTERS = 4_000
"""More of a single message does not go into what is summed up."""

INSTRUCTION = (
    "You sum up conversations so that the work can go on without them. Keep: what the person wants and decided, what "
    "was done and found, which files were read or changed and how, what is still open. Leave out pleasantries."
)


class Compaction:
    """One compaction of a thread, inside a turn."""

    def __init__(self, work: Work, routes: Routes, decision: Decision, trigger: Trigger) -> None:
        self._work = work
        self._model = routes.model(decision)
        self._catalogue = routes.catalogue
        self._trigger = trigger
        self._id = work.runtime.kernel.new_id("compaction")
        self._begun: datetime = work.now
        self._left_out = 0
        self._turns = affected_turns(work.state, work.thread_id, work.turn_id)
        self._before = work.reader.read(work.state, work.thread_id, work.turn_id, "", memory=False)

    async def run(self) -> bool:
        """Compact; whether it worked. A failure leaves the context as it was, and is no failure of the turn."""
        work = self._work
        if not self._turns:
            return False
        started = ContextCompactionStarted(
            compaction_id=self._id, trigger=self._trigger, affected_turns=self._turns, tokens_before=self._before.tokens
        )
        await work.record(work.draft(started))
        try:
            answered = await self._ask()
        except ProviderFailed as failure:
            await self._failed(failure.category, failure.message, failure.retryable)
            return False
        if not answered.text.strip():
            await self._failed("empty_summary", "the model gave no summary", True)
            return False
        await self._completed(answered.text.strip())
        return True

    async def _ask(self) -> Answered:
        request = self._request()
        step_id = self._work.runtime.kernel.new_id("step")
        for attempt in range(1, TRIES + 1):
            call = ModelCall(
                self._work,
                Asked(
                    self._model, self._catalogue, request, step_id=step_id, attempt_index=attempt,
                    operation=SUMMARIZE, is_answer=False,
                ),
            )  # fmt: skip
            try:
                return await call.ask()
            except ProviderFailed as failure:
                if not failure.retryable or attempt == TRIES:
                    raise
        raise AssertionError("every try returns or raises")

    def _request(self) -> Conversation:
        """What is to be summed up, as one text; where it does not fit, the oldest is left out, and that is told."""
        work, most = self._work, _characters(self._model)
        reader = work.reader
        whole = reader.read(work.state, work.thread_id, work.turn_id, "", most_turns=None, memory=False).messages
        now = reader.turn(work.state, work.turn, current=True).messages
        lines = [_line(message) for message in whole[: len(whole) - len(now)]]
        text = "\n\n".join(line for line in lines if line)
        self._left_out = max(len(text) - most, 0)
        asked = f"Sum up this conversation in at most 600 words.\n\n{text[-most:]}"
        messages = [
            Message(role="system", parts=(TextPart(text=INSTRUCTION),)),
            Message(role="user", parts=(TextPart(text=asked),)),
        ]
        return Conversation(messages=messages, characters=len(INSTRUCTION) + len(asked))

    async def _completed(self, summary: str) -> None:
        work, state = self._work, self._work.state
        kept = work.runtime.contents.stage(summary)
        current = work.reader.turn(state, work.turn, current=True).characters
        artifacts = state.lane("artifacts").last(PRESERVED)
        payload = ContextCompactionCompleted(
            compaction_id=self._id,
            trigger=self._trigger,
            affected_turns=self._turns,
            tokens_before=self._before.tokens,
            tokens_after=tokens(current + len(summary)),
            summary_ref=kept.ref,
            replacement_ref=kept.ref,
            preserved_actions=tuple(action.action_id for action in state.open_actions()),
            preserved_incidents=state.lane("incidents", work.thread_id).last(PRESERVED),
            preserved_artifact_refs=tuple(artifacts),
            preserved_evidence_refs=tuple(state.lane("evidence").last(PRESERVED)),
            duration_ms=work.elapsed_ms(self._begun),
            status="completed",
            status_reason=f"the oldest {self._left_out} characters did not fit" if self._left_out else None,
        )
        await work.record(work.draft(payload))

    async def _failed(self, category: str, message: str, retryable: bool) -> None:
        work = self._work
        count = failures(work.state, work.thread_id) + 1
        payload = ContextCompactionFailed(
            compaction_id=self._id,
            trigger=self._trigger,
            affected_turns=self._turns,
            tokens_before=self._before.tokens,
            failure_category=category,
            message=message,
            retryable=retryable,
            consecutive_failures=count,
            duration_ms=work.elapsed_ms(self._begun),
            status="failed",
        )
        drafts = [work.draft(payload)]
        if count == BREAKER:
            warning = RuntimeWarned(
                code="compaction.breaker_open",
                message=f"compaction failed {BREAKER} times in a row; it is not tried by itself any more",
                component="loop",
                failure_category=category,
                repaired=False,
                metadata={"thread_id": work.thread_id, "next_step": "compact_thread"},
            )
            drafts.append(work.draft(warning))
        await work.record(*drafts)


def failures(state: State, thread_id: str) -> int:
    """How many compactions of a thread failed in a row."""
    context = state.contexts.get(thread_id)
    return context.consecutive_failures if context else 0


def is_due(work: Work, estimated_tokens: int) -> bool:
    """Whether the context is to be compacted before the model is asked."""
    state = work.state
    if estimated_tokens <= work.runtime.options.compact_at_tokens or failures(state, work.thread_id) >= BREAKER:
        return False
    context = state.contexts.get(work.thread_id)
    last = state.compactions.get((context.last_compaction_id if context else None) or "")
    if last is not None and last.turn_id == work.turn_id and last.error is not None:
        return False  # it failed in this turn; the next one tries again
    return bool(affected_turns(state, work.thread_id, work.turn_id))


def affected_turns(state: State, thread_id: str, turn_id: str) -> tuple[str, ...]:
    """The earlier turns that have no summary in their place yet, the oldest first."""
    found: list[str] = []
    for _, name in state.lane("turns", thread_id).newest():
        turn = state.turns[name]
        if turn.compacted_by is not None:
            break
        if name != turn_id and turn.started_at is not None and not is_system_work(turn):
            found.append(name)
    return tuple(reversed(found))


def _characters(model: Model) -> int:
    """How much of a conversation fits into one call, with room for the answer."""
    window = model.context_window_tokens or 32_000
    return int(window * 0.75) * 4


def _line(message: Message) -> str:
    """A message in words."""
    parts = []
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            parts.append(f"[calls {part.name} {part.arguments[:PIECE_CHARACTERS]}]")
        elif isinstance(part, ToolResultPart):
            parts.append(f"[result] {part.text[:PIECE_CHARACTERS]}")
        elif isinstance(part, TextPart):
            parts.append(part.text[:PIECE_CHARACTERS])
    return f"{message.role}: {' '.join(parts)}" if any(parts) else ""
