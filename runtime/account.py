"""The runtime-wide account: what all sessions used and which limits hold, folded from the facts."""

from collections.abc import Sequence

from models.event import Event
from runtime.kernel import Kernel
from runtime.routing.ledger import Ledger, apply_event, fold

TYPES = frozenset({"cost.recorded", "limit.changed", "rate_limit.hit", "quota.low"})


class Account:
    """Follows the facts of every session; `ledger` is what the ones so far add up to."""

    def __init__(self, kernel: Kernel) -> None:
        self.ledger: Ledger = fold(kernel.facts_of(TYPES))
        kernel.on_facts.append(self._note)

    def _note(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type in TYPES:
                self.ledger = apply_event(self.ledger, event)
