"""The number of each fact within its session: rising by one, across restarts, without holes or repeats."""

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import orjson

from journal import Journal
from models.errors import JournalUnwritable
from runtime.telemetry.identity import write_whole

FILE = "sequences.json"
"""What was read of the journal, so that a start need not read all of it again; without it, it is read."""

SESSION, SEQUENCE = "session_id", "sequence"
"""Where a record of the journal says what its number is."""

logger = logging.getLogger("tachograph.runtime.numbering")


class Numbering:
    """Gives numbers to facts and knows, from the journal alone, which were given before."""

    def __init__(self, folder: Path, journal: Journal) -> None:
        self._path = folder / FILE
        self._journal = journal
        self._position, self._written = _noted(self._path, journal.last_position())
        self._last: dict[str, int] = {}
        self._unsure: set[str] = set()
        self._locks: dict[str, threading.Lock] = {}
        self._table = threading.Lock()
        self._reading = threading.Lock()
        self.note()

    def store(
        self,
        session_id: str,
        submit: Callable[[int], "Future[list[int]]"],
        count: int = 1,
        settled: Callable[[list[int]], None] = lambda _: None,
    ) -> list[int]:
        """Store facts under the session's next numbers, together, and give their positions; durable when it returns.

        One call of a session is on its way at a time, so a number is never given out before the one below it is safe,
        and `settled` is called in the order of the numbers.
        """
        with self._locked(session_id):
            number = self._last_of(session_id) + 1
            stored = submit(number)
            self._last[session_id] = number + count - 1  # in the queue from here on, even if our wait is interrupted
            try:
                positions = stored.result()
            except JournalUnwritable:
                self._unsure.add(session_id)  # what is in the journal decides, once it can be read again
                raise
            settled(positions)
            return positions

    @contextmanager
    def _locked(self, session_id: str) -> Iterator[None]:
        with self._table:
            lock = self._locks.setdefault(session_id, threading.Lock())
        with lock:
            yield

    def _last_of(self, session_id: str) -> int:
        if session_id in self._unsure:
            try:
                self._read_on()
            except OSError as problem:
                raise JournalUnwritable(self._journal.folder, str(problem)) from problem
            self._unsure.discard(session_id)
            self._last.pop(session_id)
        if session_id not in self._last:
            self._last[session_id] = self._written.get(session_id, 0)
        return self._last[session_id]

    def _read_on(self) -> None:
        """Follow the journal to its end: only what is in there counts as given."""
        with self._reading:
            while records := self._journal.read(self._position):
                for record in records:
                    if (session := record.meta.get(SESSION)) is not None:
                        self._written[session] = record.meta[SEQUENCE]
                self._position = records[-1].position

    def note(self) -> None:
        """Note what the journal says so far, so that the next start is quick."""
        self._read_on()
        with self._reading:
            content = orjson.dumps({"position": self._position, "sequences": self._written})
            try:
                write_whole(self._path, content)
            except OSError as problem:
                logger.warning("the next start will read the journal again: %s", problem)


def _noted(path: Path, last_position: int) -> tuple[int, dict[str, int]]:
    """What was noted, unless it cannot be true of this journal."""
    try:
        noted = orjson.loads(path.read_bytes())
        position, sequences = int(noted["position"]), dict(noted["sequences"])
    except (OSError, ValueError, LookupError, TypeError):
        return 0, {}
    return (position, sequences) if position <= last_position else (0, {})
