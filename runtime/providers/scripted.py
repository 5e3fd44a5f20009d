"""The `scripted` provider: answers from a script, chosen by the conversation alone.

It remembers nothing between calls. Which turn and step comes next follows from the messages of the request, so a
runtime that was killed and started again gets the same answers as one that was not.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Iterator
from typing import NamedTuple

from models.values import Usage
from runtime.providers.provider import (
    Chunk,
    FinishChunk,
    LimitChunk,
    Message,
    ModelRequest,
    ProviderFailed,
    ReasoningChunk,
    ReasoningSummaryChunk,
    TextChunk,
    ToolArgsChunk,
    ToolCallChunk,
    ToolCallPart,
)
from runtime.providers.script import Script, ScriptedError, ScriptedTurn, Step

_CHARS_PER_TOKEN = 4


class Place(NamedTuple):
    """Where a conversation stands: the user text last said, how many there were, how often the model answered it."""

    said: tuple[str, ...]
    answers: int

    @property
    def mark(self) -> str:
        """A short name of the place, the same after a restart, another for every call of a session."""
        last = hashlib.sha256(self.said[-1].encode()).hexdigest()[:6] if self.said else "start"
        return f"{len(self.said)}_{self.answers + 1}_{last}"


def place_of(messages: tuple[Message, ...]) -> Place:
    """Read the place off the messages."""
    said = tuple(message.text for message in messages if message.role == "user")
    answers = 0
    for message in reversed(messages):
        if message.role == "user":
            break
        answers += message.role == "assistant"
    return Place(said, answers)


def step_at(script: Script, place: Place) -> Step:
    """The step a script has for a place; ProviderFailed if it has none."""
    last = place.said[-1] if place.said else ""
    keyed = [turn for turn in script.turns if turn.when is not None]
    turn = _fitting(keyed, last) or _next_in_order(script, place.said, keyed)
    if place.answers >= len(turn.steps):
        number = script.turns.index(turn) + 1
        raise ProviderFailed(
            "invalid_request",
            f"scripted: turn {number} of the script has {len(turn.steps)} steps, step {place.answers + 1} is asked for",
        )
    return turn.steps[place.answers]


def _fitting(keyed: list[ScriptedTurn], text: str) -> ScriptedTurn | None:
    return next((turn for turn in keyed if turn.when is not None and turn.when.fits(text)), None)


def _next_in_order(script: Script, said: tuple[str, ...], keyed: list[ScriptedTurn]) -> ScriptedTurn:
    ordered = [turn for turn in script.turns if turn.when is None]
    before = sum(_fitting(keyed, text) is None for text in said[:-1]) if keyed else max(0, len(said) - 1)
    if ordered and (before < len(ordered) or script.after_end == "repeat"):
        return ordered[before % len(ordered)]
    raise ProviderFailed("invalid_request", f"scripted: the script has no turn for user message {len(said)}")


class ScriptedProvider:
    """Plays a script."""

    name = "scripted"

    def __init__(self, script: Script) -> None:
        self._script = script

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Ask the script."""
        place = place_of(request.messages)
        step = step_at(self._script, place)
        error = step.error if step.error and step.error.strikes(request.model, request.attempt_index) else None
        answer = list(self._pieces(step, place))
        if step.limits and not (error and error.after_pieces == 0):
            yield LimitChunk(step.limits)
        for sent, chunk in enumerate(answer):
            if error and sent >= error.after_pieces:
                break
            if step.delay_ms:
                await asyncio.sleep(step.delay_ms / 1000)
            yield chunk
        if error:
            raise _failure(error)
        yield self._finish(request, step, place)

    async def close(self) -> None:
        """There is nothing to let go of."""

    def _cut(self, texts: tuple[str, ...]) -> Iterator[str]:
        size = self._script.piece_chars
        if size is None or len(texts) != 1:
            return iter(texts)
        return (texts[0][start : start + size] for start in range(0, len(texts[0]), size))

    def _pieces(self, step: Step, place: Place) -> Iterator[Chunk]:
        for text in self._cut(step.reasoning):
            yield ReasoningChunk(text)
        if step.reasoning_withheld:
            yield ReasoningChunk("", redacted=True)
        if step.reasoning_summary is not None:
            yield ReasoningSummaryChunk(step.reasoning_summary)
        for text in self._cut(step.text):
            yield TextChunk(text, 0)
        for index, call in enumerate(_calls(step, place)):
            yield ToolCallChunk(index, call.call_id, call.name)
            for text in self._cut((call.arguments,)):
                yield ToolArgsChunk(index, text)

    def _finish(self, request: ModelRequest, step: Step, place: Place) -> FinishChunk:
        calls = _calls(step, place)
        stop = step.stop_reason or ("tool_call" if calls else "stop")
        usage = _counted(request, step, calls) if step.usage == "counted" else step.usage or Usage()
        return FinishChunk(stop, usage, self._script.model or request.model, f"resp_{place.mark}", calls, stop)


def _calls(step: Step, place: Place) -> tuple[ToolCallPart, ...]:
    return tuple(
        ToolCallPart(
            call_id=call.id or f"call_{place.mark}_{index + 1}",
            name=call.name,
            arguments=call.arguments
            if isinstance(call.arguments, str)
            else json.dumps(call.arguments, ensure_ascii=False, separators=(",", ":")),
        )
        for index, call in enumerate(step.tool_calls)
    )


def _failure(error: ScriptedError) -> ProviderFailed:
    return ProviderFailed(
        error.category,
        f"scripted: {error.category.replace('_', ' ')}{f' (HTTP {error.status})' if error.status else ''}",
        retryable=error.retryable,
        http_status=error.status,
        retry_after_ms=error.retry_after_ms,
        limits=error.limits,
        usage=error.usage,
    )


def _counted(request: ModelRequest, step: Step, calls: tuple[ToolCallPart, ...]) -> Usage:
    asked = sum(len(_said(part)) for message in request.messages for part in message.parts)
    thought = sum(map(len, step.reasoning))
    made = thought + sum(map(len, step.text)) + sum(len(call.name) + len(call.arguments) for call in calls)
    return Usage(uncached_input_tokens=_tokens(asked), output_tokens=_tokens(made), reasoning_tokens=_tokens(thought))


def _said(part: object) -> str:
    if isinstance(part, ToolCallPart):
        return part.name + part.arguments
    return str(getattr(part, "text", ""))


def _tokens(chars: int) -> int:
    return -(-chars // _CHARS_PER_TOKEN)


__all__ = ["Place", "ScriptedProvider", "place_of", "step_at"]
