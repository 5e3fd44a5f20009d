"""Facts about history: loading, rebuilding and rolling back."""

from typing import Annotated

from models.parts import Stated, Timed
from models.payload import Payload
from models.shape import Known, Shape
from models.values import Count, Refs


class HistoryWindowLoaded(Timed, Payload, event_type="history.window.loaded"):
    """A bounded window of history was loaded."""

    required_on_emission = frozenset({"item_count"})

    window: Annotated[str, Known("shell", "recent", "active_thread", "queue_and_pending", "on_demand")] | None = None
    """Which part of the history it is."""

    from_sequence: Count | None = None
    """The first event in it."""

    to_sequence: Count | None = None
    """The last event in it."""

    item_count: Count | None = None
    """How many events or steps it has."""

    cursor: str | None = None
    """Where the next window begins."""

    has_more: bool | None = None
    """Whether there is more before it."""


class HistoryReconstructed(Stated, Timed, Payload, event_type="history.reconstructed"):
    """A session was rebuilt from durable records."""

    required_on_emission = frozenset({"event_count", "degraded"})

    source: str | None = None
    """What it was rebuilt from: the event log, a snapshot and the events after it, a file."""

    event_count: Count | None = None
    """How many events were read."""

    up_to_sequence: Count | None = None
    """The last event that was read."""

    baseline_ref: str | None = None
    """The snapshot or compaction it starts from."""

    alive_processes: tuple[str, ...] | None = None
    """Processes that may still be alive."""

    durable_output_refs: Refs | None = None
    """Outputs that are still there."""

    unrecoverable_refs: Refs | None = None
    """What could not be restored."""

    unresolved_actions: tuple[str, ...] | None = None
    """Decisions that are still open."""

    degraded: bool | None = None
    """Whether only a part could be restored."""


class Rollback(Shape):
    """Which rollback a fact is about."""

    rollback_id: str | None = None
    """The rollback."""

    target: str | None = None
    """What is gone back to: a turn, a checkpoint, an event."""

    removed_turns: tuple[str, ...] | None = None
    """The turns that no longer count."""

    reason: str | None = None
    """Why it is done."""


class HistoryRollbackStarted(Rollback, Payload, event_type="history.rollback.started"):
    """A rollback began."""

    required_on_emission = frozenset({"target"})

    requested_by: str | None = None
    """Who asked for it."""


class HistoryRollbackCompleted(Rollback, Stated, Timed, Payload, event_type="history.rollback.completed"):
    """A rollback ended."""

    required_on_emission = frozenset({"target", "removed_turns"})

    surviving_baseline: str | None = None
    """What the work goes on from."""

    affected_tools: tuple[str, ...] | None = None
    """Tool calls whose effects are not undone by it."""

    affected_artifacts: tuple[str, ...] | None = None
    """Deliverables it touches."""

    affected_subagents: tuple[str, ...] | None = None
    """Child agents it touches."""

    affected_jobs: tuple[str, ...] | None = None
    """Jobs it touches."""

    repair: str | None = None
    """What was or must be put right by hand."""

    degraded: bool | None = None
    """Whether only a part could be undone."""
