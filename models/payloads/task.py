"""Facts about the lifecycle of tasks, from their creation to the archive."""

from typing import Annotated

from pydantic import JsonValue

from models.parts import Failed, Outputs, Reasoned, Stated, Timed
from models.payload import Payload
from models.shape import JsonMap, Known, Timestamp
from models.task_values import Delivery, Edge, Phase, RetryPolicy, TaskDescription, TaskProgress, Worker
from models.values import Amount, Count, Refs


class TaskCreated(TaskDescription, Stated, Payload, event_type="task.created"):
    """A task has an identity and an initial objective."""

    required_on_emission = frozenset({"objective"})

    relationships: tuple[Edge, ...] | None = None
    """Its edges in the graph at the start."""

    idempotency_key: str | None = None
    """The caller's key: the same key twice makes one task."""


class TaskAccepted(Stated, Payload, event_type="task.accepted"):
    """The runtime took ownership of the task."""

    owner: str | None = None
    """Who answers for it now."""

    reason: str | None = None
    """On what ground it was accepted."""


class TaskQueued(Stated, Payload, event_type="task.queued"):
    """The task entered a queue."""

    queue_id: str | None = None
    """The queue."""

    position: Count | None = None
    """Its place, the next to run being 0."""

    reason: str | None = None
    """What it waits behind: another turn, a policy gate, a schedule."""

    not_before: Timestamp | None = None
    """The earliest time it may start."""


class TaskStarted(Stated, Payload, event_type="task.started"):
    """The first or active run of the task started."""

    attempt_index: Count | None = None
    """Which try it is, the first being 1."""

    worker: Worker | None = None
    """Who executes it."""

    queue_wait_ms: Amount | None = None
    """How long it had waited, in milliseconds."""


class TaskUpdated(TaskDescription, Stated, Payload, event_type="task.updated"):
    """Metadata, owner, constraints or profile of the task changed; fields that did not change are left out."""

    required_on_emission = frozenset({"changed_fields"})

    changed_fields: tuple[str, ...] | None = None
    """What changed, by name."""


class TaskProgressed(TaskProgress, Payload, event_type="task.progress"):
    """Progress, counters, phase, summary or output refs of the task changed."""

    progress_ref: str | None = None
    """Where a longer report is kept."""


class TaskWaiting(Stated, Payload, event_type="task.waiting"):
    """The task waits for input, a permission, a resource, a dependency or a worker."""

    required_on_emission = frozenset({"waiting_for", "status"})

    waiting_for: Annotated[str, Known("input", "permission", "resource", "dependency", "worker")] | None = None
    """What it waits for."""

    action_id: str | None = None
    """The decision it waits for."""

    resource: str | None = None
    """The resource it waits for: a credential, quota, file, network, worker, external system."""

    depends_on: tuple[str, ...] | None = None
    """The tasks it waits for."""

    until: Timestamp | None = None
    """When it stops waiting."""


class TaskBlocked(Stated, Payload, event_type="task.blocked"):
    """The task cannot go on until a named blocker clears."""

    required_on_emission = frozenset({"blocker_kind", "reason"})

    blocker_kind: (
        Annotated[str, Known("action", "credential", "policy", "context", "dependency", "tool", "quota")] | None
    ) = None
    """What is missing."""

    blocker_id: str | None = None
    """The thing that blocks: an action, a task, a quota, a tool."""

    reason: str | None = None
    """Why it blocks, in a sentence."""


class TaskPaused(Stated, Reasoned, Payload, event_type="task.paused"):
    """The task was paused."""

    propagation: JsonValue = None
    """What happens to its children: a policy's name or its rules."""


class TaskResumed(Stated, Reasoned, Payload, event_type="task.resumed"):
    """The task goes on after a pause, a wait or a block."""

    checkpoint_ref: str | None = None
    """Where it goes on from."""


class TaskRetrying(Stated, Payload, event_type="task.retrying"):
    """A retry or fallback attempt begins."""

    required_on_emission = frozenset({"next_attempt_index", "reason"})

    failed_attempt_id: str | None = None
    """The attempt that failed."""

    failed_run_id: str | None = None
    """The run that failed."""

    queued_turn_id: str | None = None
    """The turn in which it is tried again."""

    next_attempt_index: Count | None = None
    """Which try comes next, the first try being 1."""

    reason: str | None = None
    """Why it is tried again."""

    delay_ms: Amount | None = None
    """How long it waits before the next try, in milliseconds."""

    retry_policy: RetryPolicy | None = None
    """The policy that decided so."""


class TaskCancelRequested(Stated, Reasoned, Payload, event_type="task.cancel_requested"):
    """The wish to cancel was recorded; from now on no new children start."""

    required_on_emission = frozenset({"reason"})

    propagation: JsonValue = None
    """What happens to its children: a policy's name or its rules."""


class TaskCancelled(Stated, Reasoned, Timed, Payload, event_type="task.cancelled"):
    """The task reached its end as cancelled."""

    cancelled_children: tuple[str, ...] | None = None
    """The child tasks that were cancelled with it."""


class TaskTimedOut(Failed, Timed, Payload, event_type="task.timed_out"):
    """A time or inactivity budget ended the task."""

    required_on_emission = frozenset({"budget_kind"})

    budget_kind: Annotated[str, Known("time", "inactivity")] | None = None
    """Which budget fired."""

    budget_ms: Amount | None = None
    """The size of the budget in milliseconds."""


class TaskFailed(Failed, Timed, Payload, event_type="task.failed"):
    """The task reached its end as failed."""

    required_on_emission = frozenset({"failure_category", "message"})

    attempts: Count | None = None
    """How many tries there were."""


class TaskLost(Stated, Payload, event_type="task.lost"):
    """It can no longer be proven that the worker is alive."""

    required_on_emission = frozenset({"reason"})

    worker: Worker | None = None
    """Who executed it."""

    last_seen_at: Timestamp | None = None
    """When the worker was last known to be alive."""

    reason: str | None = None
    """Why nothing can be proven."""


class TaskCompleted(Stated, Timed, Outputs, Payload, event_type="task.completed"):
    """The owner declared the task complete and the durable facts agree."""

    completed_by: str | None = None
    """The owner who declared it."""

    completion_summary: str | None = None
    """What was done, in a sentence; not a proof."""

    artifact_ids: tuple[str, ...] | None = None
    """Deliverables that the completion rests on."""

    evidence_refs: tuple[str, ...] | None = None
    """Proofs that the completion rests on."""

    delivery_state: Delivery | None = None
    """Whether the result reached its receiver."""

    attempts: Count | None = None
    """How many tries there were."""


class TaskArchived(Stated, Payload, event_type="task.archived"):
    """The task left active scheduling."""

    reason: str | None = None
    """Why it was archived."""

    final_status: str | None = None
    """The state it had before."""

    retained_refs: Refs | None = None
    """What of it is kept."""

    retention: JsonMap | None = None
    """How long it is kept, by the author's own keys."""

    last_phase: Phase | None = None
    """What it was at when it left."""
