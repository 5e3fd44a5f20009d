"""The conversation as the model gets it, made from the state and the stored contents alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import orjson
from pydantic import ValidationError

from runtime.loop.action import action_id, call_id
from runtime.loop.texts import Texts
from runtime.loop.tools import Tools
from runtime.providers.provider import (
    Message,
    SealedPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
)
from views.state import State
from views.state.talk_records import Item, ToolCall, Turn

CHARACTERS_PER_TOKEN = 4
"""How tokens are estimated where nobody can count them: of English text about four characters make one."""

HISTORY_TURNS = 50
"""At most so many earlier turns are shown to the model; what is older is reached by compaction."""

TOLD_REFS = 20
"""At most so many refs of earlier turns are listed with the context; the window tells the rest."""

MEMORY_CHARACTERS = 8_000
"""At most so much of the session's notes is shown, the newest first."""

UNREADABLE = "[this part of the conversation could not be read]"
NO_RESULT = "[there is no result: the call did not end]"


@dataclass
class Conversation:
    """Messages for a model, and what is told of them."""

    messages: list[Message] = field(default_factory=list)
    refs: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)
    """Earlier turns that are in it, the oldest first."""

    has_more: bool = False
    """Whether there are earlier turns that are not in it."""

    summary_ref: str | None = None
    memory_refs: list[str] = field(default_factory=list)
    """Notes of the session that are in it, the oldest first."""

    more_memory: int = 0
    """How many older notes are not in it."""

    characters: int = 0

    @property
    def tokens(self) -> int:
        """Its size, by estimate."""
        return tokens(self.characters)


def tokens(characters: int) -> int:
    """Characters as tokens, by estimate."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def specs_characters(specs: tuple[ToolSpec, ...]) -> int:
    """How long the tools are, as the model is told of them."""
    return sum(len(spec.name) + len(spec.description) + len(orjson.dumps(spec.input_schema)) for spec in specs)


class Reader:
    """Makes conversations. `answers` are those of this turn as they came, before secrets were masked for the store."""

    def __init__(self, texts: Texts, tools: Tools, answers: dict[str, Message] | None = None) -> None:
        self._texts = texts
        self._tools = tools
        self._answers = {} if answers is None else answers

    def read(
        self,
        state: State,
        thread_id: str,
        turn_id: str,
        system: str,
        *,
        most_tokens: int | None = None,
        most_turns: int | None = HISTORY_TURNS,
        memory: bool = True,
    ) -> Conversation:
        """The turn and as many turns before it as fit, whole ones only, behind the summary of what is before those.

        The notes of the session, of any of its threads, stand before it all, whatever was summed up since.
        """
        told = Conversation()
        notes = self._memory(told, state) if memory else []
        now = self.turn(state, state.turns[turn_id], current=True)
        characters = len(system) + sum(map(len, notes)) + now.characters
        earlier: list[Conversation] = []
        for turn in _turns_before(state, thread_id, turn_id):
            if turn.compacted_by is not None:
                told.summary_ref = state.compactions[turn.compacted_by].summary_ref
                break
            part = self._ended(state, turn)
            full = most_tokens is not None and tokens(characters + part.characters) > most_tokens
            if full or len(earlier) == most_turns:
                told.has_more, told.summary_ref = True, _last_summary(state, thread_id)
                break
            characters += part.characters
            earlier.append(part)
        summary = self._texts.get(told.summary_ref)
        if summary is None and told.summary_ref is not None:
            told.missing.append(told.summary_ref)
        told.messages.append(_system(system, summary, notes))
        told.characters = characters + len(summary or "")
        for part in (*reversed(earlier), now):
            told.messages += part.messages
            told.missing += part.missing
            told.items += part.items
        told.turns = [one for part in reversed(earlier) for one in part.turns]
        before = [ref for part in reversed(earlier) for ref in part.refs]
        told.refs = [*before[-TOLD_REFS:], *now.refs]
        return told

    def _memory(self, told: Conversation, state: State) -> list[str]:
        """The notes of the session, each once."""
        refs = dict.fromkeys(call.result_ref for call in reversed(state.memory()) if call.result_ref is not None)
        notes: list[str] = []
        left = MEMORY_CHARACTERS
        for ref in refs:
            note = self._texts.get(ref)
            if note is None:
                told.missing.append(ref)
            elif left >= len(note) and not told.more_memory:
                left -= len(note)
                notes.insert(0, note)
                told.memory_refs.insert(0, ref)
            else:
                told.more_memory += 1
        return notes

    def _ended(self, state: State, turn: Turn) -> Conversation:
        """An earlier turn; nothing is added to one that has ended, so it is made once."""
        key = (state.session_id, turn.turn_id)
        held = self._texts.turns.get(key)
        if held is None:
            held = self.turn(state, turn)
            if turn.completed_at is not None and not held.missing:
                self._texts.turns.hold(key, held)
        return held

    def turn(self, state: State, turn: Turn, *, current: bool = False) -> Conversation:
        """What was said and done in one turn."""
        told = Conversation(turns=[turn.turn_id])
        for number in state.lane("turn_items", turn.turn_id):
            item = state.items[number]
            if item.kind == "turn_input":
                self._input(told, turn, item)
            elif item.kind == "assistant_output":
                self._answer(told, state, item, current=current)
            elif item.kind not in ("tool_call", "tool_result"):
                continue
            told.items.append(item)
            if item.ref is not None:
                told.refs.append(item.ref)
        told.characters = sum(map(_characters, told.messages))
        return told

    def _input(self, told: Conversation, turn: Turn, item: Item) -> None:
        if is_system_work(turn):
            return
        told.messages.append(Message(role="user", parts=(TextPart(text=self._text(told, item.ref)),)))

    def _text(self, told: Conversation, ref: str | None) -> str:
        text = self._texts.get(ref)
        if text is None:
            told.missing.append(ref or "a content without a ref")
            return UNREADABLE
        return text

    def _answer(self, told: Conversation, state: State, item: Item, *, current: bool) -> None:
        request = item.model_request_id or ""
        answer = self.answer(state, request, item.ref)
        if answer is None:
            told.missing.append(item.ref or "a content without a ref")
            answer = Message(role="assistant", parts=(TextPart(text=UNREADABLE),))
        # Private reasoning is for the turn it belongs to; a later one does not get it.
        parts = tuple(part for part in answer.parts if current or not isinstance(part, SealedPart))
        if parts:
            told.messages.append(Message(role="assistant", parts=parts))
        calls = [part for part in parts if isinstance(part, ToolCallPart)]
        if calls:
            results = tuple(self._result(told, state, request, at, call) for at, call in enumerate(calls))
            told.messages.append(Message(role="tool", parts=results))

    def answer(self, state: State, model_request_id: str, ref: str | None) -> Message | None:
        """What a model said; None if it cannot be read any more."""
        if (held := self._answers.get(model_request_id)) is not None:
            return held
        text = self._texts.get(ref)
        if text is None:
            return None
        call = state.model_calls.get(model_request_id)
        if call is None or not call.tool_call_count:
            return Message(role="assistant", parts=(TextPart(text=text),) if text else ())
        try:
            return Message.model_validate_json(text)
        except ValidationError:
            return None

    def _result(self, told: Conversation, state: State, request: str, at: int, part: ToolCallPart) -> ToolResultPart:
        found = latest_call(state, action_id(request, at))
        if found is None or found.ended_at is None:
            return ToolResultPart(call_id=part.call_id, text=NO_RESULT, is_error=True)
        failed = found.error is not None or found.success is False
        if found.result_ref is None:
            told_as = (found.error.message if found.error else None) or NO_RESULT
            return ToolResultPart(call_id=part.call_id, text=told_as, is_error=failed)
        tool = self._tools.find(part.name)
        text = self._texts.shown(found.result_ref, tool.result_policy if tool else "inline")
        if text is None:
            told.missing.append(found.result_ref)
            return ToolResultPart(call_id=part.call_id, text=UNREADABLE, is_error=True)
        return ToolResultPart(call_id=part.call_id, text=text, is_error=failed)


def is_system_work(turn: Turn) -> bool:
    """Whether the turn is the runtime's own, such as a compaction that was asked for."""
    return bool(turn.options and turn.options.get("operation"))


def calls_of(state: State, action: str) -> Iterator[ToolCall]:
    """The calls that were made to carry out an Action, the first one first."""
    attempt = 1
    while (found := state.tool_calls.get(call_id(action, attempt))) is not None:
        yield found
        attempt += 1


def latest_call(state: State, action: str) -> ToolCall | None:
    """The last call that was made to carry out an Action."""
    calls = list(calls_of(state, action))
    return calls[-1] if calls else None


def _turns_before(state: State, thread_id: str, turn_id: str) -> Iterator[Turn]:
    """Earlier turns of a thread, the newest first; those that wait behind this one are not earlier."""
    for _, name in state.lane("turns", thread_id).newest():
        turn = state.turns[name]
        if name != turn_id and turn.started_at is not None:
            yield turn


def _last_summary(state: State, thread_id: str) -> str | None:
    """Where the latest summary of a thread is kept, unless it was taken back."""
    context = state.contexts.get(thread_id)
    compaction = state.compactions.get(context.last_compaction_id or "") if context else None
    return compaction.summary_ref if compaction and compaction.item_number in state.items else None


def _system(system: str, summary: str | None, notes: list[str]) -> Message:
    parts = [TextPart(text=system)]
    if notes:
        lines = "\n".join(f"- {note}" for note in notes)
        parts.append(TextPart(text=f"\n\nYour notes in this session:\n{lines}"))
    if summary is not None:
        parts.append(TextPart(text=f"\n\nThe conversation before was summed up as follows:\n{summary}"))
    return Message(role="system", parts=tuple(parts))


def _characters(message: Message) -> int:
    return sum(_length(part) for part in message.parts)


def _length(part: TextPart | ToolCallPart | ToolResultPart | SealedPart) -> int:
    if isinstance(part, ToolCallPart):
        return len(part.name) + len(part.arguments)
    if isinstance(part, SealedPart):
        return len(orjson.dumps(part.block))
    return len(part.text)
