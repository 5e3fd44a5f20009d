"""Facts about jobs, batches or scheduled work that hand out items."""

from typing import Annotated

from models.parts import Failed, Outputs, Stated, Timed
from models.payload import Payload
from models.shape import Known, Shape, Timestamp
from models.values import Amount, Count, Refs


class JobCounts(Shape):
    """How many items a job has, by state."""

    total_items: Count | None = None
    """Items in all."""

    pending_items: Count | None = None
    """Items that wait."""

    running_items: Count | None = None
    """Items under way."""

    completed_items: Count | None = None
    """Items that completed."""

    failed_items: Count | None = None
    """Items that failed."""

    reported_items: Count | None = None
    """Items whose result was reported."""


class ItemNamed(Shape):
    """Which item of a job a fact is about."""

    item_index: Count | None = None
    """Its place in the job, from 0."""

    item_status: Annotated[str, Known("pending", "running", "completed", "failed", "reported")] | None = None
    """The item's own state, apart from the job's."""

    attempt_index: Count | None = None
    """Which try at the item it is, the first being 1."""

    assigned_thread_id: str | None = None
    """The thread that works on it."""


class JobCreated(JobCounts, Stated, Payload, event_type="job.created"):
    """A job was created."""

    required_on_emission = frozenset({"instruction_ref"})

    job_kind: Annotated[str, Known("batch", "scheduled", "background")] | None = None
    """What sort of job it is."""

    title: str | None = None
    """Its name for people."""

    instruction_ref: str | None = None
    """Where what is to be done is kept."""

    input_refs: Refs | None = None
    """Where the inputs are kept."""

    output_schema_ref: str | None = None
    """Where the form of the outputs is kept."""

    schedule: str | None = None
    """When it runs, as the scheduler spells it."""

    max_runtime_ms: Amount | None = None
    """How long it may take, in milliseconds."""


class JobStarted(JobCounts, Stated, Payload, event_type="job.started"):
    """A job started."""

    scheduled_for: Timestamp | None = None
    """When it should have started."""

    assigned_threads: tuple[str, ...] | None = None
    """The threads that work on it."""


class JobProgress(JobCounts, Stated, Payload, event_type="job.progress"):
    """The counters of a job changed."""

    required_on_emission = frozenset({"total_items", "completed_items", "failed_items"})

    item_cursor: str | None = None
    """How far the items have been handed out."""

    message: str | None = None
    """A sentence on the progress."""


class JobItemStarted(ItemNamed, Payload, event_type="job.item.started"):
    """An item of a job started."""

    input_refs: Refs | None = None
    """Where its input is kept."""


class JobItemCompleted(ItemNamed, Timed, Outputs, Payload, event_type="job.item.completed"):
    """An item of a job completed."""

    result_ref: str | None = None
    """Where its result is kept; a retry does not make a second one."""


class JobItemFailed(ItemNamed, Failed, Timed, Payload, event_type="job.item.failed"):
    """An item of a job failed."""

    required_on_emission = frozenset({"failure_category", "message"})

    will_retry: bool | None = None
    """Whether the item will be tried again."""


class JobCompleted(JobCounts, Stated, Timed, Outputs, Payload, event_type="job.completed"):
    """A job completed."""

    required_on_emission = frozenset({"total_items", "completed_items", "failed_items"})

    result_ref: str | None = None
    """Where its result is kept."""


class JobFailed(JobCounts, Failed, Timed, Payload, event_type="job.failed"):
    """A job failed."""

    required_on_emission = frozenset({"failure_category", "message"})

    failed_item_ids: tuple[str, ...] | None = None
    """The items that failed."""


class JobCancelled(JobCounts, Stated, Timed, Payload, event_type="job.cancelled"):
    """A job was cancelled; items that had completed stay completed."""

    reason: str | None = None
    """Why it was cancelled."""

    cancelled_by: str | None = None
    """Who cancelled it."""
