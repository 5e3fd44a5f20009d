"""What each command about a task records: pure functions from the state and the request to facts."""

from models.errors import Conflict, NotFound
from models.payloads.task import (
    TaskAccepted,
    TaskArchived,
    TaskBlocked,
    TaskCancelled,
    TaskCancelRequested,
    TaskCompleted,
    TaskCreated,
    TaskFailed,
    TaskPaused,
    TaskProgressed,
    TaskQueued,
    TaskResumed,
    TaskRetrying,
    TaskStarted,
    TaskUpdated,
)
from models.payloads.task_graph import (
    TaskAttemptCompleted,
    TaskAttemptFailed,
    TaskAttemptStarted,
    TaskDelegated,
    TaskDependencyUpdated,
)
from models.task_values import AcceptanceCriterion, RetryPolicy, Worker
from runtime.kernel import Draft
from runtime.tasks.plan import Plan
from runtime.tasks.requests import (
    AppendProgress,
    CompleteTask,
    CreateTask,
    FailTask,
    LinkTasks,
    PropagatedTask,
    ReasonedTask,
    StartTask,
    UpdateTask,
)

OPPOSITE = {"parent": "child", "child": "parent", "blocks": "blocked_by", "blocked_by": "blocks"}
CLOSED_TO_CHILDREN = frozenset({"cancelling", "cancelled", "completed", "failed", "timed_out", "archived"})


def create(plan: Plan, asked: CreateTask, task_id: str, thread_id: str | None) -> None:
    """A task with its objective, taken by the runtime; blocked if it has to wait for others."""
    state = plan.state
    if task_id in state.tasks:
        raise Conflict(f"task {task_id} was created before, with other content or another key")
    parent = plan.task(asked.parent_task_id) if asked.parent_task_id else None
    if parent is not None and parent.status in CLOSED_TO_CHILDREN:
        raise Conflict(f"task {asked.parent_task_id} is {parent.status}: it takes no new parts")
    for other in asked.depends_on:
        plan.task(other)
    created = TaskCreated(
        objective=asked.objective, title=asked.title, task_kind=asked.task_kind, visibility=asked.visibility,
        priority=asked.priority, requested_by=asked.requested_by, owner=asked.owner, assignee=asked.assignee,
        scope=asked.scope, constraints=asked.constraints, task_profile=asked.profile,
        acceptance=_numbered(asked.acceptance) or None, idempotency_key=asked.idempotency_key, status="draft",
    )  # fmt: skip
    plan.add(task_id, created, thread_id=thread_id)
    if parent is not None:
        first = plan.drafts[-1]
        ids = first.ids.model_copy(
            update={"parent_task_id": parent.task_id, "root_task_id": parent.root_task_id or parent.task_id}
        )
        plan.drafts[-1] = Draft(first.payload, ids)
    plan.add(task_id, TaskAccepted(owner=asked.owner or "runtime", status="accepted"), thread_id=thread_id)
    if parent is not None and parent.task_id is not None:
        link = plan.edge("child", parent.task_id, task_id, "active")
        plan.add(
            parent.task_id,
            TaskDelegated(delegate_kind="task", delegate_id=task_id, objective=asked.objective, edge=link),
        )
        back = plan.edge("parent", task_id, parent.task_id, "active")
        plan.add(task_id, TaskDependencyUpdated(change="added", edge=back), thread_id=thread_id)
    for other in asked.depends_on:
        _link(plan, "blocked_by", task_id, other, None)
    if waiting := [other for other in asked.depends_on if plan.status(other) != "completed"]:
        plan.add(task_id, _blocked(waiting), thread_id=thread_id)


def _numbered(criteria: tuple[AcceptanceCriterion, ...]) -> tuple[AcceptanceCriterion, ...]:
    """Criteria that can be named later."""
    return tuple(
        one.model_copy(
            update={
                "criterion_id": one.criterion_id or f"criterion_{at}",
                "required": True if one.required is None else one.required,
                "status": one.status or "pending",
            }
        )
        for at, one in enumerate(criteria, 1)
    )


def _blocked(waiting: list[str]) -> TaskBlocked:
    return TaskBlocked(
        blocker_kind="dependency", blocker_id=waiting[0], reason=f"waits for {', '.join(waiting)}", status="blocked"
    )


def update(plan: Plan, asked: UpdateTask) -> None:
    """What the owner changed."""
    plan.task(asked.task_id)
    told = asked.model_dump(exclude_none=True, exclude={"idempotency_key", "session_id", "task_id"})
    if not told:
        raise Conflict("the command changes nothing", next_step="name at least one field")
    if "profile" in told:
        told["task_profile"] = told.pop("profile")
    if asked.acceptance is not None:
        told["acceptance"] = _numbered(asked.acceptance)
    plan.add(asked.task_id, TaskUpdated.model_validate({**told, "changed_fields": sorted(told)}))


def start(plan: Plan, asked: StartTask, runtime_id: str) -> str | None:
    """The first try at a task; what it waits for is told instead if it has to wait. Gives the try."""
    plan.task(asked.task_id)
    if waiting := plan.blockers(asked.task_id):
        plan.add(asked.task_id, _blocked(waiting))
        return None
    if plan.status(asked.task_id) == "blocked":
        plan.add(asked.task_id, TaskQueued(reason="nothing blocks it any more", status="queued"))
    cause = "first" if not plan.attempt_index(asked.task_id) else "user_rerun"
    return attempt(plan, asked.task_id, cause, asked.worker, asked.retry_policy, runtime_id, asked.input_refs)


def attempt(
    plan: Plan,
    task_id: str,
    cause: str,
    worker: Worker | None,
    policy: RetryPolicy | None,
    runtime_id: str,
    input_refs: tuple[str, ...] | None = None,
) -> str:
    """A new try begins."""
    run_id = plan.new_id("run")
    number = plan.attempt_index(task_id) + 1
    worker = worker or Worker(worker_id=runtime_id, kind="local")
    begun = TaskAttemptStarted(
        attempt_index=number, worker=worker.model_copy(update={"last_seen_at": plan.now}), cause=cause,
        input_refs=input_refs, retry_policy=policy, status="preparing",
    )  # fmt: skip
    plan.add(task_id, begun, run_id=run_id)
    plan.add(task_id, TaskStarted(attempt_index=number, worker=worker, status="running"), run_id=run_id)
    return run_id


def progress(plan: Plan, asked: AppendProgress) -> None:
    """How far the task is."""
    plan.task(asked.task_id)
    plan.add(asked.task_id, TaskProgressed.model_validate(asked.progress.model_dump(exclude_none=True)))


def pause(plan: Plan, asked: PropagatedTask) -> list[str]:
    """The task and, unless told otherwise, what is under way of its parts stand still."""
    plan.task(asked.task_id)
    also = _parts(plan, asked)
    for task_id in (*also, asked.task_id):
        told = TaskPaused(
            reason=asked.reason, requested_by=asked.requested_by, propagation=asked.propagation, status="paused"
        )
        plan.add(task_id, told)
    return also


def resume(plan: Plan, asked: PropagatedTask) -> list[str]:
    """The task and, unless told otherwise, its paused parts go on."""
    plan.task(asked.task_id)
    if waiting := plan.blockers(asked.task_id):
        raise Conflict(f"task {asked.task_id} still waits for {', '.join(waiting)}")
    parts = plan.descendants(asked.task_id) if asked.propagation == "children" else ()
    also = [task_id for task_id in parts if plan.status(task_id) == "paused"]
    for task_id in (asked.task_id, *also):
        told = TaskResumed(reason=asked.reason, requested_by=asked.requested_by, status="running")
        plan.add(task_id, told)
    return also


def _parts(plan: Plan, asked: PropagatedTask) -> list[str]:
    if asked.propagation == "none":
        return []
    open_ = (task_id for task_id in plan.descendants(asked.task_id) if not plan.ended(task_id))
    return [task_id for task_id in open_ if plan.status(task_id) not in ("draft", "paused", "cancelling", "lost")]


def request_cancel(plan: Plan, asked: PropagatedTask) -> list[str]:
    """The wish is on record before anything is stopped; from now on no new parts begin."""
    plan.task(asked.task_id)
    below = list(plan.descendants(asked.task_id)) if asked.propagation == "children" else []
    also = [task_id for task_id in below if not plan.ended(task_id)]
    for task_id in (asked.task_id, *also):
        told = TaskCancelRequested(
            reason=asked.reason, requested_by=asked.requested_by, propagation=asked.propagation, status="cancelling"
        )
        plan.add(task_id, told)
    return also


def cancel(plan: Plan, task_ids: list[str], reason: str, requested_by: str) -> None:
    """The tasks reach their end, the lowest first, their tries with them."""
    for task_id in task_ids:
        if plan.status(task_id) != "cancelling":
            continue  # it ended before the cancellation took effect
        end_attempt(plan, task_id, "cancelled", "cancelled", reason)
        children = [child for child in plan.children(task_id) if child in task_ids]
        told = TaskCancelled(
            reason=reason, requested_by=requested_by, cancelled_children=tuple(children) or None, status="cancelled"
        )
        plan.add(task_id, told)


def end_attempt(plan: Plan, task_id: str, status: str, category: str, message: str) -> None:
    """The try under way, if there is one, ended without success."""
    tries = plan.state.attempts_of(task_id)
    if not tries or tries[-1].ended_at is not None:
        return
    told = TaskAttemptFailed(
        attempt_index=len(tries), worker=tries[-1].worker, failure_category=category, message=message, status=status,
        next_attempt_policy="manual_or_policy_retry",
    )  # fmt: skip
    plan.add(task_id, told, run_id=tries[-1].run_id)


def retry(plan: Plan, asked: ReasonedTask, runtime_id: str) -> str:
    """A new try; the tries before it stay."""
    plan.task(asked.task_id)
    tries = plan.state.attempts_of(asked.task_id)
    policy = plan.retry_policy(asked.task_id)
    if not tries:
        raise Conflict(f"task {asked.task_id} was never tried", next_step="start it")
    if policy is not None and policy.max_attempts is not None and len(tries) >= policy.max_attempts:
        raise Conflict(f"task {asked.task_id} was tried {len(tries)} times, and its policy allows no more")
    error = tries[-1].last_error
    if policy is not None and error is not None and error.category in (policy.non_retryable_errors or ()):
        raise Conflict(f"task {asked.task_id} failed with {error.category}, after which it may not be tried again")
    end_attempt(plan, asked.task_id, "failed", "superseded", "another try was begun")
    told = TaskRetrying(
        failed_run_id=tries[-1].run_id, next_attempt_index=len(tries) + 1, reason=asked.reason, retry_policy=policy,
        status="retrying",
    )  # fmt: skip
    plan.add(asked.task_id, told)
    return attempt(plan, asked.task_id, "retry", None, policy, runtime_id)


def complete(plan: Plan, asked: CompleteTask) -> None:
    """The owner declares the task complete, and the facts on record agree; otherwise it is refused."""
    task = plan.task(asked.task_id)
    criteria = _judged(task.acceptance or (), asked)
    if missing := _missing(plan, asked, criteria):
        raise Conflict(
            f"task {asked.task_id} cannot be completed: {'; '.join(missing)}",
            next_step="record what is missing, or fail the task",
        )
    if criteria != (task.acceptance or ()):
        plan.add(asked.task_id, TaskUpdated(acceptance=criteria, changed_fields=("acceptance",)))
    tries = plan.state.attempts_of(asked.task_id)
    if tries and tries[-1].ended_at is None:
        ended = TaskAttemptCompleted(
            attempt_index=len(tries), worker=tries[-1].worker, completion_summary=asked.summary, status="completed",
            output_refs=asked.output_refs,
        )  # fmt: skip
        plan.add(asked.task_id, ended, run_id=tries[-1].run_id)
    told = TaskCompleted(
        completed_by=asked.completed_by, completion_summary=asked.summary, artifact_ids=asked.artifact_ids or None,
        evidence_refs=asked.evidence_refs or None, output_refs=asked.output_refs, attempts=len(tries),
        delivery_state="delivered" if task.parent_task_id in plan.state.tasks else "not_applicable",
        status="completed",
    )  # fmt: skip
    plan.add(asked.task_id, told)
    _release(plan, asked.task_id)


def _judged(criteria: tuple[AcceptanceCriterion, ...], asked: CompleteTask) -> tuple[AcceptanceCriterion, ...]:
    known = {one.criterion_id for one in criteria}
    if unknown := sorted(set(asked.criteria) - {name for name in known if name}):
        raise NotFound("criterion", ", ".join(unknown))
    return tuple(
        one.model_copy(update={"status": asked.criteria.get(one.criterion_id or "", one.status)}) for one in criteria
    )


def _missing(plan: Plan, asked: CompleteTask, criteria: tuple[AcceptanceCriterion, ...]) -> list[str]:
    """What speaks against completion, from facts on record only."""
    state = plan.state
    proofs = {ref for one in state.evidence.values() for ref in _refs_of(one)} | set(state.evidence)
    return [
        *(f"part {child} is {plan.status(child)}" for child in plan.children(asked.task_id) if not plan.ended(child)),
        *(f"it waits for {other}" for other in plan.blockers(asked.task_id)),
        *(f"decision {one.action_id} is open" for one in state.open_actions() if one.task_id == asked.task_id),
        *(
            f"turn {turn} is still at it"
            for turn in map(str, state.open_keys("turns"))
            if state.turns[turn].task_id == asked.task_id
        ),
        *(f"artifact {one} is not on record" for one in asked.artifact_ids if one not in state.artifacts),
        *(f"evidence {one} is not on record" for one in asked.evidence_refs if one not in proofs),
        *(
            f"criterion {one.criterion_id} is {one.status or 'unknown'}"
            for one in criteria
            if one.required and one.status != "met"
        ),
    ]


def _refs_of(evidence: object) -> list[str]:
    names = ("pack_ref", "trace_ref", "replay_ref", "review_ref")
    return [ref for name in names if (ref := getattr(evidence, name, None)) is not None]


def _release(plan: Plan, task_id: str) -> None:
    """Tasks that waited for this one wait no longer."""
    for edge in plan.state.edges_of(task_id):
        other = edge.target_id
        if edge.kind != "blocks" or edge.status == "removed" or other is None or other not in plan.state.tasks:
            continue
        if plan.status(other) == "archived":
            continue
        done = plan.edge("blocked_by", other, task_id, "satisfied", f"{task_id} is completed")
        plan.add(other, TaskDependencyUpdated(change="satisfied", edge=done, reason=done.reason))
        if plan.status(other) == "blocked" and not [one for one in plan.blockers(other) if one != task_id]:
            plan.add(other, TaskQueued(reason="nothing blocks it any more", status="queued"))


def fail(plan: Plan, asked: FailTask) -> None:
    """The task cannot be done without a new request."""
    plan.task(asked.task_id)
    end_attempt(plan, asked.task_id, "failed", asked.failure_category, asked.message)
    told = TaskFailed(
        failure_category=asked.failure_category, message=asked.message, retryable=asked.retryable, status="failed",
        attempts=plan.attempt_index(asked.task_id),
    )  # fmt: skip
    plan.add(asked.task_id, told)


def archive(plan: Plan, asked: ReasonedTask) -> None:
    """The task leaves active scheduling."""
    final = plan.task(asked.task_id).status
    plan.add(asked.task_id, TaskArchived(reason=asked.reason, final_status=final, status="archived"))


def link(plan: Plan, asked: LinkTasks) -> None:
    """An edge is added; one between tasks is told from both ends."""
    plan.task(asked.task_id)
    _link(plan, asked.kind, asked.task_id, asked.target_id, asked.reason)


def _link(plan: Plan, kind: str, source: str, target: str, reason: str | None) -> None:
    if kind in OPPOSITE:
        plan.task(target)
        plan.refuse_cycle(kind, source, target)
    told = plan.edge(kind, source, target, "active", reason)
    plan.add(source, TaskDependencyUpdated(change="added", edge=told, reason=reason))
    if kind in OPPOSITE:
        back = plan.edge(OPPOSITE[kind], target, source, "active", reason)
        plan.add(target, TaskDependencyUpdated(change="added", edge=back, reason=reason))


def unlink(plan: Plan, asked: LinkTasks) -> None:
    """An edge no longer holds; that it did stays on record."""
    plan.task(asked.task_id)
    pairs: list[tuple[str, str, str]] = [(asked.kind, asked.task_id, asked.target_id)]
    if asked.kind in OPPOSITE:
        pairs.append((OPPOSITE[asked.kind], asked.target_id, asked.task_id))
    for kind, source, target in pairs:
        held = [one for one in plan.state.edges_of(source) if (one.kind, one.target_id) == (kind, target)]
        if not held or held[0].status == "removed":
            raise NotFound("edge", f"{kind} from {source} to {target}")
        told = plan.edge(kind, source, target, "removed", asked.reason)
        plan.add(source, TaskDependencyUpdated(change="removed", edge=told, reason=asked.reason))
