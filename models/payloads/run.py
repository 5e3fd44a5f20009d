"""Facts about the status of a run."""

from models.parts import Stated
from models.payload import Payload
from models.shape import JsonMap
from models.values import Refs


class RunStatus(Stated, Payload, event_type="run.status"):
    """The runtime's status changed."""

    required_on_emission = frozenset({"status", "phase"})

    phase: str | None = None
    """What the run is at, such as `preparing` or `streaming`."""

    title: str | None = None
    """A short name for people."""

    detail: str | None = None
    """A sentence on it."""

    checkpoints: Refs | None = None
    """Where the run could be resumed from."""

    metadata: JsonMap | None = None
    """Further metadata by the author's own keys."""
