"""The stage of the sample session: a clock of its own, seeded names, and where in the story we are."""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from models.event import Correlation, Event
from models.payload import Payload
from models.shape import JsonMap
from models.values import Usage
from runtime.telemetry import Spans, Telemetry


def blob(text: str) -> str:
    """A reference to a content, by its digest."""
    return f"sha256:{digest(text)}"


def digest(text: str) -> str:
    """The digest of a content, as lower-case hex."""
    return hashlib.sha256(text.encode()).hexdigest()


COUNTED = ("uncached_input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")


class Meter:
    """What was used so far."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(COUNTED, 0)
        self.cost_usd = 0.0
        self.model_calls = self.tool_calls = 0

    def add(self, usage: Usage, cost_usd: float) -> None:
        """Count one call of a model."""
        self.counts = {name: count + (getattr(usage, name) or 0) for name, count in self.counts.items()}
        self.cost_usd = round(self.cost_usd + cost_usd, 8)
        self.model_calls += 1

    @property
    def usage(self) -> Usage:
        """All tokens."""
        return Usage.model_validate(self.counts)


class Script:
    """Tells facts at the story's own time; the same seed tells the same story."""

    def __init__(self, telemetry: Telemetry, session_id: str, start: datetime, seed: int) -> None:
        self.telemetry = telemetry
        self.now = start
        self.random = random.Random(f"{seed}/{session_id}")
        self.spans = Spans(telemetry.tracer, lambda: self.now)
        self.ids = Correlation(session_id=session_id)
        self.events: list[Event] = []
        self.of_session, self.of_turn = Meter(), Meter()

    def name(self, kind: str) -> str:
        """A name for a new thing."""
        return f"{kind}_{self.random.getrandbits(48):012x}"

    def wait(self, milliseconds: float) -> float:
        """Let about so much time pass; gives how much it really was, in milliseconds."""
        passed = round(milliseconds * self.random.uniform(0.85, 1.2), 3)
        self.now += timedelta(milliseconds=passed)
        return passed

    def since(self, moment: datetime) -> float:
        """Milliseconds since a moment of the story."""
        return round((self.now - moment).total_seconds() * 1000, 3)

    def later(self, seconds: float) -> datetime:
        """A moment from now on."""
        return self.now + timedelta(seconds=seconds)

    @contextmanager
    def within(self, **ids: str | None) -> Iterator[None]:
        """Facts told inside carry these identities as well."""
        before = self.ids
        self.ids = before.model_copy(update=ids)
        try:
            yield
        finally:
            self.ids = before

    def tell(self, payload: Payload, *, refs: JsonMap | None = None, **ids: str | None) -> Event:
        """Record a fact here and now; a moment has passed since the last."""
        self.wait(self.random.uniform(2, 14))
        event = self.telemetry.record(payload, self.ids.model_copy(update=ids), refs=refs, timestamp=self.now)
        self.events.append(event)
        return event

    def spend(self, usage: Usage, cost_usd: float) -> None:
        """Add to what the turn and the session have used so far."""
        for meter in (self.of_session, self.of_turn):
            meter.add(usage, cost_usd)
