"""Facts about reasoning outside the final answer."""

from models.payload import Payload
from models.values import Count


class ReasoningDelta(Payload, event_type="reasoning.delta"):
    """A piece of reasoning or planning text arrived."""

    text: str | None = None
    """The piece itself."""

    index: Count | None = None
    """Its place among the pieces, from 0."""

    chars: Count | None = None
    """Length of the piece in characters; told also where the text is not kept."""

    redacted: bool | None = None
    """Whether the provider withholds the text."""

    output_ref: str | None = None
    """Where the whole reasoning is kept."""


class ReasoningSummary(Payload, event_type="reasoning.summary"):
    """A summary of the reasoning was produced."""

    summary_preview: str | None = None
    """The beginning of the summary, safe to show."""

    summary_ref: str | None = None
    """Where the whole summary is kept."""

    chars: Count | None = None
    """Length of the summary in characters."""

    reasoning_tokens: Count | None = None
    """Tokens spent on the reasoning."""
