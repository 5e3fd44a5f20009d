"""How far a tool is, told while it works."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a tool stands."""

    message: str
    """A sentence for people."""

    done: float
    """How much is done, in the tool's own unit."""

    latest: str | None = None
    """The newest part of the output."""


Report = Callable[[Progress], None]
"""Takes progress from whichever thread the tool works in; it does not wait."""


def unheard(_: Progress) -> None:
    """Nobody wants to know."""
