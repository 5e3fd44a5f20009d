"""The way of a request, the same over HTTP and gRPC: limits, validation, secrets, journal; only then the answer."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

from collector.bodies import Budget, Overloaded, Share, unfold
from collector.counters import Counters
from collector.tokens import TokenStore
from ingest.event_check import check_lines
from ingest.otlp.check import Checked, check
from ingest.otlp.refusals import Limits, TooLarge, Undecodable
from ingest.otlp.signals import Encoding
from journal import Entry, Journal
from models.errors import JournalBusy, JournalUnwritable, NotAuthorised, TachographError
from models.redaction import Redactor
from models.settings import Settings

Source = Literal["logs", "traces", "metrics", "events"]
INLINE_BYTES = 32 * 1024
"""Smaller bodies are checked on the event loop: handing them to a thread would cost more than checking them."""

REASONS: dict[type[TachographError], str] = {
    Undecodable: "undecodable",
    TooLarge: "too_large",
    Overloaded: "overloaded",
    JournalBusy: "overloaded",
    JournalUnwritable: "unwritable",
    NotAuthorised: "not_authorised",
}


def reason_of(refusal: TachographError) -> str:
    """The word under which a refusal is counted."""
    return next((word for kind, word in REASONS.items() if isinstance(refusal, kind)), "unsupported")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request body as it came, with what its headers said of it."""

    source: Source
    encoding: Encoding
    body: bytes
    content_encoding: str = "identity"
    transport: str = "http"


class Receiver:
    """Acknowledges only what is durable, so that a client may safely send anything else again."""

    def __init__(
        self, journal: Journal, redactor: Redactor, counters: Counters, tokens: TokenStore, settings: Settings
    ) -> None:
        self.journal = journal
        self.counters = counters
        self.tokens = tokens
        self.settings = settings
        self.budget = Budget(settings.in_flight_bytes)
        self.draining = False
        self.redactor = redactor
        self._limits = Limits(max_items=settings.max_items)
        # One body is unfolded and one decoded at a time: what a hostile one costs in memory is paid once. Two threads,
        # so that nobody waits for a bomb to unfold but those who sent compressed bodies themselves.
        self._unfolding = ThreadPoolExecutor(max_workers=1, thread_name_prefix="unfold")
        self._checking = ThreadPoolExecutor(max_workers=1, thread_name_prefix="check")

    def authorise(self, authorization: str | None, scope: str) -> None:
        """Raise NotAuthorised unless the header's token has the scope; without any token made, loopback is open."""
        if self.settings.beyond_loopback or self.tokens.configured():
            self.tokens.check(authorization, scope)

    async def take(self, arrival: Arrival, share: Share) -> Checked:
        """Store what may be stored of a request and say what that was; raises a TachographError to refuse it whole."""
        loop = asyncio.get_running_loop()
        body = arrival.body
        if arrival.content_encoding != "identity":
            limit_bytes = self.settings.max_body_bytes
            body = await loop.run_in_executor(
                self._unfolding, unfold, body, arrival.content_encoding, share, limit_bytes
            )
        if len(body) <= INLINE_BYTES:
            checked = self._check(arrival, body)
        else:
            checked = await loop.run_in_executor(self._checking, self._check, arrival, body)
        if checked.items:
            await self._store(arrival, checked)
        self.counters.add(arrival.source, "received", items=checked.items, size_bytes=len(arrival.body))
        if checked.rejected:
            self.counters.add(arrival.source, "rejected", items=checked.rejected)
        return checked

    def _check(self, arrival: Arrival, body: bytes) -> Checked:
        if arrival.source == "events":
            return check_lines(body, self.redactor, self._limits)
        return check(arrival.source, body, arrival.encoding, self.redactor, self._limits)

    async def _store(self, arrival: Arrival, checked: Checked) -> None:
        meta: dict[str, object] = {"content": arrival.encoding, "transport": arrival.transport}
        if checked.redactions:
            meta["redactions"] = checked.redactions
        if checked.rejected:
            meta["rejected"] = checked.rejected
        kind = "events" if arrival.source == "events" else f"otlp.{arrival.source}"
        stored = self.journal.submit([Entry(kind, checked.body, meta, checked.items)])
        # Shielded: a client that hangs up does not take back what was handed to the disk.
        await asyncio.shield(asyncio.wrap_future(stored))

    def refused(self, source: Source, refusal: TachographError, size_bytes: int = 0) -> None:
        """Count a request that was refused whole."""
        self.counters.add(source, f"refused:{reason_of(refusal)}", size_bytes=size_bytes)

    def close(self) -> None:
        """Let running checks end, store what is queued, write the counts down."""
        self._unfolding.shutdown()
        self._checking.shutdown()
        self.journal.close()
        self.counters.close()
