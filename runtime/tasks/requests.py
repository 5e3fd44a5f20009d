"""What the commands about tasks take and give."""

from typing import Annotated, Literal

from pydantic import Field

from models.shape import JsonMap
from models.task_values import AcceptanceCriterion, RetryPolicy, TaskConstraints, TaskProgress, TaskRecord, Worker
from models.values import TaskProfile
from runtime.control.command import Answer, Asked, Mutation

Id = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")]
Words = Annotated[str, Field(max_length=20_000)]
EdgeName = Literal[
    "parent", "child", "blocks", "blocked_by", "source_task", "source_attempt", "spawned_subagent",
    "assigned_thread", "produced_artifact", "consumed_artifact", "evidence",
]  # fmt: skip
Propagation = Literal["children", "none"]


class CreateTask(Mutation):
    """A piece of work to be done."""

    session_id: Id | None = None
    """The session; None: a new one."""

    thread_id: Id | None = None
    task_id: Id | None = None
    """The caller's own name for it."""

    parent_task_id: Id | None = None
    """The task it is a part of."""

    objective: Annotated[str, Field(min_length=1, max_length=20_000)]
    """What is to be reached."""

    title: Words | None = None
    task_kind: Words | None = None
    priority: Words | None = None
    visibility: Literal["foreground", "background", "internal", "hidden"] = "foreground"
    requested_by: Words | None = None
    owner: Words | None = None
    """Who answers for it; None: the runtime."""

    assignee: Words | None = None
    scope: JsonMap | None = None
    profile: TaskProfile | None = None
    constraints: TaskConstraints | None = None
    """`time` may hold `budget_s` and `inactivity_s`: past either the task is timed out."""

    acceptance: tuple[AcceptanceCriterion, ...] = Field(default=(), max_length=1_000)
    """What must be true before it may be completed."""

    depends_on: tuple[Id, ...] = Field(default=(), max_length=1_000)
    """The tasks that must be completed first."""


class TaskAsked(Mutation):
    """A task of a session."""

    session_id: Id
    task_id: Id


class UpdateTask(TaskAsked):
    """What is to change; fields left out stay as they are."""

    title: Words | None = None
    objective: Annotated[str, Field(min_length=1, max_length=20_000)] | None = None
    priority: Words | None = None
    owner: Words | None = None
    assignee: Words | None = None
    scope: JsonMap | None = None
    profile: TaskProfile | None = None
    constraints: TaskConstraints | None = None
    acceptance: tuple[AcceptanceCriterion, ...] | None = Field(default=None, max_length=1_000)


class StartTask(TaskAsked):
    """Who begins to work on a task."""

    worker: Worker | None = None
    """None: this runtime."""

    retry_policy: RetryPolicy | None = None
    input_refs: tuple[str, ...] | None = None


class AppendProgress(TaskAsked):
    """How far a task is."""

    progress: TaskProgress


class ReasonedTask(TaskAsked):
    """A task and why."""

    reason: Annotated[str, Field(min_length=1, max_length=2_000)] = "asked for"
    requested_by: Words = "user"


class PropagatedTask(ReasonedTask):
    """A task, why, and what happens to its parts."""

    propagation: Propagation = "children"


class CompleteTask(TaskAsked):
    """What the completion rests on."""

    completed_by: Words = "user"
    summary: Words | None = None
    """What was done, in a sentence; not a proof."""

    artifact_ids: tuple[Id, ...] = ()
    """Deliverables; each must be on record."""

    evidence_refs: tuple[str, ...] = ()
    """Proofs; each must be on record."""

    criteria: dict[str, Literal["met", "unmet", "unknown"]] = Field(default_factory=dict)
    """How each criterion of acceptance stands."""

    output_refs: tuple[str, ...] | None = None


class FailTask(TaskAsked):
    """Why it cannot be done."""

    failure_category: Words = "task_failed"
    message: Annotated[str, Field(min_length=1, max_length=20_000)]
    retryable: bool = True


class LinkTasks(TaskAsked):
    """An edge from a task to another task, a thread, a deliverable, a proof or a child agent."""

    kind: EdgeName
    target_id: Id
    reason: Words | None = None


class GetTask(Asked):
    """A task, now or as it was."""

    session_id: Id
    task_id: Id
    at: int | None = Field(default=None, ge=0)


class ListTasks(Asked):
    """Which tasks."""

    session_id: Id
    status: tuple[str, ...] | None = None
    """Only tasks in one of these states."""

    parent_task_id: Id | None = None
    at: int | None = Field(default=None, ge=0)
    limit: int = Field(default=200, ge=1, le=10_000)


class TaskAnswer(Answer):
    """A task after the command."""

    session_id: str
    task: TaskRecord
    run_id: str | None = None
    """The try that the command began or ended."""

    repeated: bool = False
    also: tuple[str, ...] = ()
    """Other tasks that the command changed too."""


class Tasks(Answer):
    """Tasks, the oldest first."""

    session_id: str
    tasks: tuple[TaskRecord, ...]
    counts: dict[str, int]
