"""Groups of fields that several payloads share."""

from typing import Annotated

from models.shape import Known, Shape
from models.values import Amount, Count, Refs

ItemKind = Annotated[
    str,
    Known(
        *("command_execution", "file_change", "mcp_tool_call", "web_search", "image_generation", "todo_list"),
        *("subagent", "function_call"),
    ),
]
"""What a tool call is, seen as an item of work."""


class Stated(Shape):
    """A fact that leaves something in a state."""

    status: str | None = None
    """The state after this fact, in the vocabulary's words where they fit."""

    native_status: str | None = None
    """The exact state in the source's own words, where `status` is only the nearest one."""

    status_reason: str | None = None
    """Why it is in that state."""


class Failed(Shape):
    """A fact of failure, in a form that can be counted and acted on."""

    status: str | None = None
    """The state after the failure, normally `failed`."""

    failure_category: str | None = None
    """The class of failure, such as `timeout`, `permission_denied`, `rate_limited`, `tool_failed`."""

    message: str | None = None
    """One sentence for people, without content or secrets."""

    error_code: str | None = None
    """The code of the source: an HTTP status, an errno, a provider's error type."""

    retryable: bool | None = None
    """Whether the same work may be tried again."""

    error_ref: str | None = None
    """Where the details of the failure are kept."""


class Timed(Shape):
    """Work that ended."""

    duration_ms: Amount | None = None
    """Wall time of the work in milliseconds."""


class ToolNamed(Shape):
    """A fact about one call of a tool."""

    tool_call_id: str | None = None
    """The call; repeats the envelope, as some emitters do."""

    tool_name: str | None = None
    """The tool as the model calls it."""

    item_kind: ItemKind | None = None
    """The sort of work, for readers who follow items instead of calls."""


class ModelNamed(Shape):
    """A fact about one call of a model."""

    provider_name: str | None = None
    """Who serves the model."""

    model_name: str | None = None
    """The model's name as its provider spells it."""


class Reasoned(Shape):
    """A fact that somebody brought about."""

    reason: str | None = None
    """Why, in a sentence."""

    requested_by: str | None = None
    """Who brought it about: a user, a policy, the runtime."""


class ProcessNamed(Shape):
    """A fact about one process."""

    process_id: str | None = None
    """The process by the runtime's own name; repeats the envelope."""

    pid: Count | None = None
    """The operating system's number of the process."""


class Outputs(Shape):
    """Work that left outputs."""

    output_refs: Refs | None = None
    """Where the outputs are kept."""


Stream = Annotated[str, Known("stdout", "stderr", "pty", "binary")]
"""Which stream of a process a piece belongs to."""
