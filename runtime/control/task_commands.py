"""Commands about tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from models.errors import NotFound
from runtime.control.command import command
from runtime.kernel import Draft, Request
from runtime.tasks import decisions
from runtime.tasks.plan import Plan
from runtime.tasks.requests import (
    AppendProgress,
    CompleteTask,
    CreateTask,
    FailTask,
    GetTask,
    LinkTasks,
    ListTasks,
    PropagatedTask,
    ReasonedTask,
    StartTask,
    TaskAnswer,
    TaskAsked,
    Tasks,
    UpdateTask,
)

if TYPE_CHECKING:
    from runtime.runtime import Runtime
    from views.state import State


def _plan(runtime: Runtime, state: State) -> Plan:
    return Plan(state, runtime.kernel.clock(), runtime.kernel.new_id)


def _answer(state: State, task_id: str, *, repeated: bool = False, also: list[str] | None = None) -> TaskAnswer:
    task = state.task(task_id)
    assert task is not None
    return TaskAnswer(
        session_id=state.session_id,
        task=task,
        run_id=task.current_run_id,
        repeated=repeated,
        also=tuple(also or ()),
    )


async def _decided(
    runtime: Runtime, name: str, asked: TaskAsked, decide: Callable[[Plan], list[str] | None]
) -> TaskAnswer:
    """Carry out a decision about a task of a session: once per key, all of its facts or none."""
    kernel = runtime.kernel
    if not kernel.known(asked.session_id):
        raise NotFound("session", asked.session_id)
    async with kernel.writing(asked.session_id) as state:
        request = runtime.request(name, asked)
        if kernel.repeated(state, request):
            return _answer(state, asked.task_id, repeated=True)
        plan = _plan(runtime, state)
        also = decide(plan)
        await kernel.commit(asked.session_id, plan.drafts, request=request)
    return _answer(kernel.state(asked.session_id), asked.task_id, also=also)


@command(CreateTask, TaskAnswer, effect="writes")
async def create_task(runtime: Runtime, asked: CreateTask) -> TaskAnswer:
    """Create a task with an objective; the runtime takes it, and it waits for the tasks it depends on."""
    kernel = runtime.kernel
    key = asked.idempotency_key or asked.task_id
    session_id = asked.session_id or runtime.session_of_request(key) or kernel.new_id("session")
    async with kernel.writing(session_id) as state:
        request = runtime.request("create_task", asked, key=key)
        if kernel.repeated(state, request):
            return _answer(state, _created_by(state, request), repeated=True)
        task_id = asked.task_id or kernel.new_id("task")
        begun: list[Draft] = []
        if not state.event_count:
            begun.append(Draft(runtime.session_payload(asked.title, asked.requested_by or "user")))
        if asked.thread_id is not None and asked.thread_id not in state.threads:
            raise NotFound("thread", asked.thread_id)
        plan = _plan(runtime, state)
        decisions.create(plan, asked, task_id, asked.thread_id)
        await kernel.commit(session_id, [*begun, *plan.drafts], request=request)
    return _answer(kernel.state(session_id), task_id)


def _created_by(state: State, request: Request) -> str:
    """The task that an earlier request made: keyed by the caller, so the key is on record with it."""
    found = state.index.get(("task_idempotency", request.key))
    if found is not None:
        return found
    assert request.key in state.tasks  # without another key, the caller's own name for the task is the key
    return request.key


@command(UpdateTask, TaskAnswer, effect="writes")
async def update_task(runtime: Runtime, asked: UpdateTask) -> TaskAnswer:
    """Change what a task is about, who does it, or what it must keep to."""
    return await _decided(runtime, "update_task", asked, lambda plan: decisions.update(plan, asked))


@command(StartTask, TaskAnswer, effect="writes")
async def start_task(runtime: Runtime, asked: StartTask) -> TaskAnswer:
    """Begin a try at a task; if it has to wait for others, that is recorded instead."""

    def decide(plan: Plan) -> None:
        decisions.start(plan, asked, runtime.telemetry.runtime_id)

    return await _decided(runtime, "start_task", asked, decide)


@command(AppendProgress, TaskAnswer, effect="writes")
async def append_task_progress(runtime: Runtime, asked: AppendProgress) -> TaskAnswer:
    """Record how far a task is."""
    return await _decided(runtime, "append_task_progress", asked, lambda plan: decisions.progress(plan, asked))


@command(PropagatedTask, TaskAnswer, effect="writes")
async def pause_task(runtime: Runtime, asked: PropagatedTask) -> TaskAnswer:
    """Let a task, and unless told otherwise its parts, stand still."""
    return await _decided(runtime, "pause_task", asked, lambda plan: decisions.pause(plan, asked))


@command(PropagatedTask, TaskAnswer, effect="writes")
async def resume_task(runtime: Runtime, asked: PropagatedTask) -> TaskAnswer:
    """Let a task, and unless told otherwise its paused parts, go on."""
    return await _decided(runtime, "resume_task", asked, lambda plan: decisions.resume(plan, asked))


@command(PropagatedTask, TaskAnswer, effect="writes")
async def cancel_task(runtime: Runtime, asked: PropagatedTask) -> TaskAnswer:
    """Cancel a task and, unless told otherwise, its parts: the wish is recorded first, then each end."""
    kernel = runtime.kernel
    wished = await _decided(runtime, "cancel_task", asked, lambda plan: decisions.request_cancel(plan, asked))
    tasks = [*wished.also, asked.task_id]
    await runtime.engine.stop_tasks(asked.session_id, tasks, asked.reason)
    async with kernel.writing(asked.session_id) as state:
        plan = _plan(runtime, state)
        decisions.cancel(plan, tasks, asked.reason, asked.requested_by)
        await kernel.commit(asked.session_id, plan.drafts)
    done = _answer(kernel.state(asked.session_id), asked.task_id, also=list(wished.also))
    return done.model_copy(update={"repeated": wished.repeated})


@command(ReasonedTask, TaskAnswer, effect="writes")
async def retry_task(runtime: Runtime, asked: ReasonedTask) -> TaskAnswer:
    """Begin a new try at a task; the tries before it are kept."""

    def decide(plan: Plan) -> None:
        decisions.retry(plan, asked, runtime.telemetry.runtime_id)

    return await _decided(runtime, "retry_task", asked, decide)


@command(CompleteTask, TaskAnswer, effect="writes")
async def complete_task(runtime: Runtime, asked: CompleteTask) -> TaskAnswer:
    """Declare a task complete; refused while anything on record speaks against it."""
    return await _decided(runtime, "complete_task", asked, lambda plan: decisions.complete(plan, asked))


@command(FailTask, TaskAnswer, effect="writes")
async def fail_task(runtime: Runtime, asked: FailTask) -> TaskAnswer:
    """Declare that a task cannot be done without a new request."""
    return await _decided(runtime, "fail_task", asked, lambda plan: decisions.fail(plan, asked))


@command(ReasonedTask, TaskAnswer, effect="writes")
async def archive_task(runtime: Runtime, asked: ReasonedTask) -> TaskAnswer:
    """Take a task that has ended out of active scheduling."""
    return await _decided(runtime, "archive_task", asked, lambda plan: decisions.archive(plan, asked))


@command(LinkTasks, TaskAnswer, effect="writes")
async def link_tasks(runtime: Runtime, asked: LinkTasks) -> TaskAnswer:
    """Add an edge from a task to another task, a thread, a deliverable, a proof or a child agent."""
    return await _decided(runtime, "link_tasks", asked, lambda plan: decisions.link(plan, asked))


@command(LinkTasks, TaskAnswer, effect="writes")
async def unlink_tasks(runtime: Runtime, asked: LinkTasks) -> TaskAnswer:
    """Take an edge away; that it was there stays on record."""
    return await _decided(runtime, "unlink_tasks", asked, lambda plan: decisions.unlink(plan, asked))


@command(GetTask, TaskAnswer, effect="reads")
async def get_task(runtime: Runtime, asked: GetTask) -> TaskAnswer:
    """A task with its tries, edges, progress and deliverables."""
    state = await runtime.state_at(asked.session_id, asked.at)
    if asked.task_id not in state.tasks:
        raise NotFound("task", asked.task_id)
    return _answer(state, asked.task_id)


@command(ListTasks, Tasks, effect="reads")
async def list_tasks(runtime: Runtime, asked: ListTasks) -> Tasks:
    """The tasks of a session, the oldest first."""
    state = await runtime.state_at(asked.session_id, asked.at)
    found = []
    counts: dict[str, int] = {}
    for task_id in state.lane("tasks"):
        task = state.task(task_id)
        if task is None or asked.parent_task_id not in (None, task.parent_task_id):
            continue
        counts[task.status or "unknown"] = counts.get(task.status or "unknown", 0) + 1
        if asked.status is None or task.status in asked.status:
            found.append(task)
    return Tasks(session_id=asked.session_id, tasks=tuple(found[: asked.limit]), counts=counts)
