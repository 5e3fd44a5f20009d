"""Facts about child agents."""

from models.parts import Failed, Outputs, Stated, Timed
from models.payload import Payload
from models.shape import Shape
from models.values import Cost, Count, Usage


class Child(Shape):
    """Which child agent a fact is about."""

    child_thread_id: str | None = None
    """The child's own thread."""

    role: str | None = None
    """What it is for."""

    nickname: str | None = None
    """Its name for people."""

    last_message_ref: str | None = None
    """Where its last message is kept."""


class SubagentSpawned(Child, Stated, Payload, event_type="subagent.spawned"):
    """A child agent was created."""

    required_on_emission = frozenset({"child_thread_id", "role", "isolation"})

    child_session_id: str | None = None
    """The child's own session, if it has one."""

    parent_subagent_id: str | None = None
    """The child agent that created it, if not the main agent."""

    agent_type: str | None = None
    """The definition it was made from."""

    isolation: str | None = None
    """How far it is kept apart: shared, workspace copy, process, remote."""

    model_policy: str | None = None
    """Which models it may use."""

    input_ref: str | None = None
    """Where what it was asked is kept."""

    objective: str | None = None
    """What it is to reach, in a sentence."""


class SubagentStatus(Child, Stated, Payload, event_type="subagent.status"):
    """The status of a child agent changed."""

    required_on_emission = frozenset({"status"})

    previous_status: str | None = None
    """The state before."""

    recoverable: bool | None = None
    """Whether its thread can be resumed."""


class SubagentInput(Child, Payload, event_type="subagent.input"):
    """Input was sent to a child agent."""

    required_on_emission = frozenset({"input_ref"})

    input_ref: str | None = None
    """Where the input is kept."""

    input_chars: Count | None = None
    """Length of the input in characters."""

    source: str | None = None
    """Who sent it: the parent, a user."""


class SubagentCompleted(Child, Stated, Timed, Outputs, Payload, event_type="subagent.completed"):
    """A child agent completed."""

    result_ref: str | None = None
    """Where its result is kept."""

    usage: Usage | None = None
    """Tokens it used; they are not repeated in the parent's calls."""

    cost: Cost | None = None
    """What it cost."""

    tool_calls: Count | None = None
    """How many tool calls it made."""


class SubagentFailed(Child, Failed, Timed, Payload, event_type="subagent.failed"):
    """A child agent failed."""

    required_on_emission = frozenset({"failure_category", "message"})

    recoverable: bool | None = None
    """Whether its thread can be resumed."""


class SubagentClosed(Child, Stated, Payload, event_type="subagent.closed"):
    """A child agent was closed."""

    reason: str | None = None
    """Why it was closed."""

    closed_by: str | None = None
    """Who closed it."""

    final_status: str | None = None
    """The state it had before."""
