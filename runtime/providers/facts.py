"""The normalized chunks of a stream, and its end, as the facts the runtime records."""

from models.payload import Payload
from models.payloads.model import ModelCompleted, ModelDelta, ModelFailed
from models.payloads.reasoning import ReasoningDelta, ReasoningSummary
from runtime.providers.provider import (
    Chunk,
    FinishChunk,
    ProviderFailed,
    ReasoningChunk,
    ReasoningSummaryChunk,
    TextChunk,
    ToolArgsChunk,
)

_PREVIEW_CHARS = 200


def fact(chunk: Chunk, index: int) -> Payload | None:
    """The fact one chunk is, `index` being its place among the pieces; None for those that are facts of others."""
    match chunk:
        case TextChunk(text, content_index):
            return ModelDelta(text=text, kind="text", index=index, content_index=content_index, chars=len(text))
        case ToolArgsChunk(call_index, text):
            return ModelDelta(text=text, kind="tool_args", index=index, content_index=call_index, chars=len(text))
        case ReasoningChunk(text, redacted):
            return ReasoningDelta(text=text, index=index, chars=len(text), redacted=redacted)
        case ReasoningSummaryChunk(text):
            return ReasoningSummary(summary_preview=text[:_PREVIEW_CHARS], chars=len(text))
        case _:
            return None


def completed(
    finish: FinishChunk, *, provider: str, model: str, duration_ms: float, first_token_ms: float | None
) -> ModelCompleted:
    """The end of a call; references and cost are the caller's to add."""
    return ModelCompleted(
        provider_name=provider,
        model_name=model,
        status="completed",
        response_model=finish.response_model if finish.response_model != model else None,
        response_id=finish.response_id,
        stop_reason=finish.stop_reason,
        usage=finish.usage,
        duration_ms=duration_ms,
        time_to_first_token_ms=first_token_ms,
        tool_call_count=len(finish.tool_calls),
    )


def failed(error: ProviderFailed, *, provider: str, model: str, duration_ms: float) -> ModelFailed:
    """The failure of a call; its cost is the caller's to add."""
    return ModelFailed(
        provider_name=provider,
        model_name=model,
        status="failed",
        failure_category=error.category,
        message=error.message,
        error_code=error.error_code,
        retryable=error.retryable,
        http_status=error.http_status,
        retry_after_ms=error.retry_after_ms,
        usage=error.usage,
        duration_ms=duration_ms,
    )
