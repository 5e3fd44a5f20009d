"""The outbox: one sender takes the journal's records in order and posts them until the receiver has them."""

import logging
import random
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence

from journal import Journal, Record
from runtime.telemetry.encoding import merge
from runtime.telemetry.export_settings import ExportSettings
from runtime.telemetry.transport import Accepted, Refused, Transport, TryLater

CURSOR = "outbox"
"""The name under which the journal remembers how far the sender has come."""

IDLE_SECONDS = 60.0
logger = logging.getLogger("tachograph.runtime.outbox")

SetAside = Callable[[Sequence[Record], str, int], None]
"""Told of records, the reason, and how many of them the receiver refused for good."""


class Outbox:
    """Sends what is in a journal.

    In order: requests of one signal hold the records in the order of the journal, one request at a time.
    At least once: the cursor moves only when the receiver has acknowledged everything before it; after a crash some
    records may be sent again, and their ids are the same.
    By itself: a receiver that is away, overloaded or wrongly set up is tried again for as long as it takes.
    Nothing is dropped: a record the receiver will never take is found by halving its request, handed to `set_aside`,
    and the rest goes on; it stays in the journal. When even an empty request is refused, the fault is not the
    record's, and everything waits.
    """

    def __init__(
        self, journal: Journal, ways: Mapping[str, Transport], settings: ExportSettings, set_aside: SetAside
    ) -> None:
        self._journal = journal
        self._ways = ways
        self._settings = settings
        self._set_aside = set_aside
        self._changed = threading.Condition()
        self._stopping = threading.Event()
        self._hurry = False
        self._failures = 0
        self.trouble: str | None = None
        """Why sending does not get on at the moment."""
        self.done = journal.cursor(CURSOR)
        """Everything up to this position is acknowledged."""
        self._known = journal.last_position()
        self._thread = threading.Thread(target=self._run, name="telemetry-outbox", daemon=True)

    def start(self) -> None:
        """Begin to send, in a thread of its own."""
        self._thread.start()

    def notice(self, position: int) -> None:
        """There is a record at a position."""
        with self._changed:
            self._known = max(self._known, position)
            self._changed.notify_all()

    def flush(self, position: int, timeout_s: float) -> bool:
        """Wait until everything up to a position is acknowledged; False when the time is up before."""
        with self._changed:
            self._hurry = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self.done >= position, timeout_s)

    def stop(self) -> None:
        """End after the request under way; what is not yet sent stays in the journal."""
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        for way in self._ways.values():
            way.close()

    # --- the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._something_to_send():
                    self._send_next()
            except Exception:  # a fault of ours may delay delivery, but not end it for good
                logger.exception("sending telemetry failed; it is tried again")
                self._pause(None)

    def _something_to_send(self) -> bool:
        """Wait for records, and then a moment for more: a request has a price of its own."""
        with self._changed:
            self._changed.wait_for(lambda: self._known > self.done or self._stopping.is_set(), IDLE_SECONDS)
            if self._known <= self.done:
                return False
            enough = self.done + self._settings.max_batch_records
            self._changed.wait_for(
                lambda: self._hurry or self._known >= enough or self._stopping.is_set(), self._settings.linger_s
            )
            return not self._stopping.is_set()

    def _send_next(self) -> None:
        records = self._journal.read(self.done, self._settings.max_batch_records, self._settings.max_batch_bytes)
        if not records:  # what was noticed cannot be read: damage, which `verify` names
            with self._changed:
                self._move_to(self._known)
            return
        for kind in self._ways:
            same = [record for record in records if record.kind == kind]
            if same and not self._deliver(kind, same):
                return
        self._acknowledged(records[-1].position)

    def _deliver(self, kind: str, records: Sequence[Record]) -> bool:
        """Send until it is settled what becomes of each; False if it was stopped before."""
        body = merge(kind, [record.body for record in records])
        while not self._stopping.is_set():
            answer = self._ways[kind].send(kind, body)
            if isinstance(answer, Accepted):
                self._went_well()
                if answer.rejected:
                    self._set_aside(records, answer.message or "no reason given", answer.rejected)
                return True
            if isinstance(answer, Refused):
                if len(records) > 1:
                    half = len(records) // 2
                    return self._deliver(kind, records[:half]) and self._deliver(kind, records[half:])
                if isinstance(self._ways[kind].send(kind, b""), Accepted):
                    self._set_aside(records, answer.reason, 1)
                    return True
                answer = TryLater(f"{answer.reason}; an empty request is refused as well")
            self._went_wrong(answer)
        return False

    def _went_well(self) -> None:
        if self.trouble is not None:
            logger.warning("telemetry is accepted again")
        self.trouble, self._failures = None, 0

    def _went_wrong(self, answer: TryLater) -> None:
        if self.trouble != answer.reason:
            logger.warning("telemetry waits in the journal: %s", answer.reason)
        self.trouble = answer.reason
        self._pause(answer.after_s)

    def _pause(self, asked_s: float | None) -> None:
        """Wait as long as the receiver asks; otherwise longer with each failure, never in step with other senders."""
        growing_s = min(self._settings.first_backoff_s * 2**self._failures, self._settings.max_backoff_s)
        self._failures = min(self._failures + 1, 30)
        self._stopping.wait(growing_s * random.uniform(0.8, 1.2) if asked_s is None else asked_s)

    def _acknowledged(self, position: int) -> None:
        try:
            self._journal.advance(CURSOR, position)
        except sqlite3.Error as problem:  # after a restart these records would be sent again; no harm
            logger.warning("the outbox cannot note how far it is: %s", problem)
        with self._changed:
            self._move_to(position)

    def _move_to(self, position: int) -> None:
        self.done = position
        if self.done >= self._known:
            self._hurry = False
        self._changed.notify_all()
