"""Records of tasks, of the choice of models and its cost, and of the context."""

from typing import Any

from models.shape import Timestamp
from models.summaries import CompactionSummary
from models.task_values import Attempt, Edge, TaskRecord, Worker
from models.values import CandidateModelSet, Cost, Fault, LimitState, Refs, RoutingDecision, TaskProfile, Usage
from views.state.record import Record


class TaskState(TaskRecord, Record, family="tasks"):
    """A task. Its tries, edges, artifacts and proofs are in lanes; `State.task(id)` puts them together."""

    waiting_for: str | None = None
    action_id: str | None = None
    """The decision it waits for."""

    resource: str | None = None
    depends_on: tuple[str, ...] | None = None
    wait_until: Timestamp | None = None
    blocker_kind: str | None = None
    blocker_id: str | None = None
    cancel_requested_at: Timestamp | None = None
    cancel_propagation: Any = None
    pause_propagation: Any = None
    next_attempt_index: int | None = None
    retry_not_before: Timestamp | None = None
    queue_id: str | None = None
    position: int | None = None
    not_before: Timestamp | None = None
    worker: Worker | None = None
    last_seen_at: Timestamp | None = None
    last_activity_at: Timestamp | None = None
    """When the last fact that names this task happened."""

    completed_by: str | None = None
    completion_summary: str | None = None
    archived_from: str | None = None
    """The state it had before it was archived."""

    idempotency_key: str | None = None


class AttemptState(Attempt, Record, family="attempts"):
    """One try at a task."""

    task_id: str | None = None
    cause: str | None = None


class EdgeState(Edge, Record, family="edges"):
    """An edge of the task graph (key: kind, source, target); one that was removed stays, with that status."""


class RoutingState(Record, family="routing"):
    """How the model of a turn was chosen (key: the turn's id)."""

    turn_id: str | None = None
    status: str = "unknown"
    """`decided`, `single_candidate`, `fallback`, `blocked` (not possible) or `unknown`."""

    task_profile: TaskProfile | None = None
    candidates: CandidateModelSet | None = None
    candidate_count: int | None = None
    decision: RoutingDecision | None = None
    reason: str | None = None
    fallbacks: tuple[RoutingDecision, ...] | None = None
    """Fallbacks applied in this turn, in order."""

    estimate: Cost | None = None
    requires_user_override: bool | None = None


class LimitEntry(LimitState, Record, family="limits"):
    """Where a limit stands (key: kind, scope, name, provider, model; an empty text where untold)."""

    provider_name: str | None = None
    model_name: str | None = None
    retry_after_ms: float | None = None
    updated_at: Timestamp | None = None


class Spending(Record, family="spending"):
    """What was used and spent by model calls that ended.

    Keys: ("session",), ("day", "2026-01-31"), ("model", provider, model), ("turn", id), ("task", id), ("thread", id).
    """

    calls: int = 0
    calls_with_usage: int = 0
    reported_calls: int = 0
    priced_calls: int = 0
    unknown_cost_calls: int = 0
    known_usd: float = 0.0
    """The sum over the calls whose cost is known; the whole only if `unknown_cost_calls` is 0."""

    usage: Usage | None = None
    """Sums over the calls that told the count."""


class Bill(Record, family="bills"):
    """The latest total that a source told for a wider scope (key: scope, id); never added to `spending`."""

    cost: Cost | None = None
    usage: Usage | None = None
    source: str | None = None


class ContextState(Record, family="contexts"):
    """The context of a thread (key: its id)."""

    thread_id: str | None = None
    turn_id: str | None = None
    context_refs: Refs | None = None
    memory_refs: Refs | None = None
    knowledge_refs: Refs | None = None
    source_refs: Refs | None = None
    policy_refs: Refs | None = None
    ref_count: int | None = None
    estimated_tokens: int | None = None
    warnings: tuple[str, ...] | None = None
    missing: tuple[str, ...] | None = None
    consecutive_failures: int = 0
    """How many compactions failed in a row; the breaker counts these."""

    last_compaction_id: str | None = None


class CompactionState(CompactionSummary, Record, family="compactions"):
    """One compaction of a thread's context."""

    thread_id: str | None = None
    turn_id: str | None = None
    trigger: str | None = None
    replacement_ref: str | None = None
    continuation_ref: str | None = None
    preserved_actions: tuple[str, ...] | None = None
    preserved_incidents: tuple[str, ...] | None = None
    preserved_artifact_refs: Refs | None = None
    preserved_evidence_refs: Refs | None = None
    error: Fault | None = None
    started_at: Timestamp | None = None
    ended_at: Timestamp | None = None
    item_number: int | None = None


class RollbackState(Record, family="rollbacks"):
    """One return to an earlier point."""

    rollback_id: str = ""
    thread_id: str | None = None
    status: str = "unknown"
    target: str | None = None
    removed_turns: tuple[str, ...] | None = None
    surviving_baseline: str | None = None
    affected_tools: tuple[str, ...] | None = None
    affected_artifacts: tuple[str, ...] | None = None
    affected_subagents: tuple[str, ...] | None = None
    affected_jobs: tuple[str, ...] | None = None
    repair: str | None = None
    reason: str | None = None
    requested_by: str | None = None
    degraded: bool | None = None
