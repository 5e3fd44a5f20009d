"""The thirteen read models: what a reader can know of a session at one moment, with honest unknowns."""

from models.governance_values import ExecutionEnvironment, PermissionDecision, SandboxProfile, ToolEntry
from models.shape import JsonMap, Shape, Timestamp
from models.summaries import (
    ArtifactSummary,
    CompactionSummary,
    Incident,
    JobSummary,
    PeerSummary,
    PendingRequest,
    ProcessSummary,
    StepSummary,
    SubagentSummary,
    TaskCounts,
    TurnSummary,
)
from models.task_values import Edge, TaskRecord
from models.values import (
    CandidateModelSet,
    Cost,
    Count,
    LimitState,
    Name,
    QueuedTurn,
    Refs,
    RoutingDecision,
    TaskProfile,
    Usage,
    VerificationOutcome,
)


class ReadModel(Shape):
    """A read model: it says `unknown`, `unavailable`, `stale` or `blocked` rather than guess."""

    status: str = "unknown"
    """The state it shows; unknown until a fact tells."""

    status_reason: str | None = None
    """Why it is in that state."""

    native_status: str | None = None
    """The exact state in the source's own words."""

    updated_at: Timestamp | None = None
    """When the last fact that it takes into account happened."""

    up_to_sequence: Count | None = None
    """The last event that it takes into account."""


class SessionSnapshot(ReadModel):
    """The session: its shell, title, times, threads, recent steps and the cursor into its history."""

    session_id: Name
    """The session."""

    runtime_id: str | None = None
    """The runtime it runs on."""

    schema_version: str = "agent-runtime-0.4"
    """The version of this vocabulary."""

    workspace_id: str | None = None
    """The workspace it works in."""

    title: str | None = None
    """Its name for people."""

    created_at: Timestamp | None = None
    """When it was created."""

    closed_at: Timestamp | None = None
    """When it was closed."""

    thread_ids: tuple[str, ...] | None = None
    """Its threads, the oldest first."""

    recent_steps: tuple[StepSummary, ...] | None = None
    """The latest messages and steps, the oldest first."""

    history_cursor: str | None = None
    """Where older history begins; None: there is none, or nobody told."""

    metadata: JsonMap | None = None
    """Metadata by the author's own keys."""


class ThreadReadModel(ReadModel):
    """A thread: its status, active turn, open requests, last outcome, incidents, queued turns and diagnostics."""

    thread_id: Name
    """The thread."""

    active_turn_id: str | None = None
    """The turn under way."""

    turns: tuple[TurnSummary, ...] | None = None
    """Its turns, the oldest first."""

    pending_requests: tuple[PendingRequest, ...] = ()
    """Decisions that are still open."""

    last_outcome: TurnSummary | None = None
    """How the last turn that ended did end."""

    incidents: tuple[Incident, ...] = ()
    """What went wrong."""

    queued_turns: tuple[QueuedTurn, ...] = ()
    """Turns that wait, the next to run first."""

    diagnostics: JsonMap | None = None
    """Further findings by their own names."""


class ToolInventorySnapshot(ReadModel):
    """The tools for the present caller, policy, context and mode."""

    caller: str | None = None
    """For whom."""

    policy_ref: str | None = None
    """By which policy."""

    mode: str | None = None
    """In which mode."""

    inventory_ref: str | None = None
    """Where the whole inventory is kept."""

    tools: tuple[ToolEntry, ...] | None = None
    """The tools; None: nobody told."""


class QueueSnapshot(ReadModel):
    """The queued turns: their ids, order, source, policy and whether the queue goes on."""

    queue_id: str | None = None
    """The queue."""

    queued_turns: tuple[QueuedTurn, ...] | None = None
    """The turns, the next to run first; None: nobody told."""

    policy: str | None = None
    """When they may run."""

    resume_state: str = "unknown"
    """Whether the queue goes on, is held, or waits for a resume."""


class TaskSnapshot(ReadModel):
    """Active, waiting, failed, lost and recently ended tasks, their graph, current attempts and delivery."""

    tasks: tuple[TaskRecord, ...] | None = None
    """All of them, each with its attempts and delivery state; None: nobody told."""

    active_task_ids: tuple[str, ...] | None = None
    """Those under way."""

    waiting_task_ids: tuple[str, ...] | None = None
    """Those that wait or are blocked."""

    failed_task_ids: tuple[str, ...] | None = None
    """Those that failed."""

    lost_task_ids: tuple[str, ...] | None = None
    """Those whose worker cannot be proven to be alive."""

    recent_terminal_task_ids: tuple[str, ...] | None = None
    """Those that ended lately."""

    graph: tuple[Edge, ...] | None = None
    """The edges between them."""

    current_run_ids: dict[str, str] | None = None
    """The try under way, by task."""

    delivery_states: dict[str, str] | None = None
    """Whether the result reached its receiver, by task."""

    counts: TaskCounts | None = None
    """How many there are."""


class ContextBoundarySnapshot(ReadModel):
    """What the context holds: selected refs, compactions, warnings and what is missing."""

    selected_refs: Refs | None = None
    """What was selected; None: nobody told."""

    compactions: tuple[CompactionSummary, ...] | None = None
    """Compactions, the oldest first."""

    warnings: tuple[str, ...] | None = None
    """What is doubtful."""

    missing: tuple[str, ...] | None = None
    """What was wanted and could not be had."""


class ArtifactCheckpointSummary(ReadModel):
    """The deliverables: refs, versions, previews, counts of faults and differences."""

    artifacts: tuple[ArtifactSummary, ...] | None = None
    """The deliverables; None: nobody told."""


class EvidenceSummary(ReadModel):
    """Traces, verification outcomes, replays, reviews and notes of the audit."""

    evidence_refs: tuple[str, ...] | None = None
    """All evidence."""

    trace_ids: tuple[str, ...] | None = None
    """Traces."""

    verification_outcomes: tuple[VerificationOutcome, ...] | None = None
    """Results of checks."""

    replay_refs: tuple[str, ...] | None = None
    """Replays."""

    review_refs: tuple[str, ...] | None = None
    """Reviews."""

    audit_notes: tuple[str, ...] | None = None
    """Notes of the audit."""


class PermissionSandboxSummary(ReadModel):
    """Permissions and the boundary: state, open approvals, profile and violations."""

    permission_mode: str | None = None
    """The permission mode in force."""

    decisions: tuple[PermissionDecision, ...] | None = None
    """Decisions that still hold."""

    pending_approvals: tuple[PendingRequest, ...] | None = None
    """Approvals that are still open; None: nobody told."""

    sandbox_profile: SandboxProfile | None = None
    """The boundary in force."""

    violation_refs: Refs | None = None
    """Recorded attempts to cross it."""


class ExecutionEnvironmentSnapshot(ReadModel):
    """Where commands are executed: directory, roots, environment refs, limits and active processes."""

    environment: ExecutionEnvironment | None = None
    """The environment: cwd, roots, env refs and limits."""

    active_processes: tuple[ProcessSummary, ...] | None = None
    """Processes that are, or may be, alive; None: nobody told."""


class RoutingLimitSummary(ReadModel):
    """The choice of a model and the limits: profile, candidates, decision, cost, quota and rate limits."""

    task_profile: TaskProfile | None = None
    """What the work needs of a model."""

    candidate_count: Count | None = None
    """How many models could be chosen."""

    candidates: CandidateModelSet | None = None
    """The models that could be chosen."""

    decision: RoutingDecision | None = None
    """Which was chosen and why."""

    usage: Usage | None = None
    """Tokens used so far."""

    cost: Cost | None = None
    """What was spent so far, and how we know."""

    limits: tuple[LimitState, ...] | None = None
    """Where quotas, rate limits and budgets stand; None: nobody told."""


class SubagentJobSummary(ReadModel):
    """The graph of child agents, and jobs with their progress, threads and whether they can be resumed."""

    subagents: tuple[SubagentSummary, ...] | None = None
    """Child agents, each with its parent; None: nobody told."""

    jobs: tuple[JobSummary, ...] | None = None
    """Jobs; None: nobody told."""


class ChannelSummary(ReadModel):
    """The remote peers: resume cursors, acknowledged sequences and the permission bridge."""

    peers: tuple[PeerSummary, ...] | None = None
    """The peers; None: nobody told."""

    permission_bridge: str = "unknown"
    """Whether requests for permission can be forwarded."""


class ReadModels(Shape):
    """All read models of one session; those that no fact has touched are None."""

    session: SessionSnapshot
    """The session."""

    threads: tuple[ThreadReadModel, ...] = ()
    """Its threads, the oldest first."""

    tools: ToolInventorySnapshot | None = None
    """Its tools."""

    turn_queue: QueueSnapshot | None = None
    """Its queue."""

    tasks: TaskSnapshot | None = None
    """Its tasks."""

    context: ContextBoundarySnapshot | None = None
    """Its context."""

    artifacts: ArtifactCheckpointSummary | None = None
    """Its deliverables."""

    evidence: EvidenceSummary | None = None
    """Its evidence."""

    permission: PermissionSandboxSummary | None = None
    """Its permissions and boundary."""

    environment: ExecutionEnvironmentSnapshot | None = None
    """Where it executes."""

    routing: RoutingLimitSummary | None = None
    """Its choice of model, and its limits."""

    subagents: SubagentJobSummary | None = None
    """Its child agents and jobs."""

    channels: ChannelSummary | None = None
    """Its remote peers."""


READ_MODELS: dict[str, type[ReadModel]] = {
    "session_snapshot": SessionSnapshot,
    "thread_read_model": ThreadReadModel,
    "tool_inventory_snapshot": ToolInventorySnapshot,
    "queue_snapshot": QueueSnapshot,
    "task_snapshot": TaskSnapshot,
    "context_boundary_snapshot": ContextBoundarySnapshot,
    "artifact_checkpoint_summary": ArtifactCheckpointSummary,
    "evidence_summary": EvidenceSummary,
    "permission_sandbox_summary": PermissionSandboxSummary,
    "execution_environment_snapshot": ExecutionEnvironmentSnapshot,
    "routing_limit_summary": RoutingLimitSummary,
    "subagent_job_summary": SubagentJobSummary,
    "channel_summary": ChannelSummary,
}
"""The read models by the names the specification gives them."""
