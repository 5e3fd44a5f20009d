"""The states of work, what each means, and which event leads a task from one to the next."""

from dataclasses import dataclass
from enum import StrEnum

from models.errors import IllegalTransition


class State(StrEnum):
    """The sixteen states of the specification, and five more that only tasks have."""

    ACCEPTED = "accepted"
    QUEUED = "queued"
    PREPARING = "preparing"
    RUNNING = "running"
    WAITING_INPUT = "waiting_input"
    WAITING_PERMISSION = "waiting_permission"
    WAITING_RESOURCE = "waiting_resource"
    BLOCKED = "blocked"
    STREAMING = "streaming"
    RETRYING = "retrying"
    LOST = "lost"
    TIMED_OUT = "timed_out"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    STALE = "stale"

    DRAFT = "draft"
    PAUSED = "paused"
    CANCELLING = "cancelling"
    ARCHIVED = "archived"
    UNKNOWN = "unknown"


TASK_ONLY = frozenset({State.DRAFT, State.PAUSED, State.CANCELLING, State.ARCHIVED, State.UNKNOWN})
"""States that the specification's own list does not have."""

SIXTEEN = tuple(state for state in State if state not in TASK_ONLY)

MEANINGS: dict[State, str] = {
    State.ACCEPTED: "The runtime has received the request.",
    State.QUEUED: "The work waits behind another turn or a policy gate.",
    State.PREPARING: "Context, model, tools or policy are being resolved.",
    State.RUNNING: "The execution loop is active.",
    State.WAITING_INPUT: "Input of the user, or structured input from outside, is needed.",
    State.WAITING_PERMISSION: "A human, a policy or the host has to approve.",
    State.WAITING_RESOURCE: "A credential, quota, file, network, worker or external system is not available.",
    State.BLOCKED: "An action, credential, policy, context, dependency, tool or quota is missing.",
    State.STREAMING: "Output of a model or tool is being emitted.",
    State.RETRYING: "A retry or fallback is under way.",
    State.LOST: "It cannot be proven that the worker is alive.",
    State.TIMED_OUT: "A time or inactivity budget ended the work.",
    State.COMPLETED: "The owner declared completion and the durable facts agree.",
    State.FAILED: "The work cannot go on without a new request or a repair.",
    State.CANCELLED: "A user, a policy or the runtime interrupted the work.",
    State.STALE: "The known state may not be the present one.",
    State.DRAFT: "The task is written down, and nobody has taken it yet.",
    State.PAUSED: "Somebody stopped the task for a while.",
    State.CANCELLING: "Cancellation was asked for and is not finished; no new children start.",
    State.ARCHIVED: "The task has left active scheduling.",
    State.UNKNOWN: "Nobody told the state.",
}

TERMINAL = frozenset({State.TIMED_OUT, State.COMPLETED, State.FAILED, State.CANCELLED, State.ARCHIVED})
"""Where work has ended. All but `archived` may be archived; `failed` and `timed_out` may be tried again on request."""

WAITING = frozenset({State.WAITING_INPUT, State.WAITING_PERMISSION, State.WAITING_RESOURCE})
EXECUTING = frozenset({State.PREPARING, State.RUNNING, State.STREAMING, State.RETRYING})
STOPPED = WAITING | {State.BLOCKED, State.PAUSED}
TAKEN = frozenset({State.ACCEPTED, State.QUEUED}) | EXECUTING | STOPPED | {State.STALE}
"""States of a task that somebody has taken and that is neither at its end nor on the way there."""
OPEN = frozenset(State) - TERMINAL


@dataclass(frozen=True)
class Rule:
    """From any of `sources`, an event of `event_type` leads to `target`, or changes nothing if that is None."""

    event_type: str
    sources: frozenset[State]
    target: State | None
    waiting_for: str | None = None
    """For `task.waiting` only: the rule holds if the event says that this is waited for."""


_WAITS = {
    "input": State.WAITING_INPUT,
    "permission": State.WAITING_PERMISSION,
    "resource": State.WAITING_RESOURCE,
    "worker": State.WAITING_RESOURCE,
    "dependency": State.BLOCKED,
    None: State.UNKNOWN,
}

RULES: tuple[Rule, ...] = (
    # `unknown` is the state of a task whose beginning we have not seen: any lifecycle event may follow it.
    Rule("task.created", frozenset({State.UNKNOWN}), State.DRAFT),
    Rule("task.accepted", frozenset({State.DRAFT, State.UNKNOWN}), State.ACCEPTED),
    Rule("task.queued", frozenset({State.DRAFT, State.LOST, State.UNKNOWN}) | TAKEN, State.QUEUED),
    Rule(
        "task.attempt.started",
        frozenset({State.ACCEPTED, State.QUEUED, State.RETRYING, State.STALE, State.LOST, State.UNKNOWN}),
        State.PREPARING,
    ),
    Rule("task.attempt.started", frozenset({State.PREPARING, State.RUNNING, State.STREAMING}) | STOPPED, None),
    Rule(
        "task.started",
        frozenset({State.ACCEPTED, State.QUEUED, State.STALE, State.UNKNOWN}) | EXECUTING,
        State.RUNNING,
    ),
    *(Rule("task.waiting", TAKEN | {State.UNKNOWN}, target, what) for what, target in _WAITS.items()),
    Rule("task.blocked", TAKEN | {State.UNKNOWN}, State.BLOCKED),
    Rule("task.paused", TAKEN | {State.UNKNOWN}, State.PAUSED),
    Rule("task.resumed", STOPPED | {State.STALE, State.LOST, State.UNKNOWN}, State.RUNNING),
    Rule(
        "task.retrying",
        TAKEN | {State.LOST, State.FAILED, State.TIMED_OUT, State.UNKNOWN},
        State.RETRYING,
    ),
    Rule("task.cancel_requested", OPEN, State.CANCELLING),
    Rule("task.cancelled", frozenset({State.CANCELLING, State.UNKNOWN}), State.CANCELLED),
    Rule("task.timed_out", TAKEN | {State.CANCELLING, State.LOST, State.UNKNOWN}, State.TIMED_OUT),
    Rule("task.failed", OPEN, State.FAILED),
    Rule("task.lost", TAKEN | {State.CANCELLING, State.UNKNOWN}, State.LOST),
    Rule(
        "task.completed",
        # Work may finish before its cancellation takes effect.
        frozenset({State.RUNNING, State.STREAMING, State.CANCELLING, State.STALE, State.UNKNOWN}),
        State.COMPLETED,
    ),
    Rule(
        "task.archived",
        (TERMINAL - {State.ARCHIVED}) | {State.DRAFT, State.LOST, State.UNKNOWN},
        State.ARCHIVED,
    ),
    Rule("task.updated", frozenset(State) - {State.ARCHIVED}, None),
    Rule("task.progress", OPEN - {State.DRAFT}, None),
    Rule("task.profile.resolved", OPEN, None),
    Rule("task.delegated", OPEN - {State.CANCELLING}, None),
    Rule("task.dependency.updated", frozenset(State) - {State.ARCHIVED}, None),
    Rule("task.attempt.completed", OPEN - {State.DRAFT}, None),
    Rule("task.attempt.failed", OPEN - {State.DRAFT}, None),
    # Facts about the work inside a task: output makes a running task a streaming one, and its end makes it run again.
    *(
        Rule(event_type, frozenset({State.RUNNING}), State.STREAMING)
        for event_type in ("model.delta", "reasoning.delta", "tool.progress", "process.output")
    ),
    *(
        Rule(event_type, frozenset({State.STREAMING}), State.RUNNING)
        for event_type in (
            *("model.completed", "model.failed", "tool.result", "tool.failed"),
            *("process.completed", "process.failed", "process.terminated"),
        )
    ),
    # After a restart nobody has yet proven that the work goes on.
    Rule("history.reconstructed", EXECUTING | {State.CANCELLING}, State.STALE),
)
"""The lifecycle of a task. The specification names the states and the events; how they follow is decided here."""

TRANSITIONS: dict[tuple[State, str, str | None], State] = {
    (source, rule.event_type, rule.waiting_for): rule.target or source for rule in RULES for source in rule.sources
}


def next_state(state: str, event_type: str, waiting_for: str | None = None) -> State:
    """The state of a task after an event; raise `IllegalTransition` if a `task.*` event may not come now.

    Other events never raise: they change nothing unless a rule says so. `waiting_for` is that of `task.waiting`.
    """
    now = State(state)
    if waiting_for not in _WAITS or event_type != "task.waiting":
        waiting_for = None
    found = TRANSITIONS.get((now, event_type, waiting_for))
    if found is not None:
        return found
    if event_type.startswith("task."):
        raise IllegalTransition(now, event_type, allowed_events(now))
    return now


def allowed_events(state: str) -> frozenset[str]:
    """The `task.*` events that may follow a state."""
    now = State(state)
    return frozenset(kind for source, kind, _ in TRANSITIONS if source is now and kind.startswith("task."))


@dataclass(frozen=True)
class Projected:
    """A state in the words of the published snapshot, and the exact one if that is another."""

    status: str
    native_status: str | None = None


_HELD = {str(state): "blocked" for state in STOPPED}
_SAME_THREAD = ("idle", "queued", "running", "blocked", "completed", "failed", "cancelled", "stale", "unknown")
_SAME_ATTEMPT = (*_SAME_THREAD, "preparing", "streaming", "retrying", "unavailable", "not_applicable")

THREAD_STATUS: dict[str, str] = {
    **_HELD,
    "draft": "idle",
    "archived": "idle",
    "accepted": "queued",
    "preparing": "running",
    "streaming": "running",
    "retrying": "running",
    "cancelling": "running",
    "lost": "stale",
    "timed_out": "failed",
    **{name: name for name in _SAME_THREAD},
}
"""Any state as the published snapshot spells it for a thread: the nearest word it has."""

ATTEMPT_STATUS: dict[str, str] = {**THREAD_STATUS, **{name: name for name in _SAME_ATTEMPT}}
"""Any state as the published snapshot spells it for an attempt."""

TASK_STATUS: dict[str, str] = {**{str(state): str(state) for state in State}, "streaming": "running"}
"""Any state as the published snapshot spells it for a task."""


def thread_status(state: str | None) -> Projected:
    """A thread's state for the published snapshot."""
    return _project(state, THREAD_STATUS)


def attempt_status(state: str | None) -> Projected:
    """An attempt's state for the published snapshot."""
    return _project(state, ATTEMPT_STATUS)


def task_status(state: str | None) -> Projected:
    """A task's state for the published snapshot."""
    return _project(state, TASK_STATUS)


def _project(state: str | None, table: dict[str, str]) -> Projected:
    if state is None:
        return Projected("unknown")
    status = table.get(state, "unknown")
    return Projected(status, None if status == state else str(state))
