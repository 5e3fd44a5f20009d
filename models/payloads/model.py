"""Facts about calls to model providers."""

from typing import Annotated

from models.parts import Failed, ModelNamed, Stated, Timed
from models.payload import Payload
from models.shape import JsonMap, Known
from models.values import Amount, Cost, Count, Usage


class ModelRequested(ModelNamed, Stated, Payload, event_type="model.requested"):
    """A call to a provider started."""

    required_on_emission = frozenset({"provider_name", "model_name"})

    provider_selector: str | None = None
    """How the provider was chosen: the selector as the settings spell it."""

    operation: str | None = None
    """What is asked for, such as `chat` or `embeddings`."""

    request_ref: str | None = None
    """Where the whole request is kept."""

    input_chars: Count | None = None
    """Length of the prompt in characters."""

    message_count: Count | None = None
    """How many messages the prompt has."""

    tool_count: Count | None = None
    """How many tools were offered."""

    streaming: bool | None = None
    """Whether the answer was asked for in pieces."""

    parameters: JsonMap | None = None
    """Settings of the call, such as `temperature`, by the provider's own keys."""

    attempt_index: Count | None = None
    """Which try of the same call it is, the first being 1."""


class ModelDelta(Payload, event_type="model.delta"):
    """A piece of text or structured output arrived."""

    text: str | None = None
    """The piece itself."""

    kind: Annotated[str, Known("text", "json", "tool_args")] | None = None
    """What the piece is a piece of."""

    index: Count | None = None
    """Its place among the pieces, from 0."""

    content_index: Count | None = None
    """Which content block it belongs to, from 0."""

    chars: Count | None = None
    """Length of the piece in characters; told also where the text is not kept."""

    output_ref: str | None = None
    """Where the whole output is kept."""


class ModelCompleted(ModelNamed, Stated, Timed, Payload, event_type="model.completed"):
    """The call to the provider ended."""

    required_on_emission = frozenset({"provider_name", "model_name", "stop_reason", "usage", "duration_ms"})

    response_model: str | None = None
    """The model that answered, if it is not the one asked for."""

    response_id: str | None = None
    """The provider's name for the answer."""

    stop_reason: str | None = None
    """Why the model stopped, as the provider says it."""

    usage: Usage | None = None
    """Tokens used."""

    cost: Cost | None = None
    """What it cost, and how we know."""

    time_to_first_token_ms: Amount | None = None
    """From the request to the first piece of output, in milliseconds."""

    output_ref: str | None = None
    """Where the whole answer is kept."""

    output_chars: Count | None = None
    """Length of the answer in characters."""

    tool_call_count: Count | None = None
    """How many tool calls the answer asks for."""


class ModelFailed(ModelNamed, Failed, Timed, Payload, event_type="model.failed"):
    """The call to the provider failed."""

    required_on_emission = frozenset({"provider_name", "model_name", "failure_category", "message", "retryable"})

    http_status: Count | None = None
    """The HTTP status of the provider's answer."""

    retry_after_ms: Amount | None = None
    """How long the provider asks to wait, in milliseconds."""

    usage: Usage | None = None
    """Tokens used all the same."""

    cost: Cost | None = None
    """What it cost all the same."""
