"""Carries one turn to its end; where it is follows from the state alone, so it goes on after any interruption."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING, NoReturn

from models.event import Correlation
from models.payload import Payload
from models.payloads.context import ContextResolved
from models.payloads.history import HistoryWindowLoaded
from models.payloads.run import RunStatus
from models.payloads.snapshot import SnapshotUpdated
from models.payloads.tool import ToolCatalogResolved
from models.payloads.turn import TurnCompleted, TurnFailed
from runtime.kernel import Draft
from runtime.loop import batch, closing
from runtime.loop.compaction import SUMMARIZE, Compaction, is_due
from runtime.loop.conversation import Conversation, specs_characters, tokens
from runtime.loop.model_call import DEFAULT_OUTPUT_TOKENS, Asked, ModelCall
from runtime.loop.routes import Choice, Routes
from runtime.loop.work import Work
from runtime.providers.provider import Message, ProviderFailed
from runtime.routing import Model, quota_blocked, quota_low
from runtime.routing.decision import Decision
from views.state import State
from views.state.talk_records import Item

if TYPE_CHECKING:
    from runtime.runtime import Runtime

TRIES = 3
"""How often the same model is asked the same before another one is."""

FIRST_PAUSE_MS = 500.0
LONGEST_PAUSE_MS = 30_000.0
"""A provider that asks for more patience is not waited for: another one may be free."""

SYSTEM = (
    "You are an agent that works in a folder of files, the workspace, by means of tools. Paths are from the "
    "workspace's root. Look before you change something, change only what is needed, and say at the end what you did. "
    "If a call is denied or fails, the result says why: act on that."
)


class TurnEnded(Exception):
    """The turn reached its end; its last facts are on record."""


class TurnRun:
    """One turn on its way."""

    def __init__(self, runtime: Runtime, session_id: str, thread_id: str, turn_id: str) -> None:
        self.session_id, self.thread_id, self.turn_id = session_id, thread_id, turn_id
        self._work = Work.of(runtime, session_id, thread_id, turn_id)
        self._routes = Routes(self._work)
        self.ids: Correlation = self._work.ids

    def elapsed_ms(self) -> float:
        """Milliseconds since the turn began."""
        return self._work.elapsed_ms()

    def closing_facts(self, state: State, status: str, reason: str) -> list[Draft]:
        """Facts that end what the turn has open."""
        return closing.after_interrupt(self._work, state, reason)

    async def run(self) -> None:
        """Carry the turn to `turn.completed` or `turn.failed`; a cancellation goes through."""
        work = self._work
        spans = work.runtime.telemetry.spans
        with ExitStack() as open_spans:
            open_spans.enter_context(spans.turn(work.ids))
            if work.ids.task_id is not None and work.ids.run_id is not None:
                attempts = work.state.lane("runs", work.ids.task_id)
                index = next((at for at, run in enumerate(attempts, 1) if run == work.ids.run_id), 1)
                open_spans.enter_context(spans.task_run(work.ids, attempt_index=index))
            try:
                await self._carry_out()
            except TurnEnded:
                return
            finally:
                await work.recorder.settle()  # whoever closes the turn finds all that was told

    async def _carry_out(self) -> None:
        work = self._work
        left = closing.after_restart(work, work.state)
        if left:
            await work.record(*left)
        if work.turn_id not in work.state.routing:
            await self._prepare()
        decision = self._routes.current()
        if decision is None:
            await self._fail("routing", "there is no model to take")
            return
        if work.settings.operation == "compact":
            await self._compact_by_request(decision)
            return
        while True:
            await self._step()

    # --- preparing ---------------------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        """Choose model, tools and context, and tell it all at once."""
        work = self._work
        begun = work.now
        choice = self._routes.choose(min(self._size(), work.runtime.options.compact_at_tokens))
        status = RunStatus(status="preparing", phase="preparing", title="Preparing the turn")
        drafts = [work.draft(status), *map(work.draft, choice.facts)]
        if choice.decision is None:
            await self._impossible(choice, drafts)
            return
        with work.runtime.telemetry.spans.context_resolve(work.ids):
            bounded = self._read(self._routes.model(choice.decision))
            drafts.append(work.draft(self._catalogue()))
            if bounded.has_more:
                drafts.append(work.draft(self._window(bounded)))
            drafts.append(work.draft(self._context(bounded, work.elapsed_ms(begun))))
            await work.record(*drafts)

    def _system(self) -> str:
        more = self._work.settings.instructions
        return f"{SYSTEM}\n\n{more}" if more else SYSTEM

    def _read(self, model: Model | None) -> Conversation:
        """The conversation for a model; for none, as if it had room for all."""
        work = self._work
        system = self._system()
        most = None
        if model is not None and model.context_window_tokens is not None:
            answer = min(model.max_output_tokens or DEFAULT_OUTPUT_TOKENS, model.context_window_tokens // 4)
            most = model.context_window_tokens - answer - tokens(specs_characters(work.runtime.tools.specs()))
        talk = work.reader.read(work.state, work.thread_id, work.turn_id, system, most_tokens=most)
        talk.refs.insert(0, work.runtime.contents.stage(system).ref or "")
        return talk

    def _size(self) -> int:
        """The whole context in tokens, by estimate, if nothing bounded it."""
        return tokens(self._read(None).characters + specs_characters(self._work.runtime.tools.specs()))

    def _catalogue(self) -> ToolCatalogResolved:
        settings = self._work.settings
        entries = self._work.runtime.tools.entries(
            policy=settings.approval_policy, mode=settings.mode, sandbox=settings.sandbox_policy
        )
        return ToolCatalogResolved(
            tools=entries,
            tool_names=tuple(entry.tool_name or "" for entry in entries),
            tool_count=len(entries),
            caller="model",
            mode=settings.mode,
            policy_ref=settings.approval_policy,
        )

    def _window(self, talk: Conversation) -> HistoryWindowLoaded:
        first, last = talk.items[0], talk.items[-1]
        return HistoryWindowLoaded(
            window="recent",
            from_sequence=first.sequence,
            to_sequence=last.sequence,
            item_count=len(talk.items),
            cursor=str(first.number),
            has_more=True,
        )

    def _context(self, talk: Conversation, duration_ms: float) -> ContextResolved:
        refs = tuple(dict.fromkeys(ref for ref in (talk.refs[0], talk.summary_ref, *talk.refs[1:]) if ref))
        warnings = []
        if talk.missing:
            warnings.append(f"degraded: {len(talk.missing)} parts of the conversation could not be read")
        if talk.has_more:
            warnings.append("earlier turns are not in the context")
        if talk.more_memory:
            warnings.append(f"{talk.more_memory} older notes are not in the context")
        return ContextResolved(
            context_refs=refs,
            memory_refs=tuple(talk.memory_refs) or None,
            ref_count=len(talk.items) + 1 + (talk.summary_ref is not None) + len(talk.memory_refs),
            estimated_tokens=talk.tokens + tokens(specs_characters(self._work.runtime.tools.specs())),
            warnings=tuple(warnings) or None,
            missing=tuple(dict.fromkeys(talk.missing)) or None,
            duration_ms=duration_ms,
        )

    # --- compaction --------------------------------------------------------------------------------------------

    async def _compact_if_due(self, decision: Decision) -> None:
        """Sum up the turns before this one, if with what it read and did itself the context has grown too large."""
        work = self._work
        if not is_due(work, self._size()):
            return
        if await Compaction(work, self._routes, decision, "auto").run():
            begun = work.now
            after = self._read(self._routes.model(decision))
            await work.record(work.draft(self._context(after, work.elapsed_ms(begun))))

    async def _compact_by_request(self, decision: Decision) -> None:
        """The whole turn is a compaction that somebody asked for."""
        work = self._work
        before = work.state.contexts.get(work.thread_id)
        done = await Compaction(work, self._routes, decision, "manual").run()
        after = work.state.contexts.get(work.thread_id)
        if done:
            await self._complete("compacted", None)
        elif before and after and before.last_compaction_id == after.last_compaction_id:
            await self._complete("nothing_to_compact", None)
        else:
            last = work.state.compactions.get((after.last_compaction_id if after else None) or "")
            fault = last.error if last else None
            await self._fail((fault and fault.category) or "compaction", (fault and fault.message) or "no summary")

    # --- steps -------------------------------------------------------------------------------------------------

    def _answers(self) -> list[Item]:
        state = self._work.state
        items = (state.items[number] for number in state.lane("turn_items", self.turn_id))
        return [item for item in items if item.kind == "assistant_output"]

    async def _step(self) -> None:
        """Do what is next: carry out what the last answer asks for, ask the model, or end the turn."""
        work = self._work
        answers = self._answers()
        if not answers:
            await self._ask()
            return
        last = answers[-1]
        request_id = last.model_request_id or ""
        answer = work.reader.answer(work.state, request_id, last.ref)
        if answer is None:
            await self._fail("content_missing", "the last answer of the model cannot be read any more")
            return
        actions = batch.actions_of(work, request_id, answer)
        waiting = batch.pending(work, actions)
        if waiting:
            await self._due()
            await batch.carry_out(work, request_id, waiting)
            return
        call = work.state.model_calls.get(request_id)
        stop = (call.stop_reason if call else None) or "stop"
        if not actions and stop != "pause":
            await self._complete("finished" if stop == "stop" else stop, answer)
        elif len(answers) >= work.settings.max_steps:
            await self._complete("max_steps", answer)
        else:
            await self._ask()

    async def _due(self) -> None:
        """Warnings about quotas that the last cost made due."""
        work = self._work
        low = quota_low(work.runtime.account.ledger, work.now, work.session_id)
        await work.record(*map(work.draft, low))

    async def _ask(self) -> None:
        """Ask the model, the same one again or the next one if it fails."""
        work = self._work
        await self._due()
        decision, step_id, attempt = self._where()
        await self._compact_if_due(decision)
        while True:
            model = self._routes.model(decision)
            if (limit := self._routes.stopped_by(model)) is not None:
                blocked = quota_blocked(limit, "model_call")
                failure = ProviderFailed("quota", blocked.message or "a quota is used up", retryable=False)
                decision = await self._next_model(decision, failure, blocked)
                attempt = 1
                continue
            talk = self._read(model)
            specs = work.runtime.tools.specs()
            asked = Asked(model, self._routes.catalogue, talk, specs, step_id=step_id, attempt_index=attempt)
            try:
                await ModelCall(work, asked).ask()
                return
            except ProviderFailed as failure:
                pause_ms = _pause_ms(failure, attempt)
                if pause_ms is not None:
                    await self._retry_later(failure, pause_ms)
                    attempt += 1
                    continue
                decision, attempt = await self._next_model(decision, failure), 1

    def _where(self) -> tuple[Decision, str, int]:
        """Which model to ask, in which step, for the how-manyeth time: as a restart left it, or anew."""
        work, state = self._work, self._work.state
        decision = self._routes.current()
        if decision is None:
            raise TurnEnded
        for _, call_id in state.lane("model_calls").newest():
            last = state.model_calls[call_id]
            if last.operation == SUMMARIZE:
                continue  # no try at the answer
            if last.turn_id != self.turn_id or last.error is None or last.step_id is None:
                break
            same = (last.provider_name, last.model_name) == (decision.selected_provider, decision.selected_model)
            attempt = (last.attempt_index or 1) + 1 if same else 1
            return decision, last.step_id, min(attempt, TRIES)
        return decision, work.runtime.kernel.new_id("step"), 1

    async def _retry_later(self, failure: ProviderFailed, pause_ms: float) -> None:
        work = self._work
        detail = f"{failure.category}; asking again in {pause_ms:.0f} ms"
        await work.record(work.draft(RunStatus(status="retrying", phase="retrying", title="Retry", detail=detail)))
        await asyncio.sleep(pause_ms / 1000)

    async def _next_model(self, decision: Decision, failure: ProviderFailed, *facts: Payload) -> Decision:
        """Take the next model of the chain, or end the turn."""
        work = self._work
        choice = self._routes.next(decision, failure, min(self._size(), work.runtime.options.compact_at_tokens))
        drafts = [*map(work.draft, facts), *map(work.draft, choice.facts)]
        if choice.decision is None:
            await self._impossible(choice, drafts, failure)
        await work.record(*drafts)
        return choice.decision

    # --- the end -----------------------------------------------------------------------------------------------

    async def _impossible(self, choice: Choice, drafts: list[Draft], failure: ProviderFailed | None = None) -> NoReturn:
        failed = TurnFailed(
            status="failed",
            failure_category=choice.category or "routing",
            message=choice.reason or "there is no model to take",
            retryable=failure.retryable if failure else False,
            error_code=failure.error_code if failure else None,
            duration_ms=self.elapsed_ms(),
        )
        await self._end(*drafts, self._work.draft(failed))

    async def _fail(self, category: str, message: str) -> NoReturn:
        failed = TurnFailed(
            status="failed",
            failure_category=category,
            message=message,
            retryable=True,
            duration_ms=self.elapsed_ms(),
        )
        await self._end(self._work.draft(failed))

    async def _complete(self, stop_reason: str, answer: Message | None) -> NoReturn:
        work, state = self._work, self._work.state
        await self._due()
        text = answer.text if answer is not None else ""
        kept = work.runtime.contents.stage(text) if text else None
        items = [state.items[number] for number in state.lane("turn_items", self.turn_id)]
        snapshot = SnapshotUpdated(
            source="turn.completed", read_model="thread_read_model", up_to_sequence=state.sequence, status="available"
        )
        completed = TurnCompleted(
            status="completed",
            stop_reason=stop_reason,
            output_ref=kept.ref if kept else None,
            output_chars=len(text),
            model_calls=sum(item.kind == "assistant_output" for item in items),
            tool_calls=sum(item.kind == "tool_result" for item in items),
            duration_ms=self.elapsed_ms(),
        )
        await self._end(work.draft(snapshot), work.draft(completed))

    async def _end(self, *drafts: Draft) -> NoReturn:
        await self._work.record(*drafts)
        raise TurnEnded


def _pause_ms(failure: ProviderFailed, attempt: int) -> float | None:
    """How long to wait before the same model is asked again; None: it is not."""
    if not failure.retryable or attempt >= TRIES:
        return None
    pause = failure.retry_after_ms if failure.retry_after_ms is not None else FIRST_PAUSE_MS * 2 ** (attempt - 1)
    return pause if pause <= LONGEST_PAUSE_MS else None
