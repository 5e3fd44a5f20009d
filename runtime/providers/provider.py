"""What the runtime and a model provider say to each other: a request, a normalized stream of chunks, a failure."""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol, Self

from pydantic import Field, model_validator

from models.errors import TachographError
from models.shape import JsonMap, Shape
from models.values import LimitState, Usage

Role = Literal["system", "user", "assistant", "tool"]

StopReason = Literal["stop", "tool_call", "length", "pause"]
"""Why the model stopped: done, wants tools, ran into a token limit, will go on when asked."""

Category = Literal[
    "rate_limited",
    "overloaded",
    "auth",
    "invalid_request",
    "context_length",
    "content_filter",
    "timeout",
    "disconnected",
    "malformed",
    "quota",
    "server_error",
]

RETRYABLE: frozenset[Category] = frozenset(
    {"rate_limited", "overloaded", "timeout", "disconnected", "malformed", "server_error"}
)
"""The failures after which the very same request may succeed."""


class TextPart(Shape):
    """Plain text."""

    kind: Literal["text"] = "text"
    text: str


class ToolCallPart(Shape):
    """A tool call the model asked for."""

    kind: Literal["tool_call"] = "tool_call"
    call_id: str
    name: str

    arguments: str
    """The arguments as the model wrote them: JSON text, unless the model erred."""


class ToolResultPart(Shape):
    """What a tool call gave back."""

    kind: Literal["tool_result"] = "tool_result"
    call_id: str
    text: str
    is_error: bool = False


class SealedPart(Shape):
    """A block of private reasoning that its provider demands back, unread, while the turn's tool calls are answered.

    It goes into the assistant message it came with. A provider sends back only its own, only after the last user
    message, and only if its API refuses the request otherwise; every other provider leaves it out.
    """

    kind: Literal["sealed"] = "sealed"
    provider: str
    block: JsonMap


Part = Annotated[TextPart | ToolCallPart | ToolResultPart | SealedPart, Field(discriminator="kind")]

_PARTS: dict[Role, tuple[type[Shape], ...]] = {
    "system": (TextPart,),
    "user": (TextPart,),
    "assistant": (TextPart, ToolCallPart, SealedPart),
    "tool": (ToolResultPart,),
}


class Message(Shape):
    """One message of the conversation."""

    role: Role
    parts: tuple[Part, ...]

    @model_validator(mode="after")
    def _parts_fit_the_role(self) -> Self:
        for part in self.parts:
            if not isinstance(part, _PARTS[self.role]):
                raise ValueError(f"a {self.role} message holds no {part.kind} part")
        return self

    @property
    def text(self) -> str:
        """Its text parts, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))


class ToolSpec(Shape):
    """A tool the model may call."""

    name: str
    description: str
    input_schema: JsonMap


class ModelRequest(Shape):
    """One call of a model."""

    model: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_output_tokens: int | None = None

    parameters: JsonMap | None = None
    """Further settings of the call, by the provider's own keys; passed on as they are."""

    attempt_index: Annotated[int, Field(ge=1)] = 1
    """Which try of the same call it is; told by the caller, so that a scripted failure ends even after a restart."""


@dataclass(frozen=True, slots=True)
class TextChunk:
    """A piece of the answer's text; `content_index` counts its text blocks, from 0."""

    text: str
    content_index: int


@dataclass(frozen=True, slots=True)
class ReasoningChunk:
    """A piece of reasoning; `redacted` and without text where the provider withholds it."""

    text: str
    redacted: bool = False


@dataclass(frozen=True, slots=True)
class ReasoningSummaryChunk:
    """A whole summary of reasoning, written by the provider."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallChunk:
    """A tool call begins; `index` counts the calls of the answer, from 0."""

    index: int
    call_id: str
    name: str


@dataclass(frozen=True, slots=True)
class ToolArgsChunk:
    """A piece of a tool call's arguments, as JSON text."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class LimitChunk:
    """Where the provider's limits stand, told with the answer."""

    limits: tuple[LimitState, ...]


@dataclass(frozen=True, slots=True)
class FinishChunk:
    """The answer is whole; always the last chunk."""

    stop_reason: StopReason
    usage: Usage
    response_model: str | None
    response_id: str | None
    tool_calls: tuple[ToolCallPart, ...] = ()

    native_stop_reason: str | None = None
    """The reason as the provider spells it."""

    sealed: tuple[SealedPart, ...] = ()
    """Blocks to put into the assistant message that holds `tool_calls`, before them."""


Chunk = TextChunk | ReasoningChunk | ReasoningSummaryChunk | ToolCallChunk | ToolArgsChunk | LimitChunk | FinishChunk


class ProviderFailed(TachographError):
    """A call of a model failed. The message is ours: a provider's own words may repeat a key or the prompt."""

    def __init__(
        self,
        category: Category,
        message: str,
        *,
        retryable: bool | None = None,
        error_code: str | None = None,
        http_status: int | None = None,
        retry_after_ms: float | None = None,
        limits: tuple[LimitState, ...] = (),
        usage: Usage | None = None,
        next_step: str | None = None,
    ) -> None:
        super().__init__(message, next_step=next_step)
        self.category = category
        self.retryable = category in RETRYABLE if retryable is None else retryable
        self.error_code = error_code
        self.http_status = http_status
        self.retry_after_ms = retry_after_ms
        self.limits = limits
        self.usage = usage


class Provider(Protocol):
    """Something that answers requests.

    `stream` yields chunks and ends with one FinishChunk, or raises ProviderFailed; it never retries. Whoever stops
    listening early closes the generator (`contextlib.aclosing`), which ends the request at once.
    """

    @property
    def name(self) -> str:
        """Who it is, as events name it."""

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Ask the model."""

    async def close(self) -> None:
        """Let go of connections."""
