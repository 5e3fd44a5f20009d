"""The lines that read models are made of: steps, turns, requests, incidents, processes, children and peers in short."""

from models.payloads.job import JobCounts
from models.shape import Shape, Timestamp
from models.values import Count, Fault, Name, Refs


class StepSummary(Shape):
    """A step or message, in short."""

    step_id: str | None = None
    """The step."""

    turn_id: str | None = None
    """The turn it belongs to."""

    kind: str | None = None
    """What it is: a message, a tool call, a status, an artifact, an action."""

    status: str = "unknown"
    """Its state."""

    title: str | None = None
    """A short name for people."""

    preview: str | None = None
    """A short beginning, safe to show."""

    at: Timestamp | None = None
    """When it happened."""


class TurnSummary(Shape):
    """A turn, in short."""

    turn_id: Name
    """The turn."""

    status: str = "unknown"
    """Its state."""

    task_id: str | None = None
    """The task it works on."""

    run_id: str | None = None
    """The try it is."""

    started_at: Timestamp | None = None
    """When execution began."""

    completed_at: Timestamp | None = None
    """When it ended."""

    last_error: Fault | None = None
    """What went wrong last."""


class PendingRequest(Shape):
    """A decision that is still open."""

    action_id: str | None = None
    """The decision."""

    action_type: str | None = None
    """What is asked for."""

    tool_call_id: str | None = None
    """The tool call that waits."""

    turn_id: str | None = None
    """The turn that waits."""

    task_id: str | None = None
    """The task that waits."""

    prompt: str | None = None
    """The question, in words."""

    requested_at: Timestamp | None = None
    """Since when it is open."""

    expires_at: Timestamp | None = None
    """When the time to decide is up."""


class Incident(Shape):
    """Something that went wrong and stays visible."""

    event_id: str | None = None
    """The event that told it."""

    event_type: str | None = None
    """What sort of event that was."""

    at: Timestamp | None = None
    """When it happened."""

    fault: Fault | None = None
    """What went wrong."""

    resolved: bool | None = None
    """Whether it was put right."""


class TaskCounts(Shape):
    """How many tasks there are, by what a reader asks first."""

    active: Count | None = None
    """Tasks under way."""

    waiting: Count | None = None
    """Tasks that wait or are blocked."""

    failed: Count | None = None
    """Tasks that failed."""

    lost: Count | None = None
    """Tasks whose worker cannot be proven to be alive."""

    completed: Count | None = None
    """Tasks that completed."""

    cancelled: Count | None = None
    """Tasks that were cancelled."""


class CompactionSummary(Shape):
    """One compaction of the context."""

    compaction_id: str | None = None
    """The compaction."""

    status: str = "unknown"
    """How it ended."""

    summary_ref: str | None = None
    """Where the summary is kept."""

    affected_turns: tuple[str, ...] | None = None
    """The turns that are summed up."""

    tokens_before: Count | None = None
    """Size of the context before, in tokens."""

    tokens_after: Count | None = None
    """Size of the context after, in tokens."""


class ArtifactSummary(Shape):
    """A deliverable, in short."""

    artifact_id: str | None = None
    """The deliverable."""

    title: str | None = None
    """Its name for people."""

    read_ref: str | None = None
    """Where it can be read."""

    version_ids: tuple[str, ...] | None = None
    """Its versions, the oldest first."""

    preview_ref: str | None = None
    """Where a preview is kept."""

    diff_ref: str | None = None
    """Where the last difference is kept."""

    validation_issues: Count | None = None
    """How many faults a check found; None: not checked, or nobody told."""


class ProcessSummary(Shape):
    """A process, in short."""

    process_id: str | None = None
    """The process."""

    command_summary: str | None = None
    """The command in a form that is safe to show."""

    status: str = "unknown"
    """Its state; `unavailable` when it cannot be reached again after a restart."""

    started_at: Timestamp | None = None
    """When it started."""

    exit_code: int | None = None
    """The exit code, once it has ended."""

    output_refs: Refs | None = None
    """Where its output is kept."""


class SubagentSummary(Shape):
    """A child agent, in short."""

    subagent_id: str | None = None
    """The child agent."""

    parent_thread_id: str | None = None
    """The thread that created it."""

    parent_turn_id: str | None = None
    """The turn that created it."""

    child_thread_id: str | None = None
    """Its own thread."""

    role: str | None = None
    """What it is for."""

    nickname: str | None = None
    """Its name for people."""

    status: str = "unknown"
    """Its state."""

    recoverable: bool | None = None
    """Whether its thread can be resumed; None: nobody told."""


class JobSummary(JobCounts):
    """A job, in short."""

    job_id: str | None = None
    """The job."""

    status: str = "unknown"
    """Its state, apart from those of its items."""

    assigned_threads: tuple[str, ...] | None = None
    """The threads that work on it."""

    recoverable: bool | None = None
    """Whether it can be resumed; None: nobody told."""


class PeerSummary(Shape):
    """A remote peer, in short."""

    channel_id: str | None = None
    """The channel to it."""

    peer_role: str | None = None
    """What it is to us."""

    transport: str | None = None
    """What the channel runs over."""

    status: str = "unknown"
    """Whether it is reachable."""

    resume_cursor: str | None = None
    """Where it would resume."""

    last_acked_sequence: Count | None = None
    """The last event it has acknowledged."""

    last_seen_at: Timestamp | None = None
    """When it was last heard."""

    forwarded_action_ids: tuple[str, ...] | None = None
    """Requests for permission that it was sent and has not answered."""
