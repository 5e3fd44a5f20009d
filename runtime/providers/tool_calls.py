"""Tool calls of one answer, put together from the pieces in which a provider streams them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from runtime.providers.provider import Chunk, ToolArgsChunk, ToolCallChunk, ToolCallPart


@dataclass
class _Call:
    index: int
    call_id: str
    name: str
    pieces: list[str] = field(default_factory=list)


class ToolCalls:
    """Gives each call its place among the calls, whatever key the provider uses for it."""

    def __init__(self) -> None:
        self._calls: dict[int, _Call] = {}

    def __contains__(self, key: int) -> bool:
        return key in self._calls

    def begin(self, key: int, call_id: str, name: str) -> ToolCallChunk:
        """A call starts."""
        call = _Call(len(self._calls), call_id, name)
        self._calls[key] = call
        return ToolCallChunk(call.index, call_id, name)

    def piece(self, key: int, text: str) -> Iterator[Chunk]:
        """A piece of arguments arrived; some providers open with an empty one. Unknown keys are a ValueError."""
        if key not in self._calls:
            raise ValueError("arguments of a tool call that never began")
        if text:
            call = self._calls[key]
            call.pieces.append(text)
            yield ToolArgsChunk(call.index, text)

    def end(self, key: int, whole: str = "{}") -> Iterator[Chunk]:
        """A call is complete; `whole` stands in where no piece was streamed, as for a call without arguments."""
        call = self._calls[key]
        if not call.pieces:
            yield from self.piece(key, whole or "{}")

    def end_all(self) -> Iterator[Chunk]:
        """All calls are complete."""
        for key in self._calls:
            yield from self.end(key)

    def parts(self) -> tuple[ToolCallPart, ...]:
        """The calls as the answer holds them."""
        return tuple(
            ToolCallPart(call_id=call.call_id, name=call.name, arguments="".join(call.pieces))
            for call in self._calls.values()
        )
