"""Who is who: every identity of a runtime fact, what it belongs to, and which ones an event must carry."""

from __future__ import annotations

from typing import TYPE_CHECKING, NewType

if TYPE_CHECKING:
    from models.event import Event

EventId = NewType("EventId", str)
RuntimeId = NewType("RuntimeId", str)
SessionId = NewType("SessionId", str)
ThreadId = NewType("ThreadId", str)
TurnId = NewType("TurnId", str)
TaskId = NewType("TaskId", str)
RunId = NewType("RunId", str)
AttemptId = NewType("AttemptId", str)
StepId = NewType("StepId", str)
ToolCallId = NewType("ToolCallId", str)
ActionId = NewType("ActionId", str)
SubagentId = NewType("SubagentId", str)
ArtifactId = NewType("ArtifactId", str)
EvidenceId = NewType("EvidenceId", str)
RequestId = NewType("RequestId", str)
ModelRequestId = NewType("ModelRequestId", str)
ProcessId = NewType("ProcessId", str)
ChannelId = NewType("ChannelId", str)
JobId = NewType("JobId", str)
JobItemId = NewType("JobItemId", str)
QueueId = NewType("QueueId", str)
TraceId = NewType("TraceId", str)
SpanId = NewType("SpanId", str)

OWNERS: dict[str, tuple[str, ...]] = {
    "runtime_id": (),
    "session_id": ("runtime_id",),
    "thread_id": ("session_id",),
    "turn_id": ("thread_id",),
    "task_id": ("session_id", "thread_id", "parent_task_id"),
    "parent_task_id": ("session_id", "thread_id"),
    "root_task_id": ("session_id", "thread_id"),
    "run_id": ("task_id",),
    "attempt_id": ("task_id",),
    "step_id": ("turn_id", "task_id", "run_id"),
    "tool_call_id": ("step_id",),
    "action_id": ("turn_id", "task_id", "tool_call_id"),
    "subagent_id": ("session_id", "thread_id", "turn_id"),
    "artifact_id": (),
    "evidence_id": (),
    "request_id": ("runtime_id",),
    "model_request_id": ("turn_id", "run_id"),
    "process_id": ("session_id", "thread_id", "turn_id", "tool_call_id"),
    "channel_id": ("runtime_id",),
    "job_id": ("session_id", "task_id"),
    "job_item_id": ("job_id",),
    "queue_id": ("thread_id",),
}
"""Which identities each identity belongs to: any of those listed may be its owner.

A thread belongs to exactly one session, a turn to one thread, a run to one task, a tool call to one step. Artifacts and
evidence have no owner here: their own services keep them and the runtime only refers to them.
"""

MEANINGS: dict[str, str] = {
    "runtime_id": "The runtime installation or service instance; stable enough to attribute traces to it.",
    "session_id": "The durable container of work a user sees; it has one or more threads.",
    "thread_id": "An ordered context of execution inside a session.",
    "turn_id": "One cycle of submitted input, by a user or by the system.",
    "task_id": "A unit of work with an objective, a lifecycle, attempts, relationships and acceptance.",
    "parent_task_id": "The task that this task is a part of.",
    "root_task_id": "The topmost task of the tree that this task is in.",
    "run_id": "One try at a task; a retry, a resume after a crash or another worker makes a new one.",
    "attempt_id": "A second name for the same try, kept where a source numbers its attempts apart from its runs.",
    "step_id": "One ordered item of work: a status, a message, a tool call, an artifact or an action.",
    "tool_call_id": "One invocation of a tool; it may have result refs.",
    "action_id": "One decision that a human or a policy has to make.",
    "subagent_id": "A child agent's context; it has links to its parent session, thread and turn.",
    "artifact_id": "A durable deliverable, kept by the artifact service.",
    "evidence_id": "A trace, replay, verification or review, kept by the evidence system.",
    "request_id": "One request made to the runtime, as the caller or the transport named it.",
    "model_request_id": "One call to a model provider.",
    "process_id": "One command, terminal or long-lived process; the runtime's own name, not the operating system's.",
    "channel_id": "A connection to a remote peer.",
    "job_id": "A batch, or scheduled work, that hands out items.",
    "job_item_id": "One item of a job.",
    "queue_id": "A queue of turns that wait.",
}
"""What each identity stands for, in a sentence."""

ALWAYS = frozenset({"runtime_id", "schema_version"})
"""What our runtime puts on every event besides its type, id and time."""

IN_SESSION = frozenset({"session_id", "sequence"})
"""What every event of a session carries; `sequence` counts within the session."""

WITHOUT_SESSION = ("runtime.", "policy.", "limit.", "channel.")
"""Facts about the whole runtime or host: they name a session only if they concern one."""

IN_TURN = (
    *("turn", "model", "reasoning", "tool", "action", "permission", "sandbox"),
    *("hook", "context", "routing", "cost", "rate_limit", "quota"),
)
"""Families that only happen inside a turn, be it a user's or a system's."""

CARRIED: tuple[tuple[str, frozenset[str]], ...] = (
    *((f"{family}.", frozenset({"thread_id", "turn_id"})) for family in IN_TURN),
    ("thread.", frozenset({"thread_id"})),
    ("queue.", frozenset({"thread_id"})),
    ("run.", frozenset({"thread_id"})),
    ("process.", frozenset({"thread_id", "process_id"})),
    ("model.", frozenset({"model_request_id"})),
    ("tool.", frozenset({"step_id", "tool_call_id"})),
    ("action.", frozenset({"action_id"})),
    ("subagent.", frozenset({"thread_id", "subagent_id"})),
    ("subagent.spawned", frozenset({"turn_id"})),
    ("task.", frozenset({"task_id"})),
    ("task.started", frozenset({"run_id"})),
    ("task.attempt.", frozenset({"run_id"})),
    ("task.profile.", frozenset({"thread_id", "turn_id"})),
    ("artifact.", frozenset({"artifact_id"})),
    ("evidence.", frozenset({"evidence_id"})),
    ("channel.", frozenset({"channel_id"})),
    ("channel.permission_", frozenset({"session_id", "sequence", "action_id"})),
    ("job.", frozenset({"job_id"})),
    ("job.item.", frozenset({"job_item_id"})),
)
"""The envelope fields an event must carry, by the beginning of its type; all matching lines count."""

EXEMPT: dict[str, frozenset[str]] = {
    "tool.catalog.resolved": frozenset({"step_id", "tool_call_id"}),
    "task.profile.resolved": frozenset({"task_id"}),
}
"""Where a line of CARRIED reaches too far: a catalogue is no call, and a turn may have a profile without a task."""


def required_ids(event_type: str) -> frozenset[str]:
    """The envelope fields an event of this type must carry when our runtime emits it."""
    needed = set(ALWAYS)
    if not event_type.startswith(WITHOUT_SESSION):
        needed |= IN_SESSION
    for beginning, fields in CARRIED:
        if event_type.startswith(beginning):
            needed |= fields
    return frozenset(needed) - EXEMPT.get(event_type, frozenset())


def missing_ids(event: Event) -> frozenset[str]:
    """The required envelope fields that this event lacks; on reading, lacking one is no fault."""
    needed = required_ids(event.type)
    if event.type.startswith("hook.") and getattr(event.payload, "point", None) == "session_start":
        needed -= {"thread_id", "turn_id"}  # that hook runs before there is a thread or a turn
    return frozenset(name for name in needed if getattr(event, name) is None)
