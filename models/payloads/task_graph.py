"""Facts about the task graph: delegation, dependencies, and each try at a task."""

from typing import Annotated

from models.parts import Failed, Outputs, Stated, Timed
from models.payload import Payload
from models.shape import Known, Shape
from models.task_values import Edge, RetryPolicy, Worker
from models.values import Count, Refs


class AttemptNamed(Shape):
    """A fact about one try at a task."""

    task_id: str | None = None
    """The task; repeats the envelope, as some emitters do."""

    run_id: str | None = None
    """The try; repeats the envelope."""

    attempt_id: str | None = None
    """The same try, where the source names its attempts apart; repeats the envelope."""

    attempt_index: Count | None = None
    """Which try it is, the first being 1."""

    worker: Worker | None = None
    """Who executes it."""


class TaskDelegated(Stated, Payload, event_type="task.delegated"):
    """A child task, subagent, job or worker was given work."""

    required_on_emission = frozenset({"delegate_kind", "delegate_id"})

    delegate_kind: Annotated[str, Known("task", "subagent", "job", "worker")] | None = None
    """What the work was given to."""

    delegate_id: str | None = None
    """The child task, subagent, job or worker."""

    objective: str | None = None
    """What it is to reach."""

    edge: Edge | None = None
    """The edge that this adds to the graph."""

    worker: Worker | None = None
    """Who executes it."""


class TaskDependencyUpdated(Stated, Payload, event_type="task.dependency.updated"):
    """An edge of the graph, or a blocker, changed."""

    required_on_emission = frozenset({"change", "edge"})

    change: Annotated[str, Known("added", "updated", "removed", "satisfied")] | None = None
    """What happened to the edge."""

    edge: Edge | None = None
    """The edge after the change."""

    reason: str | None = None
    """Why it changed."""


class TaskAttemptStarted(AttemptNamed, Stated, Payload, event_type="task.attempt.started"):
    """A try at the task started."""

    required_on_emission = frozenset({"attempt_index"})

    cause: (
        Annotated[str, Known("first", "retry", "crash_resume", "other_worker", "other_routing", "user_rerun")] | None
    ) = None
    """Why there is a new try."""

    input_refs: Refs | None = None
    """What it was given."""

    checkpoint_refs: Refs | None = None
    """Where it goes on from."""

    retry_policy: RetryPolicy | None = None
    """What happens if it fails."""


class TaskAttemptCompleted(AttemptNamed, Stated, Timed, Outputs, Payload, event_type="task.attempt.completed"):
    """A try at the task completed; the task itself completes only when its owner says so."""

    required_on_emission = frozenset({"attempt_index"})

    completion_summary: str | None = None
    """What the worker says it did; not a proof."""

    checkpoint_refs: Refs | None = None
    """Where a later try could go on from."""


class TaskAttemptFailed(AttemptNamed, Failed, Timed, Outputs, Payload, event_type="task.attempt.failed"):
    """A try at the task failed."""

    required_on_emission = frozenset({"attempt_index", "failure_category", "message"})

    next_attempt_policy: str | None = None
    """What happens next, such as `manual_or_policy_retry`."""

    checkpoint_refs: Refs | None = None
    """Where the next try can go on from."""
