"""Records of what lies around the work: permissions, processes, children, jobs, peers, deliverables and proofs."""

from models.governance_values import ExecutionEnvironment, PermissionDecision, SandboxProfile, ToolEntry
from models.payloads.job import JobCounts
from models.shape import JsonMap, Timestamp
from models.summaries import ArtifactSummary, PeerSummary, ProcessSummary, SubagentSummary
from models.values import Cost, Fault, Usage, VerificationOutcome
from views.state.record import Record


class Inventory(Record, family="inventory", single=True):
    """The tools for the present caller, policy, context and mode."""

    caller: str | None = None
    policy_ref: str | None = None
    mode: str | None = None
    inventory_ref: str | None = None
    tool_count: int | None = None
    tools: tuple[ToolEntry, ...] | None = None
    resolved_at: Timestamp | None = None


class PermissionState(Record, family="permission", single=True):
    """The rules in force and the boundary."""

    permission_mode: str | None = None
    policy_id: str | None = None
    policy_ref: str | None = None
    policy_scope: str | None = None
    policy_version: str | None = None
    sandbox_profile: SandboxProfile | None = None
    sandbox_enforced: bool | None = None
    sandbox_mechanism: str | None = None


class DecisionState(PermissionDecision, Record, family="permissions"):
    """One decision on a permission (key: its id, the call's, the action's or the event's); the latest stands."""

    status: str = "unknown"
    """`evaluated`, `requested` or `resolved`."""

    outcome: str | None = None
    thread_id: str | None = None
    turn_id: str | None = None
    task_id: str | None = None
    tool_call_id: str | None = None
    subject_kind: str | None = None
    tool_name: str | None = None
    command_summary: str | None = None
    prompt: str | None = None
    at: Timestamp | None = None


class EnvironmentState(ExecutionEnvironment, Record, family="environment", single=True):
    """Where commands are executed."""


class ProcessState(ProcessSummary, Record, family="processes"):
    """A process that the runtime started."""

    thread_id: str | None = None
    turn_id: str | None = None
    tool_call_id: str | None = None
    pid: int | None = None
    process_kind: str | None = None
    cwd: str | None = None
    output_bytes: int | None = None
    input_bytes: int | None = None
    ended_at: Timestamp | None = None
    duration_ms: float | None = None
    error: Fault | None = None
    cause: str | None = None


class HookState(Record, family="hooks"):
    """One run of a hook."""

    hook_id: str = ""
    hook_name: str | None = None
    point: str | None = None
    turn_id: str | None = None
    tool_call_id: str | None = None
    status: str = "unknown"
    decision: str | None = None
    reason: str | None = None
    fail_policy: str | None = None
    error: Fault | None = None
    duration_ms: float | None = None
    started_at: Timestamp | None = None


class SubagentState(SubagentSummary, Record, family="subagents"):
    """A child agent."""

    parent_subagent_id: str | None = None
    child_session_id: str | None = None
    task_id: str | None = None
    agent_type: str | None = None
    isolation: str | None = None
    model_policy: str | None = None
    objective: str | None = None
    last_message_ref: str | None = None
    result_ref: str | None = None
    inputs: int = 0
    usage: Usage | None = None
    cost: Cost | None = None
    error: Fault | None = None
    started_at: Timestamp | None = None
    ended_at: Timestamp | None = None


class JobState(JobCounts, Record, family="jobs"):
    """A job; its threads are in the lane `("job_threads", job_id)`."""

    job_id: str = ""
    task_id: str | None = None
    status: str = "unknown"
    job_kind: str | None = None
    title: str | None = None
    instruction_ref: str | None = None
    item_cursor: str | None = None
    recoverable: bool | None = None
    result_ref: str | None = None
    error: Fault | None = None
    reason: str | None = None
    created_at: Timestamp | None = None
    started_at: Timestamp | None = None
    ended_at: Timestamp | None = None


class JobItemState(Record, family="job_items"):
    """One item of a job (key: job, item)."""

    job_id: str | None = None
    job_item_id: str = ""
    status: str = "unknown"
    item_index: int | None = None
    attempt_index: int | None = None
    assigned_thread_id: str | None = None
    result_ref: str | None = None
    error: Fault | None = None


class PeerState(PeerSummary, Record, family="channels"):
    """A channel to a remote peer."""

    peer_id: str | None = None
    native_protocol: str | None = None
    capabilities: tuple[str, ...] | None = None
    cause: str | None = None
    resumable: bool | None = None
    remote_state: str | None = None
    gap: bool | None = None
    messages: int = 0
    answered: int = 0
    """How many forwarded requests it has answered."""


class ArtifactState(ArtifactSummary, Record, family="artifacts"):
    """A deliverable; its versions are in the lane `("versions", artifact_id)`."""

    status: str = "unknown"
    artifact_type: str | None = None
    path: str | None = None
    media_type: str | None = None
    size_bytes: int | None = None
    sha256: str | None = None
    version_id: str | None = None
    task_id: str | None = None
    turn_id: str | None = None
    change: str | None = None
    changed_at: Timestamp | None = None


class EvidenceState(Record, family="evidence"):
    """A trace, replay, verification or review."""

    evidence_id: str = ""
    evidence_kind: str | None = None
    status: str = "unknown"
    change: str | None = None
    pack_ref: str | None = None
    trace_ref: str | None = None
    replay_ref: str | None = None
    review_ref: str | None = None
    verification_outcomes: tuple[VerificationOutcome, ...] | None = None
    signals: JsonMap | None = None
    known_gaps: tuple[str, ...] | None = None
    sha256: str | None = None
    task_id: str | None = None
    changed_at: Timestamp | None = None
