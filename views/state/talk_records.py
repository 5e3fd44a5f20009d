"""Records of the session, its threads, turns and queue, and of what was said and done in them."""

from typing import Any

from models.governance_values import PermissionDecision
from models.shape import JsonMap, Timestamp
from models.summaries import Incident
from models.values import Cost, Fault, QueuedTurn, Refs, Usage
from views.state.record import Record


class SessionState(Record, family="session", single=True):
    """The session itself."""

    status: str = "unknown"
    native_status: str | None = None
    status_reason: str | None = None
    runtime_id: str | None = None
    schema_version: str | None = None
    title: str | None = None
    workspace_id: str | None = None
    source: str | None = None
    client_name: str | None = None
    client_version: str | None = None
    cwd: str | None = None
    resumed_from: str | None = None
    created_at: Timestamp | None = None
    closed_at: Timestamp | None = None
    metadata: JsonMap | None = None


class HistoryState(Record, family="history", single=True):
    """What is known about the completeness of what we know."""

    cursor: str | None = None
    """Where older history begins."""

    has_more: bool | None = None
    reconstructed_at: Timestamp | None = None
    reconstructed_up_to: int | None = None
    """The last event the latest reconstruction rests on."""

    baseline_ref: str | None = None
    degraded: bool | None = None
    """Whether the latest reconstruction, rollback or repair left something out."""

    unrecoverable_refs: Refs | None = None
    durable_output_refs: Refs | None = None
    unresolved_actions: tuple[str, ...] | None = None
    last_repair: str | None = None
    repaired_at: Timestamp | None = None
    snapshot_ref: str | None = None
    """The latest stored snapshot."""

    snapshot_up_to: int | None = None
    snapshot_sha256: str | None = None


class ThreadState(Record, family="threads"):
    """A thread; its turns are in the lane `("turns", thread_id)`."""

    thread_id: str = ""
    status: str = "unknown"
    native_status: str | None = None
    status_reason: str | None = None
    title: str | None = None
    source: str | None = None
    parent_thread_id: str | None = None
    started_at: Timestamp | None = None
    active_turn_id: str | None = None
    last_ended_turn_id: str | None = None
    phase: str | None = None
    phase_title: str | None = None
    metadata: JsonMap | None = None


class Turn(Record, family="turns"):
    """One cycle of submitted input."""

    turn_id: str = ""
    thread_id: str | None = None
    status: str = "unknown"
    native_status: str | None = None
    status_reason: str | None = None
    phase: str | None = None
    source: str | None = None
    input_ref: str | None = None
    input_refs: Refs | None = None
    input_chars: int | None = None
    queued_turn_id: str | None = None
    idempotency_key: str | None = None
    options: JsonMap | None = None
    metadata: JsonMap | None = None
    task_id: str | None = None
    run_id: str | None = None
    submitted_at: Timestamp | None = None
    started_at: Timestamp | None = None
    completed_at: Timestamp | None = None
    queue_wait_ms: float | None = None
    duration_ms: float | None = None
    stop_reason: str | None = None
    output_ref: str | None = None
    output_chars: int | None = None
    interrupted: bool | None = None
    last_error: Fault | None = None
    open_actions: int = 0
    """How many decisions of this turn are still open."""

    compacted_by: str | None = None
    """The compaction that summed it up."""

    place: int | None = None
    """Its place in the lane `("turns", thread_id)`."""

    removed_by: str | None = None
    """The rollback that took it back; its items are gone, and it is in no thread's list of turns."""


class QueueState(Record, family="queues"):
    """The queue of a thread (key: its id)."""

    thread_id: str | None = None
    queue_id: str | None = None
    queued_turns: tuple[QueuedTurn, ...] | None = None
    """The turns that wait, the next to run first; None: nobody told."""

    policy: str | None = None
    status: str | None = None
    resume_state: str = "unknown"
    """`running`, `held`, `waiting_resume` or `unknown`."""

    last_change: str | None = None


class Item(Record, family="items"):
    """A piece of the conversation, as a model would get to see it (key: the ordinal of the event that told it)."""

    number: int = 0
    place: int | None = None
    """Its place in the lane `("items",)`."""

    thread_place: int | None = None
    """Its place in the lane `("items", thread_id)`."""

    kind: str = "unknown"
    """`turn_input`, `assistant_output`, `tool_call`, `tool_result` or `compaction`."""

    thread_id: str | None = None
    turn_id: str | None = None
    task_id: str | None = None
    step_id: str | None = None
    tool_call_id: str | None = None
    model_request_id: str | None = None
    compaction_id: str | None = None
    ref: str | None = None
    """Where the text is kept."""

    refs: Refs | None = None
    preview: str | None = None
    sequence: int | None = None
    event_id: str | None = None
    at: Timestamp | None = None
    compacted_by: str | None = None
    """The compaction whose summary stands in its place."""


class ModelCall(Record, family="model_calls"):
    """One call to a model provider, in short."""

    model_request_id: str = ""
    thread_id: str | None = None
    turn_id: str | None = None
    task_id: str | None = None
    run_id: str | None = None
    step_id: str | None = None
    provider_name: str | None = None
    model_name: str | None = None
    operation: str | None = None
    """What was asked for: `chat`, or the runtime's own `summarize`."""

    response_model: str | None = None
    response_id: str | None = None
    status: str = "unknown"
    attempt_index: int | None = None
    request_ref: str | None = None
    output_ref: str | None = None
    output_chars: int | None = None
    streamed_chars: int | None = None
    deltas: int = 0
    reasoning_deltas: int = 0
    reasoning_summary_ref: str | None = None
    tool_call_count: int | None = None
    stop_reason: str | None = None
    usage: Usage | None = None
    cost: Cost | None = None
    estimate: Cost | None = None
    error: Fault | None = None
    http_status: int | None = None
    retry_after_ms: float | None = None
    started_at: Timestamp | None = None
    ended_at: Timestamp | None = None
    duration_ms: float | None = None
    time_to_first_token_ms: float | None = None


class ToolCall(Record, family="tool_calls"):
    """One call of a tool."""

    tool_call_id: str = ""
    thread_id: str | None = None
    turn_id: str | None = None
    task_id: str | None = None
    run_id: str | None = None
    step_id: str | None = None
    tool_name: str | None = None
    item_kind: str | None = None
    runtime_owner: str | None = None
    server_name: str | None = None
    status: str = "unknown"
    is_read_only: bool | None = None
    is_destructive: bool | None = None
    input_ref: str | None = None
    input_preview: str | None = None
    arguments: JsonMap | None = None
    permission: PermissionDecision | None = None
    """The latest decision on whether it may run."""

    action_id: str | None = None
    """The decision that it waits for, or waited for last."""

    success: bool | None = None
    result_ref: str | None = None
    preview: str | None = None
    output_chars: int | None = None
    size_bytes: int | None = None
    truncated: bool | None = None
    cancelled: bool | None = None
    error: Fault | None = None
    progress: float | None = None
    total: float | None = None
    started_at: Timestamp | None = None
    ended_at: Timestamp | None = None
    duration_ms: float | None = None
    queue_wait_ms: float | None = None
    item_number: int | None = None


class StoredOutput(Record, family="outputs"):
    """What was told about a stored output (key: its ref): spilled, truncated, redacted, expired."""

    ref: str = ""
    source_kind: str | None = None
    tool_call_id: str | None = None
    process_id: str | None = None
    size_bytes: int | None = None
    retained_bytes: int | None = None
    spilled: bool | None = None
    truncated: bool | None = None
    redacted: bool | None = None
    status: str = "unknown"
    """`available` or `unavailable` (it has expired)."""


class ActionState(Record, family="actions"):
    """A decision that a human or a policy has to make, open or not."""

    action_id: str = ""
    thread_id: str | None = None
    turn_id: str | None = None
    task_id: str | None = None
    tool_call_id: str | None = None
    status: str = "unknown"
    """`open`, `resolved`, `timed_out`, `cancelled` or `unknown`."""

    native_status: str | None = None
    action_type: str | None = None
    decision_kind: str | None = None
    prompt: str | None = None
    decisions: tuple[str, ...] | None = None
    default_decision: str | None = None
    input_schema: JsonMap | None = None
    policy_ref: str | None = None
    requested_at: Timestamp | None = None
    expires_at: Timestamp | None = None
    resolved_at: Timestamp | None = None
    decision: str | None = None
    confirmed: bool | None = None
    decided_by: str | None = None
    reason: str | None = None
    response: Any = None
    response_ref: str | None = None
    wait_ms: float | None = None


class RequestNote(Record, family="requests"):
    """A request that changed something (key: its id): what was asked, and which events came of it."""

    request_id: str = ""
    command: str | None = None
    command_sha256: str | None = None
    first_sequence: int | None = None
    first_event_id: str | None = None
    last_sequence: int | None = None
    events: int = 0


class Note(Record, family="notes"):
    """What the reducer could not take at face value (key: the event's ordinal and the note's, `12.0`)."""

    code: str = ""
    """What sort of trouble; see `views.state.notes`."""

    message: str = ""
    event_id: str | None = None
    event_type: str | None = None
    sequence: int | None = None
    thread_id: str | None = None
    task_id: str | None = None
    at: Timestamp | None = None


class IncidentState(Incident, Record, family="incidents"):
    """Something that went wrong (key: the event that told it)."""

    thread_id: str | None = None
    turn_id: str | None = None
    task_id: str | None = None
