"""Facts about the context of a turn and its compaction."""

from typing import Annotated

from models.parts import Failed, Stated, Timed
from models.payload import Payload
from models.shape import Known, Shape
from models.values import Count, Refs


class ContextResolved(Timed, Payload, event_type="context.resolved"):
    """Context, memory, knowledge, sources or policies were selected for a turn."""

    required_on_emission = frozenset({"ref_count"})

    context_refs: Refs | None = None
    """What was selected of the conversation and workspace."""

    memory_refs: Refs | None = None
    """What was selected of memory."""

    knowledge_refs: Refs | None = None
    """What was selected of knowledge bases."""

    source_refs: Refs | None = None
    """The sources those came from."""

    policy_refs: Refs | None = None
    """The policies that apply."""

    ref_count: Count | None = None
    """How many refs were selected in all."""

    estimated_tokens: Count | None = None
    """How many tokens the context takes, by estimate."""

    warnings: tuple[str, ...] | None = None
    """What is doubtful about it."""

    missing: tuple[str, ...] | None = None
    """What was wanted and could not be had."""


class Compaction(Shape):
    """Which compaction a fact is about."""

    compaction_id: str | None = None
    """The compaction."""

    trigger: Annotated[str, Known("auto", "manual", "limit", "error")] | None = None
    """What set it off."""

    affected_turns: tuple[str, ...] | None = None
    """The turns that are summed up."""

    tokens_before: Count | None = None
    """Size of the context before, in tokens."""


class ContextCompactionStarted(Compaction, Payload, event_type="context.compaction.started"):
    """Compaction began."""

    required_on_emission = frozenset({"trigger"})


class ContextCompactionCompleted(Compaction, Stated, Timed, Payload, event_type="context.compaction.completed"):
    """Compaction ended, leaving a boundary."""

    required_on_emission = frozenset({"trigger", "summary_ref"})

    tokens_after: Count | None = None
    """Size of the context after, in tokens."""

    summary_ref: str | None = None
    """Where the summary is kept."""

    replacement_ref: str | None = None
    """What stands in the place of the summed-up turns."""

    continuation_ref: str | None = None
    """What the work goes on from, if it goes on elsewhere."""

    preserved_actions: tuple[str, ...] | None = None
    """Open decisions that stay open."""

    preserved_incidents: tuple[str, ...] | None = None
    """Incidents that stay visible."""

    preserved_artifact_refs: Refs | None = None
    """Deliverables that stay referenced."""

    preserved_evidence_refs: Refs | None = None
    """Proofs that stay referenced."""


class ContextCompactionFailed(Compaction, Failed, Timed, Payload, event_type="context.compaction.failed"):
    """Compaction failed; the context is as it was."""

    required_on_emission = frozenset({"trigger", "failure_category", "message"})

    consecutive_failures: Count | None = None
    """How often in a row it failed; past a bound it is not tried again."""
