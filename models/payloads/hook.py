"""Facts about hooks, the pluggable points of governance."""

from typing import Annotated

from models.governance_values import PermissionMode
from models.parts import Failed, Stated, Timed
from models.payload import Payload
from models.shape import Known, Shape
from models.values import Amount, Refs

HookPoint = Annotated[
    str,
    Known(
        *("session_start", "user_prompt_submit", "pre_tool_use", "permission_request"),
        *("post_tool_use", "post_tool_failure", "post_sampling", "stop"),
    ),
]
"""When a hook runs."""


class HookNamed(Shape):
    """Which run of which hook a fact is about."""

    hook_id: str | None = None
    """The run of the hook."""

    hook_name: str | None = None
    """The hook."""

    point: HookPoint | None = None
    """When it runs."""

    handler_ref: str | None = None
    """What is run: a command, a function, an address."""


class HookStarted(HookNamed, Payload, event_type="hook.started"):
    """A hook began."""

    required_on_emission = frozenset({"point", "handler_ref"})

    timeout_ms: Amount | None = None
    """How long it may take, in milliseconds."""

    cwd: str | None = None
    """The working directory it was told."""

    workspace_scope: str | None = None
    """The part of the workspace it was told."""

    permission_mode: PermissionMode | None = None
    """The permission mode it was told."""

    sandbox_summary: str | None = None
    """The boundary it was told, in short."""

    tool_name: str | None = None
    """The tool it is about."""

    input_ref: str | None = None
    """Where its input is kept."""

    preview: str | None = None
    """A short form of its input, without secrets."""

    context_refs: Refs | None = None
    """Transcript, routing and policy it was told."""


class HookCompleted(HookNamed, Stated, Timed, Payload, event_type="hook.completed"):
    """A hook ended."""

    required_on_emission = frozenset({"point", "duration_ms"})

    decision: Annotated[str, Known("continue", "block", "allow", "deny", "ask")] | None = None
    """What it decided."""

    reason: str | None = None
    """Why, in a sentence."""

    updated_input_ref: str | None = None
    """The input as it changed it."""

    updated_tool_output_ref: str | None = None
    """The tool's output as it changed it."""

    additional_context_refs: Refs | None = None
    """What it added to the context."""

    suppress_output: bool | None = None
    """Whether its output is not to be shown."""

    output_ref: str | None = None
    """Where its output is kept."""

    audit_refs: Refs | None = None
    """What it left for the audit."""

    exit_code: int | None = None
    """The exit code, where it is a command."""


class HookFailed(HookNamed, Failed, Timed, Payload, event_type="hook.failed"):
    """A hook failed."""

    required_on_emission = frozenset({"point", "failure_category", "fail_policy"})

    fail_policy: Annotated[str, Known("open", "closed")] | None = None
    """Whether work goes on without it (open) or stops (closed)."""

    exit_code: int | None = None
    """The exit code, where it is a command."""
