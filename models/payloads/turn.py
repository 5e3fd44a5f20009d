"""Facts about turns, the cycles of submitted input."""

from models.parts import Failed, Outputs, Stated, Timed
from models.payload import Payload
from models.shape import JsonMap
from models.values import Count, Refs


class TurnSubmitted(Stated, Payload, event_type="turn.submitted"):
    """An input was accepted or queued."""

    required_on_emission = frozenset({"input_ref", "source", "status"})

    input_ref: str | None = None
    """Where the input is kept."""

    input_refs: Refs | None = None
    """Where the parts of the input are kept, if there are several."""

    input_chars: Count | None = None
    """Length of the input in characters."""

    source: str | None = None
    """Who submitted it: a user, a schedule, another agent, the system."""

    queued_turn_id: str | None = None
    """The turn's name in the queue, if it was queued."""

    idempotency_key: str | None = None
    """The caller's key: the same key twice makes one turn."""

    options: JsonMap | None = None
    """Options of the turn, such as approval and sandbox policy, by the author's own keys."""

    metadata: JsonMap | None = None
    """Further metadata by the author's own keys."""


class TurnStarted(Stated, Payload, event_type="turn.started"):
    """Execution of the turn began."""

    required_on_emission = frozenset({"status"})

    queue_wait_ms: float | None = None
    """How long it had waited since it was submitted, in milliseconds."""


class TurnCompleted(Stated, Timed, Outputs, Payload, event_type="turn.completed"):
    """The turn ended successfully."""

    required_on_emission = frozenset({"status", "duration_ms"})

    stop_reason: str | None = None
    """Why it ended: finished, a limit of steps, a refusal."""

    output_ref: str | None = None
    """Where the final answer is kept."""

    output_chars: Count | None = None
    """Length of the final answer in characters."""

    model_calls: Count | None = None
    """How many model calls it made."""

    tool_calls: Count | None = None
    """How many tool calls it made."""


class TurnFailed(Failed, Timed, Payload, event_type="turn.failed"):
    """The turn ended in failure."""

    required_on_emission = frozenset({"status", "failure_category", "message"})

    interrupted: bool | None = None
    """Whether somebody stopped it, as opposed to it going wrong."""
