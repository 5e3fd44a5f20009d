"""Facts about tools: which were offered, and each call."""

from models.governance_values import PermissionDecision, ToolEntry
from models.parts import Failed, Outputs, Stated, Timed, ToolNamed
from models.payload import Payload
from models.shape import JsonMap
from models.values import Count, StructuredResult


class ToolCatalogResolved(Payload, event_type="tool.catalog.resolved"):
    """The tools or capabilities for the turn were selected."""

    required_on_emission = frozenset({"tool_count"})

    tools: tuple[ToolEntry, ...] | None = None
    """The tools, where they are few."""

    tool_names: tuple[str, ...] | None = None
    """The names of the tools."""

    tool_count: Count | None = None
    """How many tools there are."""

    inventory_ref: str | None = None
    """Where the whole inventory is kept."""

    caller: str | None = None
    """For whom they were selected."""

    mode: str | None = None
    """The runtime's mode that they were selected for."""

    policy_ref: str | None = None
    """The policy that they were selected by."""


class ToolStarted(ToolNamed, Stated, Payload, event_type="tool.started"):
    """A call of a tool started."""

    required_on_emission = frozenset({"tool_name"})

    runtime_owner: str | None = None
    """Who executes it: local, an MCP server, a connector, the provider, a workflow, a subagent."""

    server_name: str | None = None
    """The MCP server or connector it is executed by."""

    input_ref: str | None = None
    """Where the arguments are kept."""

    is_read_only: bool | None = None
    """Whether it changes nothing."""

    is_destructive: bool | None = None
    """Whether it may destroy or overwrite something."""

    permission: PermissionDecision | None = None
    """Why it was allowed."""


class ToolArgs(ToolNamed, Payload, event_type="tool.args"):
    """The arguments of the call are known."""

    arguments: JsonMap | None = None
    """The arguments in a form that is safe to keep, by the tool's own keys; None where only the ref is kept."""

    input_ref: str | None = None
    """Where the whole arguments are kept."""

    preview: str | None = None
    """A short form for people."""

    size_bytes: Count | None = None
    """Size of the arguments in bytes."""

    redacted: bool | None = None
    """Whether anything was masked."""

    source: str | None = None
    """Who set them, if not the model: a hook, a human."""


class ToolProgress(ToolNamed, Stated, Outputs, Payload, event_type="tool.progress"):
    """The tool reported progress or a part of its output."""

    message: str | None = None
    """A sentence on the progress."""

    progress: float | None = None
    """How much is done, in the tool's own unit."""

    total: float | None = None
    """How much there is to do, in the same unit."""

    preview: str | None = None
    """A short beginning of the part, safe to show."""


class ToolResult(ToolNamed, Stated, Timed, Payload, event_type="tool.result"):
    """The tool returned."""

    required_on_emission = frozenset({"tool_name", "success", "duration_ms"})

    success: bool | None = None
    """Whether the tool says that it did what was asked; not that the work is complete."""

    result_ref: str | None = None
    """Where the output is kept; large outputs are referenced, never copied."""

    output_ref: str | None = None
    """The same, as other emitters name it."""

    preview: str | None = None
    """A short beginning of the output, safe to show."""

    output_chars: Count | None = None
    """Length of the output in characters."""

    size_bytes: Count | None = None
    """Size of the output in bytes."""

    truncated: bool | None = None
    """Whether the model got less than the whole."""

    result: StructuredResult | None = None
    """The result in its parts."""

    queue_wait_ms: float | None = None
    """How long the call waited before it ran, the wait for permission included, in milliseconds."""

    metadata: JsonMap | None = None
    """Further metadata by the tool's own keys."""


class ToolFailed(ToolNamed, Failed, Timed, Payload, event_type="tool.failed"):
    """The tool failed, was denied or was cancelled."""

    required_on_emission = frozenset({"tool_name", "failure_category", "message"})

    cancelled: bool | None = None
    """Whether the call was cancelled, as opposed to going wrong."""

    permission: PermissionDecision | None = None
    """The decision that stopped it, if one did."""

    result_ref: str | None = None
    """Where the output up to the failure is kept."""

    preview: str | None = None
    """A short beginning of that output, safe to show."""
