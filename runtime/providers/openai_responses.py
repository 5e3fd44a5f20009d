"""OpenAI's Responses API: requests in its form, its typed events read."""

from collections.abc import Callable, Iterator
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
    ReasoningSummaryChunk,
    StopReason,
    TextChunk,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from runtime.providers.sdk_streams import Wire, parameters
from runtime.providers.tool_calls import ToolCalls


def body(request: ModelRequest) -> dict[str, Any]:
    """The arguments of the SDK's call; the provider is told to keep nothing."""
    told: dict[str, Any] = {
        "model": request.model,
        "input": [item for message in request.messages for item in _items(message)],
        "stream": True,
        "store": False,
    }
    if request.tools:
        told["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.input_schema,
                "strict": False,
            }
            for tool in request.tools
        ]
    if request.max_output_tokens is not None:
        told["max_output_tokens"] = request.max_output_tokens
    return told | {"extra_body": parameters(request, told)}


def _items(message: Message) -> Iterator[dict[str, Any]]:
    for part in message.parts:
        if isinstance(part, TextPart) and part.text:
            yield {"role": message.role, "content": part.text}
        elif isinstance(part, ToolCallPart):
            yield {
                "type": "function_call",
                "call_id": part.call_id,
                "name": part.name,
                "arguments": part.arguments,
            }
        elif isinstance(part, ToolResultPart):
            yield {"type": "function_call_output", "call_id": part.call_id, "output": part.text}


class _Event(Wire):
    type: str


class _Item(Wire):
    type: str
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    encrypted_content: str | None = None


class _ItemEvent(Wire):
    output_index: int
    item: _Item


class _Piece(Wire):
    output_index: int
    content_index: int = 0
    delta: str


class _Arguments(Wire):
    output_index: int
    arguments: str


class _Summary(Wire):
    output_index: int
    text: str


class _Usage(Wire):
    input_tokens: int
    output_tokens: int
    total_tokens: int | None = None
    input_tokens_details: InputDetails | None = None
    output_tokens_details: OutputDetails | None = None


class _Error(Wire):
    code: str | None = None
    message: str | None = None


class _Incomplete(Wire):
    reason: str | None = None


class _Response(Wire):
    id: str | None = None
    model: str | None = None
    error: _Error | None = None
    incomplete_details: _Incomplete | None = None
    usage: _Usage | None = None


class _Ended(Wire):
    response: _Response


class ResponsesReader:
    """Reads the events of one response."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._calls = ToolCalls()
        self._texts: dict[tuple[int, int], int] = {}
        self._open_reasoning: set[int] = set()
        self._usage: Usage | None = None
        self._end: FinishChunk | None = None
        self._read: dict[str, Callable[[object], Iterator[Chunk]]] = {
            "response.output_item.added": self._item_added,
            "response.output_item.done": self._item_done,
            "response.output_text.delta": self._text,
            "response.refusal.delta": self._text,
            "response.reasoning_text.delta": self._reasoning,
            "response.reasoning_summary_text.done": self._summary,
            "response.function_call_arguments.delta": self._arguments,
            "response.function_call_arguments.done": self._arguments_done,
            "response.completed": self._ended,
            "response.incomplete": self._ended,
            "response.failed": self._failed,
            "error": self._error,
        }

    def usage(self) -> Usage | None:
        """The tokens told so far."""
        return self._usage

    def read(self, event: object) -> Iterator[Chunk]:
        """The chunks one event stands for; kinds of event we have no use for stand for none."""
        reads = self._read.get(_Event.model_validate(event).type)
        return reads(event) if reads else iter(())

    def _item_added(self, event: object) -> Iterator[Chunk]:
        told = _ItemEvent.model_validate(event)
        if told.item.type == "function_call":
            yield from self._begin(told)

    def _begin(self, told: _ItemEvent) -> Iterator[Chunk]:
        if not told.item.call_id or not told.item.name:
            raise ValueError("a tool call begins without an id or a name")
        yield self._calls.begin(told.output_index, told.item.call_id, told.item.name)

    def _item_done(self, event: object) -> Iterator[Chunk]:
        told = _ItemEvent.model_validate(event)
        if told.item.type == "function_call":
            if told.output_index not in self._calls:
                yield from self._begin(told)
            yield from self._calls.end(told.output_index, told.item.arguments or "")
        elif told.item.type == "reasoning" and told.output_index not in self._open_reasoning:
            yield ReasoningChunk("", redacted=True)

    def _text(self, event: object) -> Iterator[Chunk]:
        piece = _Piece.model_validate(event)
        index = self._texts.setdefault((piece.output_index, piece.content_index), len(self._texts))
        if piece.delta:
            yield TextChunk(piece.delta, index)

    def _reasoning(self, event: object) -> Iterator[Chunk]:
        piece = _Piece.model_validate(event)
        self._open_reasoning.add(piece.output_index)
        if piece.delta:
            yield ReasoningChunk(piece.delta)

    def _summary(self, event: object) -> Iterator[Chunk]:
        told = _Summary.model_validate(event)
        self._open_reasoning.add(told.output_index)
        if told.text:
            yield ReasoningSummaryChunk(told.text)

    def _arguments(self, event: object) -> Iterator[Chunk]:
        piece = _Piece.model_validate(event)
        return self._calls.piece(piece.output_index, piece.delta)

    def _arguments_done(self, event: object) -> Iterator[Chunk]:
        told = _Arguments.model_validate(event)
        return self._calls.end(told.output_index, told.arguments) if told.output_index in self._calls else iter(())

    def _ended(self, event: object) -> Iterator[Chunk]:
        response = self._noted(event)
        reason = response.incomplete_details.reason if response.incomplete_details else None
        if reason == "content_filter":
            raise self._call.failed("content_filter", usage=self._usage)
        calls = self._calls.parts()
        stop: StopReason = "length" if reason else "tool_call" if calls else "stop"
        native = reason or "completed"
        self._end = FinishChunk(stop, self._usage or Usage(), response.model, response.id, calls, native)
        return iter(())

    def _failed(self, event: object) -> Iterator[Chunk]:
        response = self._noted(event)
        raise self._call.refused(response.error.model_dump() if response.error else None, usage=self._usage)

    def _noted(self, event: object) -> _Response:
        response = _Ended.model_validate(event).response
        if told := response.usage:
            self._usage = usage_of(
                told.input_tokens,
                told.output_tokens,
                told.total_tokens,
                told.input_tokens_details,
                told.output_tokens_details,
            )
        return response

    def _error(self, event: object) -> Iterator[Chunk]:
        raise self._call.refused(_Error.model_validate(event).model_dump(), usage=self._usage)

    def finish(self) -> Iterator[Chunk]:
        """What closes the answer, once the stream has ended."""
        if self._end is None:
            raise self._call.failed("disconnected", "the stream ended before the answer did", usage=self._usage)
        yield self._end
