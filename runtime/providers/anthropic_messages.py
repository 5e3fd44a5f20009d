"""Anthropic's Messages API: requests in its form, its streamed content blocks read."""

import json
from collections.abc import Iterator
from typing import Any

from models.values import Usage
from runtime.providers.failures import Call
from runtime.providers.provider import (
    Chunk,
    FinishChunk,
    Message,
    ModelRequest,
    ReasoningChunk,
    SealedPart,
    StopReason,
    TextChunk,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from runtime.providers.sdk_streams import Wire, parameters
from runtime.providers.tool_calls import ToolCalls

PROVIDER = "anthropic"
_STOPS: dict[str, StopReason] = {
    "tool_use": "tool_call",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "pause",
}


def body(request: ModelRequest, default_max_tokens: int) -> dict[str, Any]:
    """The arguments of the SDK's call."""
    told: dict[str, Any] = {
        "model": request.model,
        "messages": _turns(request.messages),
        "max_tokens": request.max_output_tokens or default_max_tokens,
        "stream": True,
    }
    system = [{"type": "text", "text": message.text} for message in request.messages if message.role == "system"]
    if system:
        told["system"] = system
    if request.tools:
        told["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema}
            for tool in request.tools
        ]
    further = parameters(request, told)
    if _thinking_would_be_refused(further, request.messages):
        del further["thinking"]
    return told | {"extra_body": further}


def _open_tool_loop(messages: tuple[Message, ...]) -> int:
    """Where the messages after the last user message begin: the part for which the API wants its thinking back."""
    users = [place for place, message in enumerate(messages) if message.role == "user"]
    return users[-1] + 1 if users else 0


def _thinking_would_be_refused(further: dict[str, Any], messages: tuple[Message, ...]) -> bool:
    """Whether thinking with a budget is asked for while an unfinished tool loop has lost the blocks it began with.

    That happens when another provider made the calls. The API refuses such a request; without thinking it answers.
    """
    thinking = further.get("thinking")
    if not isinstance(thinking, dict) or thinking.get("type") != "enabled":
        return False
    calling = [
        message
        for message in messages[_open_tool_loop(messages) :]
        if message.role == "assistant" and any(isinstance(part, ToolCallPart) for part in message.parts)
    ]
    return any(not any(_is_own_seal(part) for part in message.parts) for message in calling)


def _is_own_seal(part: object) -> bool:
    return isinstance(part, SealedPart) and part.provider == PROVIDER


def _turns(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """User and assistant turns in alternation: tool results, and what the user says with them, are one user turn."""
    turns: list[dict[str, Any]] = []
    begin = _open_tool_loop(messages)
    for place, message in enumerate(messages):
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        blocks = [block for part in message.parts for block in _blocks(part, sealed=place >= begin)]
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"].extend(blocks)
        elif blocks:
            turns.append({"role": role, "content": blocks})
    return turns


def _blocks(part: object, *, sealed: bool) -> Iterator[dict[str, Any]]:
    if isinstance(part, TextPart) and part.text:  # the API refuses empty text
        yield {"type": "text", "text": part.text}
    elif isinstance(part, ToolCallPart):
        yield {"type": "tool_use", "id": part.call_id, "name": part.name, "input": _input(part.arguments)}
    elif isinstance(part, ToolResultPart):
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": part.call_id, "content": part.text}
        yield block | {"is_error": True} if part.is_error else block
    elif isinstance(part, SealedPart) and sealed and part.provider == PROVIDER:
        yield dict(part.block)


def _input(arguments: str) -> dict[str, Any]:
    """Arguments as the object the API wants; what the model wrote otherwise is shown to it as it was."""
    try:
        value = json.loads(arguments)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"unparsed_arguments": arguments}


class _Event(Wire):
    type: str


class _CacheWrites(Wire):
    ephemeral_5m_input_tokens: int | None = None
    ephemeral_1h_input_tokens: int | None = None


class _OutputDetails(Wire):
    thinking_tokens: int | None = None


class _Usage(Wire):
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: _CacheWrites | None = None
    output_tokens: int | None = None
    output_tokens_details: _OutputDetails | None = None

    def split(self) -> dict[str, int | None]:
        """Its counts by our names; Anthropic's three input counts do not overlap either."""
        writes, made = self.cache_creation, self.output_tokens_details
        return {
            "uncached_input_tokens": self.input_tokens,
            "cache_read_tokens": self.cache_read_input_tokens,
            "cache_write_tokens": self.cache_creation_input_tokens,
            "cache_write_5m_tokens": writes.ephemeral_5m_input_tokens if writes else None,
            "cache_write_1h_tokens": writes.ephemeral_1h_input_tokens if writes else None,
            "output_tokens": self.output_tokens,
            "reasoning_tokens": made.thinking_tokens if made else None,
        }


class _Started(Wire):
    class Message(Wire):
        """The message that begins."""

        id: str | None = None
        model: str | None = None
        usage: _Usage | None = None

    message: Message


class _Block(Wire):
    type: str
    id: str | None = None
    name: str | None = None
    input: object = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None


class _BlockStarted(Wire):
    index: int
    content_block: _Block


class _Delta(Wire):
    type: str
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None


class _BlockDelta(Wire):
    index: int
    delta: _Delta


class _BlockStopped(Wire):
    index: int


class _Ending(Wire):
    class Reason(Wire):
        """Why the message ends."""

        stop_reason: str | None = None

    delta: Reason
    usage: _Usage | None = None


class MessagesReader:
    """Reads the events of one message."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._calls = ToolCalls()
        self._blocks: dict[int, _Block] = {}
        self._texts: dict[int, int] = {}
        self._thoughts: dict[int, dict[str, str]] = {}
        self._counts: dict[str, int | None] = {}
        self._id: str | None = None
        self._model: str | None = None
        self._stop: str | None = None
        self._read = {
            "message_start": self._started,
            "content_block_start": self._block_started,
            "content_block_delta": self._block_delta,
            "content_block_stop": self._block_stopped,
            "message_delta": self._ending,
        }

    def usage(self) -> Usage | None:
        """The tokens told so far."""
        return Usage.model_validate(self._counts) if self._counts else None

    def read(self, event: object) -> Iterator[Chunk]:
        """The chunks one event stands for; kinds of event we have no use for stand for none."""
        reads = self._read.get(_Event.model_validate(event).type)
        return reads(event) if reads else iter(())

    def _started(self, event: object) -> Iterator[Chunk]:
        message = _Started.model_validate(event).message
        self._id, self._model = message.id, message.model
        self._count(message.usage)
        return iter(())

    def _count(self, usage: _Usage | None) -> None:
        """Later counts replace earlier ones: they are running totals, and may leave out what did not change."""
        told = usage.split() if usage else {}
        self._counts |= {name: count for name, count in told.items() if count is not None}

    def _block_started(self, event: object) -> Iterator[Chunk]:
        told = _BlockStarted.model_validate(event)
        block, index = told.content_block, told.index
        self._blocks[index] = block
        if block.type == "text":
            self._texts[index] = len(self._texts)
            if block.text:
                yield TextChunk(block.text, self._texts[index])
        elif block.type == "tool_use":
            if not block.id or not block.name:
                raise ValueError("a tool call begins without an id or a name")
            yield self._calls.begin(index, block.id, block.name)
        elif block.type == "thinking":
            self._thoughts[index] = {"thinking": block.thinking or "", "signature": block.signature or ""}
            if block.thinking:
                yield ReasoningChunk(block.thinking)
        elif block.type == "redacted_thinking":
            yield ReasoningChunk("", redacted=True)

    def _block_delta(self, event: object) -> Iterator[Chunk]:
        told = _BlockDelta.model_validate(event)
        index, delta = told.index, told.delta
        if index not in self._blocks:
            raise ValueError("a piece of a block that never began")
        if delta.type == "text_delta" and delta.text and index in self._texts:
            yield TextChunk(delta.text, self._texts[index])
        elif delta.type == "input_json_delta" and index in self._calls:
            yield from self._calls.piece(index, delta.partial_json or "")
        elif delta.type == "thinking_delta" and index in self._thoughts and delta.thinking:
            self._thoughts[index]["thinking"] += delta.thinking
            yield ReasoningChunk(delta.thinking)
        elif delta.type == "signature_delta" and index in self._thoughts:
            self._thoughts[index]["signature"] += delta.signature or ""

    def _block_stopped(self, event: object) -> Iterator[Chunk]:
        index = _BlockStopped.model_validate(event).index
        if index in self._calls:
            whole = self._blocks[index].input
            yield from self._calls.end(index, json.dumps(whole, separators=(",", ":")) if whole else "{}")
        elif index in self._thoughts and not self._thoughts[index]["thinking"]:
            yield ReasoningChunk("", redacted=True)

    def _ending(self, event: object) -> Iterator[Chunk]:
        told = _Ending.model_validate(event)
        self._stop = told.delta.stop_reason or self._stop
        self._count(told.usage)
        return iter(())

    def _sealed(self) -> Iterator[SealedPart]:
        for index, block in self._blocks.items():
            if block.type == "thinking":
                yield SealedPart(provider=PROVIDER, block={"type": "thinking", **self._thoughts[index]})
            elif block.type == "redacted_thinking":
                yield SealedPart(provider=PROVIDER, block={"type": "redacted_thinking", "data": block.data or ""})

    def finish(self) -> Iterator[Chunk]:
        """What closes the answer, once the stream has ended."""
        if self._stop is None:
            raise self._call.failed("disconnected", "the stream ended before the answer did", usage=self.usage())
        if self._stop == "refusal":
            raise self._call.failed("content_filter", usage=self.usage())
        calls = self._calls.parts()
        yield FinishChunk(
            _STOPS.get(self._stop, "stop"),
            self.usage() or Usage(),
            self._model,
            self._id,
            calls,
            self._stop,
            tuple(self._sealed()) if calls else (),
        )
