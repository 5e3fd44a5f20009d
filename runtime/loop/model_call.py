"""One call of a model: asked, streamed, told as facts, billed."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import orjson

from models.event import Correlation
from models.payload import Payload
from models.payloads.model import ModelCompleted, ModelFailed, ModelRequested
from models.payloads.reasoning import ReasoningSummary
from models.values import Cost, LimitState
from runtime.kernel import Draft
from runtime.loop.conversation import Conversation, specs_characters, tokens
from runtime.loop.masked_stream import Pieces
from runtime.providers import facts
from runtime.providers.provider import (
    Chunk,
    FinishChunk,
    LimitChunk,
    Message,
    ModelRequest,
    Provider,
    ProviderFailed,
    ReasoningSummaryChunk,
    TextChunk,
    TextPart,
    ToolSpec,
)
from runtime.routing import (
    Catalogue,
    Model,
    estimate,
    limit_changes,
    provider_quota_blocked,
    rate_limit_hit,
    record_cost,
)
from runtime.telemetry.spans import Span, answered, failed

if TYPE_CHECKING:
    from runtime.loop.work import Work

DEFAULT_OUTPUT_TOKENS = 8_192
"""How long an answer may be if the catalogue does not say."""


@dataclass(frozen=True)
class Asked:
    """What is to be asked of which model."""

    model: Model
    catalogue: Catalogue
    conversation: Conversation
    tools: tuple[ToolSpec, ...] = ()
    step_id: str | None = None
    attempt_index: int = 1
    operation: str = "chat"
    is_answer: bool = True
    """Whether what comes back is a part of the conversation."""

    @property
    def input_characters(self) -> int:
        """How long the request is."""
        return self.conversation.characters + specs_characters(self.tools)


@dataclass(frozen=True)
class Answered:
    """What came back."""

    model_request_id: str
    message: Message
    text: str
    stop_reason: str


class ModelCall:
    """One try at asking a model."""

    def __init__(self, work: Work, asked: Asked) -> None:
        self._work = work
        self._asked = asked
        self.request_id = work.runtime.kernel.new_id("model_request")
        self._ids: Correlation = work.ids.model_copy(
            update={"model_request_id": self.request_id, "step_id": asked.step_id}
        )
        self._begun = work.now
        self._first_at: datetime | None = None
        self._limits: list[LimitState] = []
        self._text: list[str] = []
        self._pieces = Pieces(work.runtime.contents.redactor, self._tell)

    async def ask(self, *before: Draft) -> Answered:
        """Ask; raises ProviderFailed when the failure is on record, for the caller to decide what is next.

        `before` are facts of the moment before, which cost no write of their own this way.
        """
        asked, model = self._asked, self._asked.model
        spans = self._work.runtime.telemetry.spans
        with spans.model_request(self._ids, provider=model.provider, model=model.model, streaming=True) as span:
            try:
                await self._work.record(*before, *self._requested())
                self._begun = self._work.now
                provider = self._work.runtime.connections.get(model.provider)
                finish = await self._listen(provider)
                if finish is None:
                    raise ProviderFailed("disconnected", f"{model.provider}: the stream ended without an end")
            except ProviderFailed as failure:
                await self._failed(span, failure)
                raise
            return await self._completed(span, finish, keep=asked.is_answer)

    def _request(self) -> ModelRequest:
        asked = self._asked
        return ModelRequest(
            model=asked.model.model,
            messages=tuple(asked.conversation.messages),
            tools=asked.tools,
            max_output_tokens=asked.model.max_output_tokens,
            attempt_index=asked.attempt_index,
        )

    def _draft(self, payload: Payload) -> Draft:
        return Draft(payload, self._ids)

    def _tell(self, payload: Payload) -> None:
        self._work.recorder.tell(self._draft(payload))

    def _requested(self) -> list[Draft]:
        asked, model, work = self._asked, self._asked.model, self._work
        most = model.max_output_tokens or DEFAULT_OUTPUT_TOKENS
        size = tokens(asked.input_characters)
        requested = ModelRequested(
            provider_name=model.provider,
            model_name=model.model,
            operation=asked.operation,
            request_ref=self._manifest(),
            input_chars=asked.input_characters,
            message_count=len(asked.conversation.messages),
            tool_count=len(asked.tools),
            streaming=True,
            attempt_index=asked.attempt_index,
            status="running",
        )
        estimated = self._draft(estimate(asked.catalogue, model, size, most, work.now))
        return [estimated, Draft(requested, self._ids, work.waiting())]

    def _manifest(self) -> str | None:
        """What was sent, told by the pieces of the conversation that it was made of; they are kept already."""
        talk = self._asked.conversation
        numbers = [item.number for item in talk.items]
        told = {
            "model": self._asked.model.name,
            "system_ref": talk.refs[0] if talk.refs else None,
            "summary_ref": talk.summary_ref,
            "memory_refs": talk.memory_refs,
            "first_item": numbers[0] if numbers else None,
            "last_item": numbers[-1] if numbers else None,
            "items": len(numbers),
            "tools": [spec.name for spec in self._asked.tools],
        }
        return self._work.runtime.contents.stage(orjson.dumps(told), media_type="application/json").ref

    # --- the stream --------------------------------------------------------------------------------------------

    async def _listen(self, provider: Provider) -> FinishChunk | None:
        """Tell the answer as it comes; gives its end, if it has one."""
        finish = None
        try:
            async with aclosing(provider.stream(self._request())) as chunks:
                async for chunk in chunks:
                    finish = self._take(chunk) or finish
        finally:
            self._pieces.end()
        return finish

    def _take(self, chunk: Chunk) -> FinishChunk | None:
        """Tell a piece of the answer; nobody waits for the disk here."""
        if isinstance(chunk, FinishChunk):
            return chunk
        if isinstance(chunk, LimitChunk):
            self._limits.extend(chunk.limits)
            return None
        if self._first_at is None:
            self._first_at = self._work.now
        if isinstance(chunk, TextChunk):
            self._text.append(chunk.text)
        self._pieces.take(chunk)
        if (summary := self._summary(chunk)) is not None:
            self._tell(summary)
        return None

    def _summary(self, chunk: Chunk) -> ReasoningSummary | None:
        if not isinstance(chunk, ReasoningSummaryChunk):
            return None
        kept = self._work.runtime.contents.stage(chunk.text)
        return ReasoningSummary(summary_preview=kept.preview, summary_ref=kept.ref, chars=len(chunk.text))

    # --- the end -----------------------------------------------------------------------------------------------

    async def _completed(self, span: Span, finish: FinishChunk, *, keep: bool) -> Answered:
        work, model = self._work, self._asked.model
        text = "".join(self._text)
        parts = [*finish.sealed, *([TextPart(text=text)] if text else []), *finish.tool_calls]
        message = Message(role="assistant", parts=tuple(parts))
        recorded = record_cost(self._asked.catalogue, model, finish.usage, work.now)
        cost = Cost(cost_usd=recorded.cost_usd, cost_state=recorded.cost_state, price=recorded.price)
        payload: ModelCompleted = facts.completed(
            finish,
            provider=model.provider,
            model=model.model,
            duration_ms=work.elapsed_ms(self._begun),
            first_token_ms=self._since_begun(self._first_at),
        ).model_copy(update={"cost": cost})
        if keep:
            work.answers[self.request_id] = message
            payload = payload.model_copy(update={"output_ref": self._kept(message, text), "output_chars": len(text)})
        answered(
            span,
            model=finish.response_model or model.model,
            response_id=finish.response_id,
            stop_reason=finish.stop_reason,
            usage=finish.usage,
        )
        await work.record(self._draft(payload), self._draft(recorded), *self._limit_facts(self._limits))
        return Answered(self.request_id, message, text, finish.stop_reason)

    def _kept(self, message: Message, text: str) -> str | None:
        """Where the answer is kept: as it is if it is only text, else as a message in JSON."""
        contents = self._work.runtime.contents
        if any(part.kind == "tool_call" for part in message.parts):
            return contents.stage(message.model_dump_json(), media_type="application/json").ref
        return contents.stage(text).ref

    async def _failed(self, span: Span, failure: ProviderFailed) -> None:
        work, model = self._work, self._asked.model
        payload: ModelFailed = facts.failed(
            failure, provider=model.provider, model=model.model, duration_ms=work.elapsed_ms(self._begun)
        )
        failed(span, failure.category, failure.message)
        told: list[Payload] = [payload]
        if failure.usage is not None:
            told.append(record_cost(self._asked.catalogue, model, failure.usage, work.now))
        if failure.category == "rate_limited":
            told.append(rate_limit_hit(failure, model.provider, model.model, work.now))
        if failure.category == "quota":
            told.append(provider_quota_blocked(failure, model.provider, model.model))
        limits = self._limit_facts([*self._limits, *failure.limits])
        await work.record(*map(self._draft, told), *limits)

    def _limit_facts(self, limits: list[LimitState]) -> list[Draft]:
        model, ledger = self._asked.model, self._work.runtime.account.ledger
        return [self._draft(one) for one in limit_changes(ledger, model.provider, model.model, limits)]

    def _since_begun(self, moment: datetime | None) -> float | None:
        return None if moment is None else max((moment - self._begun).total_seconds() * 1000, 0.0)
