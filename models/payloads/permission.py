"""Facts about permissions: how a decision came about, and how a request for one ended."""

from typing import Annotated

from models.governance_values import PermissionDecision
from models.parts import Stated
from models.payload import Payload
from models.shape import JsonMap, Known, Shape, Timestamp
from models.values import Amount, Refs


class Subject(Shape):
    """What the permission is about."""

    subject_kind: Annotated[str, Known("tool", "process", "network", "file", "action")] | None = None
    """What is to be done."""

    tool_name: str | None = None
    """The tool to be called."""

    command_summary: str | None = None
    """The command to be run, in a form that is safe to show."""

    subcommands: tuple[str, ...] | None = None
    """The commands it consists of, as parsed."""

    path_check: str | None = None
    """Whether the paths it touches lie inside the allowed folders."""

    network_decision: str | None = None
    """Whether the network may be used."""

    justification: str | None = None
    """Why the agent says it needs it."""

    input_ref: str | None = None
    """Where what is to be done is kept in full."""


class PermissionEvaluated(Subject, PermissionDecision, Payload, event_type="permission.evaluated"):
    """A rule, the mode, a hook, a classifier, a human or the host's policy produced a decision."""

    required_on_emission = frozenset({"decision", "decision_source"})

    result: str | None = None
    """The outcome, as other emitters name it."""

    owner: str | None = None
    """Who answers for the decision."""

    considered: tuple[PermissionDecision, ...] | None = None
    """What each origin said, in the order they were asked."""


class PermissionRequested(Subject, Stated, Payload, event_type="permission.requested"):
    """A human or the host has to decide."""

    required_on_emission = frozenset({"subject_kind"})

    approval_action_id: str | None = None
    """The action in which the decision is asked for."""

    prompt: str | None = None
    """The question, in words."""

    decisions: tuple[str, ...] | None = None
    """The answers that may be given."""

    destructive: bool | None = None
    """Whether it destroys or overwrites something."""

    impact_scope: str | None = None
    """What would be affected."""

    rollback_advice: str | None = None
    """How it could be undone."""

    rule_refs: Refs | None = None
    """The rules that ask."""

    expires_at: Timestamp | None = None
    """When the time to decide is up."""

    scope: JsonMap | None = None
    """What the permission would hold for."""


class PermissionResolved(PermissionDecision, Stated, Payload, event_type="permission.resolved"):
    """The request ended."""

    required_on_emission = frozenset({"outcome", "decision_source"})

    outcome: Annotated[str, Known("allowed", "denied", "timed_out", "cancelled")] | None = None
    """How it ended."""

    result: str | None = None
    """The same, as other emitters name it."""

    wait_ms: Amount | None = None
    """How long the decision took, in milliseconds."""
