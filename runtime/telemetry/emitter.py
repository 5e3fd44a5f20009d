"""The emitter: every fact and every finished span goes through the runtime's own journal, and from there over OTLP."""

import os
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider, sampling
from opentelemetry.sdk.trace.id_generator import IdGenerator

from journal import Entry, Journal, Record
from models.errors import InvalidEvent
from models.event import SCHEMA_VERSION, Correlation, Event
from models.payload import Payload
from models.payloads.runtime_fault import RuntimeWarned
from models.shape import JsonMap
from runtime.telemetry.encoding import LOGS, SCOPE, LogEncoder
from runtime.telemetry.export_settings import ExportSettings
from runtime.telemetry.identity import claim
from runtime.telemetry.identity import runtime_id as identify
from runtime.telemetry.numbering import SEQUENCE, SESSION, Numbering
from runtime.telemetry.outbox import Outbox
from runtime.telemetry.spans import JournalSpanProcessor, Spans, current_ids
from runtime.telemetry.transport import transports

SET_ASIDE = "outbox.set_aside"
"""The kind of the journal's records that say which others the receiver will never take."""

ABOUT_SENDING = "about_sending"
"""Marks the warning about a refused record: should it be refused too, nobody is warned of that."""

NOTE_EVERY = 10_000
"""So many facts apart the numbers are noted, which bounds what a start after a crash has to read."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is not yet delivered."""

    records: int
    """Facts and spans in the journal that the receiver has not acknowledged."""

    set_aside: int
    """Records that the receiver refused for good since this start; they stay in the journal."""

    unwritten_spans: int
    """Spans that the journal could not take since this start."""

    trouble: str | None
    """Why sending does not get on at the moment."""


def utc_now() -> datetime:
    """This moment."""
    return datetime.now(UTC)


def new_id() -> str:
    """An id nobody else has."""
    return uuid.uuid4().hex


class Telemetry:
    """Records facts and spans of one runtime.

    Durable: `emit` and `record` return when the fact is on disk; nothing that happens afterwards loses it.
    Ordered: `sequence` rises by one within a session, across threads, restarts and crashes.
    Correlated: a fact recorded inside a span carries the span's ids.
    Delivered at least once: see `Outbox`. Sending never holds up `emit`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        runtime_id: str | None = None,
        clock: Callable[[], datetime] = utc_now,
        ids: Callable[[], str] = new_id,
        span_ids: IdGenerator | None = None,
        settings: ExportSettings | None = None,
    ) -> None:
        self.settings = settings or ExportSettings()
        self.clock = clock
        self.new_id = ids
        self._lock = claim(folder)
        try:
            self.runtime_id = identify(folder, runtime_id)
            """Stays the same for the folder, so that traces can be attributed across restarts."""
            ways = {} if self.settings.disabled else transports(self.settings)
            self.journal = Journal(folder / "journal")
            self._numbering = Numbering(folder, self.journal)
            self._outbox = Outbox(self.journal, ways, self.settings, self._put_aside)
        except BaseException:
            self._lock.close()
            raise
        resource = self._resource()
        self._encoder = LogEncoder(resource, _version())
        self._span_processor = JournalSpanProcessor(self._submit)
        self._provider = TracerProvider(
            sampler=sampler(self.settings), resource=Resource(resource), shutdown_on_exit=False, id_generator=span_ids
        )
        self._provider.add_span_processor(self._span_processor)
        self.tracer: trace.Tracer = (
            trace.NoOpTracer() if self.settings.disabled else self._provider.get_tracer(SCOPE, _version())
        )
        self.spans = Spans(self.tracer, clock)
        self.listener: Callable[[list[int], Sequence[Event]], None] | None = None
        """Told of every fact once it is on disk, with its position; called in the thread that recorded it."""

        self._set_aside = 0
        self._emitted = 0
        self._noting: threading.Thread | None = None
        if not self.settings.disabled:
            self._outbox.start()

    @classmethod
    def from_environment(
        cls, folder: Path, environment: Mapping[str, str] = os.environ, *, runtime_id: str | None = None
    ) -> Self:
        """As the standard `OTEL_*` variables say."""
        return cls(folder, runtime_id=runtime_id, settings=ExportSettings.from_environment(environment))

    def _resource(self) -> dict[str, Any]:
        return {
            **self.settings.resource_attributes,
            "service.name": self.settings.service_name,
            "service.version": _version(),
            "service.instance.id": self.runtime_id,
            "telemetry.sdk.language": "python",
            "telemetry.sdk.name": "opentelemetry",
            "telemetry.sdk.version": version("opentelemetry-sdk"),
        }

    # --- recording ---------------------------------------------------------------------------------------------

    def record(
        self, payload: Payload, ids: Correlation, *, refs: JsonMap | None = None, timestamp: datetime | None = None
    ) -> Event:
        """Record a fact that happens now, or at a given moment; see `emit`."""
        told = {name: value for name, value in ids if value is not None}
        moment = timestamp or self.clock()
        return self.emit(
            Event(type=payload.event_type, event_id=self.new_id(), timestamp=moment, payload=payload, refs=refs, **told)
        )

    def emit(self, event: Event) -> Event:
        """Complete an event, check it, store it durably and give it back.

        Filled in: schema version, runtime id, the ids of the current span, and the number within the session, which
        only we may set. Raises InvalidEvent for one that is not complete, and then nothing was stored.
        """
        return self._emit([event], {})[0]

    def emit_all(self, events: Sequence[Event]) -> list[Event]:
        """As `emit`, for several events of one session: they are stored together or not at all."""
        if len({event.session_id for event in events}) > 1:
            raise InvalidEvent(None, ["events that are stored together belong to one session"])
        return self._emit(events, {}) if events else []

    def _emit(self, events: Sequence[Event], meta: dict[str, Any]) -> list[Event]:
        complete = [self._complete(event) for event in events]
        session = complete[0].session_id
        if session is None:
            stored = self._submit(*(self._entry(event, meta) for event in complete))
            self._told(stored.result(), complete)
            return complete
        numbered: list[Event] = []

        def submit(number: int) -> "Future[list[int]]":
            numbered.extend(event.model_copy(update={"sequence": at}) for at, event in enumerate(complete, number))
            return self._submit(
                *(self._entry(event, meta | {SESSION: session, SEQUENCE: event.sequence}) for event in numbered)
            )

        self._numbering.store(session, submit, len(complete), lambda positions: self._told(positions, numbered))
        return numbered

    def _complete(self, event: Event) -> Event:
        """The event with what the runtime knows; raises InvalidEvent unless it may be emitted."""
        if event.sequence is not None:
            raise InvalidEvent(event.type, ["sequence is set by the runtime alone"])
        event = event.model_copy(update=self._known(event))
        number = None if event.session_id is None else 1
        event.model_copy(update={"sequence": number}).check_emission()
        return event

    def _told(self, positions: list[int], events: Sequence[Event]) -> None:
        """What is on disk now is told to the listener, in the order of the session's numbers."""
        if self.listener is not None:
            self.listener(positions, events)
        self._after_emit(len(events))

    def _known(self, event: Event) -> dict[str, Any]:
        """What the runtime knows and the event does not tell."""
        known: dict[str, Any] = {
            "schema_version": event.schema_version or SCHEMA_VERSION,
            "runtime_id": event.runtime_id or self.runtime_id,
        }
        return known if event.trace_id is not None else known | current_ids()

    def _entry(self, event: Event, meta: dict[str, Any]) -> Entry:
        try:
            body = self._encoder.encode(event, self.clock())
        except ValueError as problem:  # half a surrogate pair, or a number beyond 64 bits
            raise InvalidEvent(event.type, [f"cannot be encoded: {problem}"]) from problem
        return Entry(LOGS, body, meta | {"event_id": event.event_id, "type": event.type})

    def _submit(self, *entries: Entry) -> "Future[list[int]]":
        stored = self.journal.submit(entries)
        stored.add_done_callback(self._stored)
        return stored

    def _stored(self, stored: "Future[list[int]]") -> None:
        if stored.exception() is None:
            self._outbox.notice(stored.result()[-1])

    def _after_emit(self, count: int) -> None:
        before, self._emitted = self._emitted, self._emitted + count
        if before // NOTE_EVERY != self._emitted // NOTE_EVERY and not (self._noting and self._noting.is_alive()):
            self._noting = threading.Thread(target=self._numbering.note, name="telemetry-notes", daemon=True)
            self._noting.start()

    # --- what the receiver will never take ---------------------------------------------------------------------

    def _put_aside(self, records: Sequence[Record], reason: str, count: int) -> None:
        """Note which records were refused, durably, and warn: the warning goes the same way as every fact."""
        self._set_aside += count
        positions = [records[0].position, records[-1].position]
        told: dict[str, Any] = {"positions": positions, "refused": count, "kind": records[0].kind, "reason": reason}
        if len(records) == 1:
            told |= {name: records[0].meta[name] for name in ("event_id", SESSION, SEQUENCE) if name in records[0].meta}
        self._submit(Entry(SET_ASIDE, b"", told)).result()
        if any(record.meta.get(ABOUT_SENDING) for record in records):
            return
        warning = RuntimeWarned(
            code="telemetry.refused",
            message=f"the receiver refused {count} of {len(records)} records for good; they stay in the journal",
            component="telemetry",
            failure_category="refused",
            repaired=False,
            metadata=told,
        )
        event = Event(
            type="runtime.warning",
            event_id=f"{self.runtime_id}-refused-{positions[0]}-{positions[1]}",  # the same after a crash
            timestamp=self.clock(),
            session_id=told.get(SESSION),
            payload=warning,
        )
        self._emit([event], {ABOUT_SENDING: True})

    # --- delivery ----------------------------------------------------------------------------------------------

    def flush(self, timeout_s: float = 30.0) -> bool:
        """Wait until everything recorded so far is sent and acknowledged; False when the time is up before."""
        if self.settings.disabled:
            return False
        self.journal.submit([]).result(timeout_s)  # spans still on their way to the disk are before this in the queue
        return self._outbox.flush(self.journal.last_position(), timeout_s)

    def backlog(self) -> Backlog:
        """What is not yet delivered."""
        waiting = self.journal.last_position() - self._outbox.done
        return Backlog(max(waiting, 0), self._set_aside, self._span_processor.unwritten, self._outbox.trouble)

    def close(self) -> None:
        """End sending after the request under way, and let go of the folder; the next start goes on from there."""
        if self._lock.closed:
            return
        self._provider.shutdown()
        self._outbox.stop()
        if self._noting is not None:
            self._noting.join()
        self._numbering.note()
        self.journal.close()
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def sampler(settings: ExportSettings) -> sampling.Sampler:
    """The SDK's sampler of a standard name."""
    name = settings.sampler.removeprefix("parentbased_")
    root: sampling.Sampler = {
        "always_on": sampling.ALWAYS_ON,
        "always_off": sampling.ALWAYS_OFF,
        "traceidratio": sampling.TraceIdRatioBased(settings.sampler_ratio),
    }[name]
    return sampling.ParentBased(root) if settings.sampler.startswith("parentbased_") else root


def _version() -> str:
    try:
        return version("tachograph")
    except PackageNotFoundError:
        return "0"
