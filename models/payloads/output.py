"""Facts about large outputs and what happens to them."""

from typing import Annotated

from models.payload import Payload
from models.shape import JsonMap, Known, Shape, Timestamp
from models.values import Count, OutputRef


class SpillPolicy(Shape):
    """When an output is too large to travel in events."""

    max_event_payload_bytes: Count | None = None
    """The largest payload of an event, in bytes."""

    max_result_tokens: Count | None = None
    """The most a model is given of a result, in tokens."""

    head_bytes: Count | None = None
    """How much of the beginning is shown, in bytes."""

    tail_bytes: Count | None = None
    """How much of the end is shown, in bytes."""

    hook_limit_bytes: Count | None = None
    """The most a hook is given, in bytes."""

    binary_policy: str | None = None
    """What happens to content that is not text."""


class Produced(Shape):
    """Which output a fact is about."""

    output_ref: str | None = None
    """Where the output is kept."""

    output: OutputRef | None = None
    """What is known about the output."""

    source_kind: Annotated[str, Known("tool", "process", "model", "hook", "subagent", "job")] | None = None
    """What produced it."""


class OutputSpilled(Produced, Payload, event_type="output.spilled"):
    """An output was larger than may travel in events, and was stored."""

    required_on_emission = frozenset({"output_ref", "size_bytes"})

    size_bytes: Count | None = None
    """Size of the whole output in bytes."""

    inline_limit_bytes: Count | None = None
    """The most that may travel in an event, in bytes."""

    preview: str | None = None
    """A short beginning, safe to show."""

    policy: SpillPolicy | None = None
    """The rule that decided so."""


class OutputTruncated(Produced, Payload, event_type="output.truncated"):
    """An output was cut."""

    required_on_emission = frozenset({"original_bytes", "retained_bytes"})

    original_bytes: Count | None = None
    """Size before, in bytes."""

    retained_bytes: Count | None = None
    """Size after, in bytes."""

    original_tokens: Count | None = None
    """Size before, in tokens."""

    retained_tokens: Count | None = None
    """Size after, in tokens."""

    kept: Annotated[str, Known("head", "tail", "head_and_tail")] | None = None
    """Which part was kept."""

    reason: str | None = None
    """Why it was cut."""


class OutputRedacted(Produced, Payload, event_type="output.redacted"):
    """Content was removed or masked."""

    required_on_emission = frozenset({"redactions"})

    redactions: dict[str, Count] | None = None
    """How many places were masked, by the kind of secret."""

    rule_refs: tuple[str, ...] | None = None
    """The rules that asked for it."""

    reason: str | None = None
    """Why it was masked."""


class OutputExpired(Produced, Payload, event_type="output.expired"):
    """A stored output reached the end of its time."""

    required_on_emission = frozenset({"output_ref"})

    stored_at: Timestamp | None = None
    """When it was stored."""

    expired_at: Timestamp | None = None
    """When its time was up."""

    size_bytes: Count | None = None
    """Size of what was deleted, in bytes."""

    retention: JsonMap | None = None
    """The rule of retention, by the author's own keys."""
