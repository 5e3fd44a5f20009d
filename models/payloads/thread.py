"""Facts about threads, the ordered contexts of execution."""

from models.parts import Stated
from models.payload import Payload
from models.shape import JsonMap


class ThreadStarted(Stated, Payload, event_type="thread.started"):
    """A thread started."""

    title: str | None = None
    """Its name for people."""

    source: str | None = None
    """What started it: a user, a subagent, a job, a resume."""

    parent_thread_id: str | None = None
    """The thread it was split off from."""

    metadata: JsonMap | None = None
    """Further metadata by the author's own keys."""


class ThreadUpdated(Stated, Payload, event_type="thread.updated"):
    """The lifecycle of a thread, or state that its read model shows, changed."""

    active_turn_id: str | None = None
    """The turn under way."""

    changed_fields: tuple[str, ...] | None = None
    """What changed, by name."""

    reason: str | None = None
    """Why it changed."""

    metadata: JsonMap | None = None
    """The changed metadata by the author's own keys."""
