"""Facts about decisions that a human or a policy has to make."""

from typing import Annotated

from pydantic import JsonValue

from models.parts import Stated
from models.payload import Payload
from models.shape import JsonMap, Known, Timestamp
from models.values import Amount


class ActionRequired(Stated, Payload, event_type="action.required"):
    """Execution paused for a decision; nobody's silence is consent."""

    required_on_emission = frozenset({"action_type", "decisions", "status"})

    action_id: str | None = None
    """The decision; repeats the envelope, as some emitters do."""

    tool_call_id: str | None = None
    """The tool call that waits for it; repeats the envelope."""

    action_type: str | None = None
    """What is asked for, such as `permission`, `question`, `form`."""

    decision_kind: Annotated[str, Known("user", "policy", "structured_input")] | None = None
    """Who has to decide, or in what form."""

    scope: JsonValue = None
    """What the decision holds for."""

    prompt: str | None = None
    """The question, in words."""

    input_schema: JsonMap | None = None
    """JSON Schema of the answer, exactly as declared."""

    decisions: tuple[str, ...] | None = None
    """The answers that may be given."""

    default_decision: str | None = None
    """The answer that holds when the time is up; never an approval."""

    expires_at: Timestamp | None = None
    """When the time is up."""

    policy_ref: str | None = None
    """The policy that asks."""


class ActionResolved(Stated, Payload, event_type="action.resolved"):
    """The decision was made."""

    required_on_emission = frozenset({"decision", "decided_by"})

    action_id: str | None = None
    """The decision; repeats the envelope."""

    decision: str | None = None
    """The answer given."""

    result: str | None = None
    """The answer, as other emitters name it."""

    confirmed: bool | None = None
    """Whether it was an approval."""

    decided_by: str | None = None
    """Who decided: the user, a policy, a time-out."""

    reason: str | None = None
    """Why, in a sentence."""

    response: JsonValue = None
    """The structured answer, where one was asked for and is safe to keep."""

    response_ref: str | None = None
    """Where the structured answer is kept."""

    wait_ms: Amount | None = None
    """How long the decision took, in milliseconds."""
