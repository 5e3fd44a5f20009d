"""Facts about queues of turns."""

from typing import Annotated

from models.parts import Stated
from models.payload import Payload
from models.shape import Known
from models.values import Count, QueuedTurn


class QueueChanged(Stated, Payload, event_type="queue.changed"):
    """Order, state or policy of the queued turns changed."""

    required_on_emission = frozenset({"change", "queued_turns"})

    change: (
        Annotated[
            str,
            Known("added", "removed", "promoted", "reordered", "started", "paused", "resumed", "policy", "restored"),
        ]
        | None
    ) = None
    """What happened."""

    queued_turn_id: str | None = None
    """The turn it happened to."""

    queued_turns: tuple[QueuedTurn, ...] | None = None
    """The whole queue after the change, the next to run first."""

    length: Count | None = None
    """How many turns wait."""

    policy: str | None = None
    """When queued turns may run."""

    reason: str | None = None
    """Why it changed."""
