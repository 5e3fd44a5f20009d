"""The store while it is being asked: queries run beside the loader and make way when it must open the file anew."""

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import duckdb
import polars as pl
import pyarrow as pa

from collector.problems import Problem
from collector.watchdog import EXIT_CODE, STOP_SECONDS, Reason, Running
from store import Appended, Store, Undecoded

T = TypeVar("T")

DAMAGE_TEXT = re.compile(r"(?:IO Error: )?(Corrupt database file: computed checksum \d+ does not match.*)")
"""How DuckDB says that a block is damaged. No query can say it: functions that fail with a given text are refused."""

WAIT_SECONDS = 5.0
"""So long a query waits for a file that is being opened anew."""


class IndexStore(Store):
    """Hands out cursors for queries and takes them back before the file is closed."""

    def __init__(self, path: Path, **options: Any) -> None:
        self._readers: set[Running] = set()
        self._changed = threading.Condition()
        self._closing = 0
        self._damage: str | None = None
        super().__init__(path, **options)

    @contextmanager
    def reading(self, running: Running) -> Iterator[duckdb.DuckDBPyConnection]:
        """A cursor for one query; raises Problem while the file is being opened anew."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._closing, WAIT_SECONDS):
                raise Problem("restarting", "the index is being opened anew", "try again in a moment")
            running.cursor = self.cursor()
            self._readers.add(running)
        try:
            yield running.cursor
        finally:
            with self._changed:
                cursor, running.cursor = running.cursor, None
                cursor.close()
                self._readers.discard(running)
                self._changed.notify_all()

    def damaged(self, error: Exception) -> bool:
        """Whether a query met damage in the file; the loader then puts it aside and fills a new one."""
        found = DAMAGE_TEXT.match(str(error))
        if found:
            self._damage = found[1]
        return found is not None

    def position(self) -> int:
        """See Store; raises the damage that a query met."""
        self._raise_damage()
        return super().position()

    def append(
        self, records: pa.Table, events: pa.Table | pl.DataFrame, position: int, undecoded: Sequence[Undecoded] = ()
    ) -> Appended:
        """See Store; raises the damage that a query met."""
        self._raise_damage()
        return self._with_room(lambda: super(IndexStore, self).append(records, events, position, undecoded))

    def refresh(self) -> None:
        """See Store; queries make room."""
        self._with_room(super().refresh)

    def checkpoint(self) -> None:
        """See Store; queries make room."""
        self._with_room(super().checkpoint)

    def _with_room(self, work: Callable[[], T]) -> T:
        """Do the loader's work; memory that queries hold is taken from them, because the record comes first."""
        try:
            return work()
        except duckdb.OutOfMemoryException:
            if not self._readers:
                raise
        with self._alone("memory"):
            return work()

    def reopen(self) -> int:
        """See Store; queries make way."""
        with self._alone():
            return super().reopen()

    def quarantine(self, reason: str) -> None:
        """See Store; queries make way."""
        with self._alone():
            super().quarantine(reason)

    def close(self) -> None:
        """See Store; queries make way."""
        with self._alone():
            super().close()

    def _raise_damage(self) -> None:
        if self._damage is not None:
            told, self._damage = self._damage, None
            raise duckdb.Error(told)

    @contextmanager
    def _alone(self, reason: Reason = "restarting") -> Iterator[None]:
        """Interrupt every query and let none begin. One that does not end keeps the file open: then we end."""
        with self._changed:
            self._closing += 1
            deadline = time.monotonic() + STOP_SECONDS
            while self._readers:
                for running in self._readers:
                    running.stop(reason)
                if not self._changed.wait(0.1) and time.monotonic() > deadline:
                    os._exit(EXIT_CODE)
        try:
            yield
        finally:
            with self._changed:
                self._closing -= 1
                self._changed.notify_all()
