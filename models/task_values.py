"""The task in its parts: constraints, acceptance, progress, delivery, graph edges, workers, attempts."""

from typing import Annotated

from pydantic import JsonValue

from models.shape import JsonMap, Known, Shape, Timestamp
from models.values import Amount, Count, Fault, Ref, Refs, TaskProfile, Who

Visibility = Annotated[str, Known("foreground", "background", "internal", "hidden", "unknown")]
"""Who gets to see a task."""

Phase = Annotated[str, Known("planning", "working", "verifying", "delivering", "waiting", "custom")]
"""What a task is at."""

Delivery = Annotated[str, Known("pending", "delivered", "queued", "failed", "parent_missing", "not_applicable")]
"""Whether a result reached its receiver."""

EdgeKind = Annotated[
    str,
    Known(
        *("parent", "child", "blocks", "blocked_by", "source_task", "source_attempt", "spawned_subagent"),
        *("assigned_thread", "produced_artifact", "consumed_artifact", "evidence"),
    ),
]
"""How a task relates to something else."""


class TaskConstraints(Shape):
    """What a task must keep to; each is a name or a map of rules."""

    permission: JsonValue = None
    """What it may do without asking."""

    sandbox: JsonValue = None
    """The boundary it runs in."""

    network: JsonValue = None
    """What of the network it may reach."""

    model: JsonValue = None
    """Which models it may use."""

    tool: JsonValue = None
    """Which tools it may use."""

    cost: JsonValue = None
    """How much it may spend."""

    time: JsonValue = None
    """How long it may take."""

    output: JsonValue = None
    """What form its output must have."""


class AcceptanceCriterion(Shape):
    """One thing a task must fulfil to be accepted."""

    criterion_id: str | None = None
    """Its name."""

    description: str | None = None
    """What must be true."""

    required: bool | None = None
    """Whether the task may complete without it."""

    status: str | None = None
    """Whether it is fulfilled: pending, met, unmet, unknown."""

    evidence_refs: tuple[str, ...] | None = None
    """The proof."""


class TaskProgress(Shape):
    """How far a task is."""

    phase: Phase | None = None
    """What it is at."""

    current_step: str | None = None
    """The step it is at, in words."""

    summary: str | None = None
    """A sentence on the progress."""

    counters: dict[str, int | float] | None = None
    """Counts by the author's own names, such as `files_done`."""

    output_refs: Refs | None = None
    """Outputs so far, with how far each has been written."""

    delivery_state: Delivery | None = None
    """Whether the result reached its receiver."""

    validation_state: str | None = None
    """Whether the result was checked: pending, passed, failed, not_applicable."""


class Edge(Shape):
    """An edge of the task graph, from one task to something else."""

    kind: EdgeKind | None = None
    """How they relate."""

    source_id: str | None = None
    """The task the edge starts at; None: the task of the envelope."""

    target_id: str | None = None
    """The task, attempt, thread, subagent, artifact or evidence it ends at."""

    status: str | None = None
    """Whether it holds: active, satisfied, removed."""

    reason: str | None = None
    """Why it is there."""

    created_at: Timestamp | None = None
    """When it was made."""

    updated_at: Timestamp | None = None
    """When it last changed."""


class Worker(Shape):
    """Who executes an attempt."""

    worker_id: str | None = None
    """Its stable name."""

    kind: str | None = None
    """What it is: local, subagent, remote, job."""

    name: str | None = None
    """Its name for people."""

    thread_id: str | None = None
    """The thread it works in."""

    job_item_id: str | None = None
    """The job item it works on."""

    last_seen_at: Timestamp | None = None
    """When it was last known to be alive."""


class RetryPolicy(Shape):
    """When and how often a task is tried again."""

    max_attempts: Count | None = None
    """How many tries there may be, the first included."""

    backoff_ms: Amount | None = None
    """The wait before the next try, in milliseconds."""

    backoff_factor: Amount | None = None
    """By how much the wait grows with each try."""

    non_retryable_errors: tuple[str, ...] | None = None
    """Failure categories after which there is no further try."""

    timeout_ms: Amount | None = None
    """How long one try may take, in milliseconds."""


class Attempt(Shape):
    """One try at a task."""

    run_id: str | None = None
    """The try."""

    attempt_id: str | None = None
    """The same try, where the source names its attempts apart."""

    status: str | None = None
    """Its state."""

    native_status: str | None = None
    """Its state in the source's own words."""

    worker: Worker | None = None
    """Who executes it."""

    input_refs: Refs | None = None
    """What it was given."""

    output_refs: Refs | None = None
    """What it produced."""

    checkpoint_refs: Refs | None = None
    """Where it can be resumed from."""

    started_at: Timestamp | None = None
    """When it began."""

    ended_at: Timestamp | None = None
    """When it ended."""

    attempt_count: Count | None = None
    """Which try it is, the first being 1."""

    retry_policy: RetryPolicy | None = None
    """What happens if it fails."""

    last_error: Fault | None = None
    """What went wrong last."""

    completion_summary: str | None = None
    """What the worker says it did; not a proof of completion."""


class TaskDescription(Shape):
    """What a task is, apart from its state: the part that its owner may change."""

    title: str | None = None
    """A short name for people."""

    objective: str | None = None
    """What is to be reached."""

    task_kind: str | None = None
    """The sort of work, such as `coding`."""

    task_family: str | None = None
    """The wider group the kind belongs to."""

    visibility: Visibility | None = None
    """Who gets to see it."""

    priority: str | None = None
    """How urgent it is, in the author's scale."""

    requested_by: Who | None = None
    """Who asked for it."""

    owner: Who | None = None
    """Who answers for it."""

    assignee: Who | None = None
    """Who does it."""

    scope: JsonMap | None = None
    """What it may touch, by the author's own keys."""

    constraints: TaskConstraints | None = None
    """What it must keep to."""

    task_profile: TaskProfile | None = None
    """What it needs of a model."""

    acceptance: tuple[AcceptanceCriterion, ...] | None = None
    """What it must fulfil to be accepted."""


class TaskRecord(TaskDescription):
    """A task with its state, attempts and relations."""

    task_id: str | None = None
    """The task."""

    parent_task_id: str | None = None
    """The task it is a part of."""

    root_task_id: str | None = None
    """The topmost task of its tree."""

    session_id: str | None = None
    """The session it belongs to."""

    thread_id: str | None = None
    """The thread it belongs to."""

    turn_id: str | None = None
    """The turn it came from."""

    status: str | None = None
    """Its state."""

    native_status: str | None = None
    """Its state in the source's own words."""

    status_reason: str | None = None
    """Why it is in that state."""

    progress: TaskProgress | None = None
    """How far it is."""

    current_run_id: str | None = None
    """The try under way."""

    attempts: tuple[Attempt, ...] | None = None
    """All tries, the oldest first."""

    relationships: tuple[Edge, ...] | None = None
    """Its edges in the graph."""

    artifacts: tuple[Ref, ...] | None = None
    """Deliverables it produced."""

    evidence_refs: tuple[str, ...] | None = None
    """Proofs about it."""

    delivery_state: Delivery | None = None
    """Whether its result reached its receiver."""

    last_error: Fault | None = None
    """What went wrong last."""

    created_at: Timestamp | None = None
    """When it was made."""

    updated_at: Timestamp | None = None
    """When it last changed."""

    started_at: Timestamp | None = None
    """When its first try began."""

    ended_at: Timestamp | None = None
    """When it reached its end."""
