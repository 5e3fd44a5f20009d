"""OpenAI's Chat Completions API: requests in its form, its streamed chunks read."""

from collections.abc import Iterator
from typing import Any

from models.values import Usage
from runtime.providers.failures import Call
from runtime.providers.openai_usage import InputDetails, OutputDetails, usage_of
from runtime.providers.provider import (
    Chunk,
    FinishChunk,
    Message,
    ModelRequest,
    ReasoningChunk,
    StopReason,
    TextChunk,
    ToolCallPart,
    ToolResultPart,
)
from runtime.providers.sdk_streams import Wire, parameters
from runtime.providers.tool_calls import ToolCalls

_STOPS: dict[str, StopReason] = {"length": "length", "tool_calls": "tool_call", "function_call": "tool_call"}


def body(request: ModelRequest) -> dict[str, Any]:
    """The arguments of the SDK's call."""
    told: dict[str, Any] = {
        "model": request.model,
        "messages": [line for message in request.messages for line in _lines(message)],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        told["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema},
            }
            for tool in request.tools
        ]
    if request.max_output_tokens is not None:
        told["max_completion_tokens"] = request.max_output_tokens
    return told | {"extra_body": parameters(request, told)}


def _lines(message: Message) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        for part in message.parts:
            if isinstance(part, ToolResultPart):
                yield {"role": "tool", "tool_call_id": part.call_id, "content": part.text}
        return
    line: dict[str, Any] = {"role": message.role, "content": message.text}
    calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
    if calls:
        line["content"] = message.text or None
        line["tool_calls"] = [
            {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    yield line


class _Function(Wire):
    name: str | None = None
    arguments: str | None = None


class _ToolCall(Wire):
    index: int
    id: str | None = None
    function: _Function | None = None


class _Delta(Wire):
    content: str | None = None
    refusal: str | None = None
    reasoning_content: object = None
    """Not OpenAI's: servers of open models stream reasoning here, or in `reasoning`."""

    reasoning: object = None
    tool_calls: tuple[_ToolCall, ...] | None = None


class _Choice(Wire):
    index: int = 0
    delta: _Delta
    finish_reason: str | None = None


class _Usage(Wire):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int | None = None
    prompt_tokens_details: InputDetails | None = None
    completion_tokens_details: OutputDetails | None = None


class _Chunk(Wire):
    id: str | None = None
    model: str | None = None
    choices: tuple[_Choice, ...]
    usage: _Usage | None = None


class ChatReader:
    """Reads the chunks of one completion."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._calls = ToolCalls()
        self._id: str | None = None
        self._model: str | None = None
        self._finish: str | None = None
        self._usage: Usage | None = None

    def usage(self) -> Usage | None:
        """The tokens told so far."""
        return self._usage

    def read(self, event: object) -> Iterator[Chunk]:
        """The chunks one event stands for."""
        chunk = _Chunk.model_validate(event)
        self._id, self._model = self._id or chunk.id, self._model or chunk.model
        if told := chunk.usage:
            self._usage = usage_of(
                told.prompt_tokens,
                told.completion_tokens,
                told.total_tokens,
                told.prompt_tokens_details,
                told.completion_tokens_details,
            )
        for choice in chunk.choices:
            if choice.index == 0:
                yield from self._delta(choice.delta)
                self._finish = choice.finish_reason or self._finish

    def _delta(self, delta: _Delta) -> Iterator[Chunk]:
        reasoning = delta.reasoning_content or delta.reasoning
        if isinstance(reasoning, str) and reasoning:
            yield ReasoningChunk(reasoning)
        text = delta.content or delta.refusal
        if text:
            yield TextChunk(text, 0)
        for piece in delta.tool_calls or ():
            yield from self._piece(piece)

    def _piece(self, piece: _ToolCall) -> Iterator[Chunk]:
        if piece.index not in self._calls:
            if not piece.id or piece.function is None or not piece.function.name:
                raise ValueError("a tool call begins without an id or a name")
            yield self._calls.begin(piece.index, piece.id, piece.function.name)
        if piece.function is not None:
            yield from self._calls.piece(piece.index, piece.function.arguments or "")

    def finish(self) -> Iterator[Chunk]:
        """What closes the answer, once the stream has ended."""
        if self._finish is None:
            raise self._call.failed("disconnected", "the stream ended before the answer did", usage=self._usage)
        if self._finish == "content_filter":
            raise self._call.failed("content_filter", usage=self._usage)
        yield from self._calls.end_all()
        calls = self._calls.parts()
        # Some servers say `stop` although the answer asks for tools; the calls themselves are the better witness.
        stop = _STOPS.get(self._finish, "tool_call" if calls else "stop")
        yield FinishChunk(stop, self._usage or Usage(), self._model, self._id, calls, self._finish)
