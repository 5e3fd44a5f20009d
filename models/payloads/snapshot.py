"""Facts about durable snapshots and read models."""

from models.parts import Stated
from models.payload import Payload
from models.shape import JsonMap
from models.values import Count


class SnapshotUpdated(Stated, Payload, event_type="snapshot.updated"):
    """A durable snapshot or read model changed."""

    required_on_emission = frozenset({"source"})

    source: str | None = None
    """What made it change."""

    read_model: str | None = None
    """Which read model it is, such as `thread_read_model`."""

    snapshot_ref: str | None = None
    """Where the snapshot is kept."""

    up_to_sequence: Count | None = None
    """The last event that it takes into account."""

    sha256: str | None = None
    """Digest of the snapshot, as lower-case hex."""


class SnapshotRepaired(Stated, Payload, event_type="snapshot.repaired"):
    """A snapshot was corrected after a gap."""

    required_on_emission = frozenset({"reason"})

    read_model: str | None = None
    """Which read model it is."""

    reason: str | None = None
    """What was wrong: a gap in the stream, a crash, a lost process."""

    gap_from_sequence: Count | None = None
    """The first event that is missing."""

    gap_to_sequence: Count | None = None
    """The last event that is missing."""

    corrections: JsonMap | None = None
    """What was corrected, by the read model's own field names."""

    degraded: bool | None = None
    """Whether something could not be restored."""

    snapshot_ref: str | None = None
    """Where the corrected snapshot is kept."""
