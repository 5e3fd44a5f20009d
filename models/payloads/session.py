"""Facts about sessions, the durable containers of work."""

from models.parts import Stated
from models.payload import Payload
from models.shape import JsonMap, Timestamp


class SessionCreated(Stated, Payload, event_type="session.created"):
    """A session was created with its metadata."""

    title: str | None = None
    """Its name for people."""

    workspace_id: str | None = None
    """The workspace it works in."""

    source: str | None = None
    """What started it: a command line, an editor, a scheduler, an API."""

    client_name: str | None = None
    """The program that started it."""

    client_version: str | None = None
    """The version of that program."""

    cwd: str | None = None
    """The working directory at the start."""

    resumed_from: str | None = None
    """The session it continues."""

    metadata: JsonMap | None = None
    """Further metadata by the author's own keys."""


class SessionUpdated(Stated, Payload, event_type="session.updated"):
    """Metadata of a session changed."""

    title: str | None = None
    """The new name for people."""

    changed_fields: tuple[str, ...] | None = None
    """Which metadata changed, by name."""

    metadata: JsonMap | None = None
    """The changed metadata by the author's own keys."""

    closed_at: Timestamp | None = None
    """When the session was closed, if this change closed it."""
