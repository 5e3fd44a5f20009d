"""Watches running queries: past their time or memory they are interrupted, and if that does not help the process ends.

DuckDB's `interrupt` is cooperative and its memory limit does not count every allocation, so neither can be relied on.
Ending the process is: what is recorded lies in the journal, and the supervisor starts the index again.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import duckdb

POLL_SECONDS = 0.02
STOP_SECONDS = 2.0
"""So long an interrupted query may take to stop."""

FAREWELL_SECONDS = 0.15
"""So long the answers to waiting senders may take to leave before the process ends."""

SOFT_MARGIN_BYTES = 640 * 1024 * 1024
HARD_MARGIN_BYTES = 960 * 1024 * 1024
"""Resident memory over DuckDB's limit: at the first margin queries are interrupted, at the second the process ends.

The process needs some memory besides DuckDB's (Python, decoding of batches), and a query may gain 2 GB a second.
"""

EXIT_CODE = 75
"""`EX_TEMPFAIL`: start me again."""

Reason = Literal["time", "memory", "gone", "restarting"]

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Running:
    """A query while it runs."""

    timeout_s: float
    farewell: Callable[[Reason], None]
    """Called from the watchdog's thread when the process is about to end, with this query's part in it."""

    started: float = field(default_factory=time.monotonic)
    stopped: Reason | None = None
    """Why it was told to stop; None while it may run."""

    stopped_at: float = 0.0
    cursor: duckdb.DuckDBPyConnection | None = None

    def stop(self, reason: Reason) -> None:
        """Tell it to stop; the first reason stays."""
        if self.stopped is None:
            self.stopped, self.stopped_at = reason, time.monotonic()
        cursor = self.cursor
        if cursor is not None:
            with suppress(duckdb.ConnectionException):  # it ended meanwhile
                cursor.interrupt()

    @property
    def overdue(self) -> bool:
        """Whether it goes on although it was told to stop."""
        return self.stopped is not None and time.monotonic() - self.stopped_at > STOP_SECONDS


class Watchdog:
    """One thread that looks at all running queries and at the memory of the process."""

    def __init__(
        self,
        memory_limit_bytes: int,
        *,
        resident: Callable[[], int] | None = None,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        self._soft = memory_limit_bytes + SOFT_MARGIN_BYTES
        self._hard = memory_limit_bytes + HARD_MARGIN_BYTES
        self._resident = resident or resident_bytes
        self._end = end
        self.ending = False
        """Whether the process is about to end; what begins now would not be answered."""

        self._queries: list[Running] = []
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    @contextmanager
    def watching(self, query: Running) -> Iterator[None]:
        """Watch a query while the block runs."""
        with self._changed:
            self._queries.append(query)
            self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._queries.remove(query)

    def close(self) -> None:
        """Stop watching."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queries or self._closed)
                if self._closed:
                    return
                queries = list(self._queries)
            self.look(queries)
            time.sleep(POLL_SECONDS)

    def look(self, queries: list[Running]) -> None:
        """One look: interrupt what is past its bounds, end the process where that did not help."""
        now = time.monotonic()
        resident = self._resident()
        for query in queries:
            if query.stopped is None and now - query.started > query.timeout_s:
                query.stop("time")
        if resident > self._soft:
            # The newest is the likeliest cause; if it was not, the next look takes the next.
            newest = max((query for query in queries if query.stopped is None), key=_started, default=None)
            if newest is not None:
                newest.stop("memory")
        if resident > self._hard or any(query.overdue for query in queries):
            self._give_up(queries, resident)

    def _give_up(self, queries: list[Running], resident: int) -> None:
        log.error("a query did not stop (%d MB resident); the index ends and is started again", resident // 1_000_000)
        self.ending = True
        for query in queries:
            query.farewell(query.stopped or "restarting")
        time.sleep(FAREWELL_SECONDS)
        self._end(EXIT_CODE)


def _started(query: Running) -> float:
    return query.started


def resident_bytes() -> int:
    """The memory this process has in RAM."""
    return int(Path("/proc/self/statm").read_bytes().split()[1]) * PAGE_BYTES


PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
