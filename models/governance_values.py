"""Values about what may be done: permissions, boundaries, environments and tools."""

from typing import Annotated

from pydantic import JsonValue

from models.shape import JsonMap, Known, Shape, Timestamp
from models.values import Refs

PermissionMode = Annotated[
    str, Known("default", "untrusted", "on_request", "on_failure", "never", "plan", "bypass", "auto")
]
"""How permissions are decided when no rule says otherwise."""

Verdict = Annotated[str, Known("allow", "deny", "ask", "unavailable", "sandboxed")]
"""The outcome of a permission check."""


class PermissionDecision(Shape):
    """What was decided about a permission, and on what ground."""

    decision_id: str | None = None
    """The decision's own name."""

    decision: Verdict | None = None
    """The outcome."""

    decision_source: (
        Annotated[str, Known("mode", "rule", "hook", "classifier", "human", "host_policy", "sandbox")] | None
    ) = None
    """Who decided."""

    decision_reason: str | None = None
    """Why, in a sentence."""

    mode: PermissionMode | None = None
    """The permission mode in force."""

    rule_refs: Refs | None = None
    """The rules that matched."""

    updated_input_ref: str | None = None
    """The changed input, where the decision was made on condition of a change."""

    approval_action_id: str | None = None
    """The action in which a human decided."""

    expires_at: Timestamp | None = None
    """How long the decision holds; None: only this once or not told."""

    scope: JsonValue = None
    """What it holds for: a call, a command prefix, a session."""

    destructive: bool | None = None
    """Whether what was asked for destroys or overwrites something."""

    impact_scope: str | None = None
    """What would be affected."""

    rollback_advice: str | None = None
    """How it could be undone."""


class SandboxProfile(Shape):
    """The boundary that execution happens in."""

    mode: str | None = None
    """The kind of boundary, such as `read_only`, `workspace_write`, `none`."""

    cwd: str | None = None
    """The working directory."""

    read_roots: tuple[str, ...] | None = None
    """Folders that may be read."""

    write_roots: tuple[str, ...] | None = None
    """Folders that may be written."""

    network: JsonValue = None
    """What of the network may be reached: a mode or its rules."""

    environment_ref: str | None = None
    """The environment variables, by reference since they may hold secrets."""

    process_limits: JsonMap | None = None
    """Bounds on time, memory, processes and files, by the limit's name."""

    violation_refs: Refs | None = None
    """Recorded attempts to cross the boundary."""


class ExecutionEnvironment(Shape):
    """Where commands are executed."""

    workspace_id: str | None = None
    """The workspace."""

    cwd: str | None = None
    """The working directory."""

    additional_roots: tuple[str, ...] | None = None
    """Further folders that belong to the workspace."""

    shell: str | None = None
    """The shell commands run in."""

    os: str | None = None
    """The operating system."""

    arch: str | None = None
    """The processor architecture."""

    env_ref: str | None = None
    """The environment variables, by reference since they may hold secrets."""

    sandbox_profile: SandboxProfile | None = None
    """The boundary in force."""

    network_profile: JsonValue = None
    """What of the network may be reached."""

    resource_limits: JsonMap | None = None
    """Bounds on time, memory, processes and files, by the limit's name."""


class ToolEntry(Shape):
    """One tool of the inventory."""

    tool_name: str | None = None
    """Its name as the model calls it."""

    description: str | None = None
    """What it does."""

    input_schema: JsonMap | None = None
    """JSON Schema of its arguments, exactly as declared."""

    capabilities: tuple[str, ...] | None = None
    """What it can do."""

    policy: Annotated[str, Known("allowed", "ask", "denied", "sandboxed", "unavailable")] | None = None
    """Whether it may be called."""

    runtime_owner: (
        Annotated[
            str,
            Known("local", "mcp_server", "hosted_connector", "provider_native", "workflow", "subagent"),
        ]
        | None
    ) = None
    """Who executes it."""

    metadata_ref: str | None = None
    """Where more about it is kept."""

    is_read_only: bool | None = None
    """Whether it changes nothing."""

    is_concurrency_safe: bool | None = None
    """Whether calls of it may run side by side."""

    is_destructive: bool | None = None
    """Whether it may destroy or overwrite something."""

    interrupt_behavior: str | None = None
    """What happens to a running call when the turn is interrupted."""
