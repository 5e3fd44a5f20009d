"""The live tail: events as server-sent events, in the order they were loaded, resumable without loss or doubles.

The cursor of an event is its journal position and its place among the events of that position. A position is loaded as
a whole or not at all and its events never change, so the cursor means the same after a restart and after a rebuild.
Nothing is kept per reader but its cursor: each takes from the table what it has not seen, as fast as it reads.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, aclosing
from dataclasses import dataclass
from typing import Any, Protocol

import duckdb
import orjson

from collector.problems import Problem
from collector.query import rows_json
from collector.watchdog import Running

READERS = 32
CHUNK_EVENTS = 100
POLL_SECONDS = 0.25
HEARTBEAT_SECONDS = 15.0
QUERY_SECONDS = 10.0
WHOLE = 999_999_999
"""Stands for the last place of a position, whatever it is."""

_CURSOR = re.compile(r"(\d{1,18})\.(\d{1,9})")

NEW_EVENTS = """
    select * from (
        select e.journal_position, row_number() over (
            partition by e.journal_position order by e.timestamp, e.event_id
        ) as place, e.* exclude (journal_position)
        from session_events as e
        where e.journal_position between ? and ?
    ) where (journal_position > ? or place > ?) {filters}
    order by journal_position, place limit ?
"""
SPAN_POSITIONS = 2000
"""Journal records looked at by one query, so that a reader far behind does not sort the whole table."""


class Database(Protocol):
    """Where events are read."""

    def reading(self, running: Running) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """A cursor of its own for one query."""


@dataclass(frozen=True, slots=True)
class Cursor:
    """A place in the order of events: after the given event of a journal position."""

    position: int
    place: int

    def __str__(self) -> str:
        return f"{self.position}.{self.place}"

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Read what an event's `id` was."""
        found = _CURSOR.fullmatch(text)
        if not found:
            raise Problem(
                "request", f"{text[:40]!r} is no cursor", "use the id of an event of this stream, or leave it out"
            )
        return cls(int(found[1]), int(found[2]))


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a reader asks for."""

    after: Cursor | None
    sessions: Sequence[str] = ()
    types: Sequence[str] = ()


class Tail:
    """Serves the tail to a bounded number of readers."""

    def __init__(self, database: Database, stall_s: float) -> None:
        self._database = database
        self._stall_s = stall_s
        self._readers = 0
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="tail")
        self.draining = False

    def close(self) -> None:
        """Let go of its threads."""
        self._pool.shutdown()

    async def follow(self, wanted: Wanted) -> AsyncGenerator[bytes, None]:
        """The stream for one reader; raises Problem before its first piece or not at all."""
        if self._readers >= READERS:
            raise Problem("busy", f"{READERS} readers follow already", "try again later")
        self._readers += 1
        try:
            cursor = wanted.after or Cursor(await self._loaded(), WHOLE)
            yield b": follows\nretry: 1000\n\n"
            async with aclosing(self._pieces(wanted, cursor)) as pieces:
                async for piece in pieces:
                    given = time.monotonic()
                    yield piece
                    if time.monotonic() - given > self._stall_s:
                        yield end("too slow", "reconnect with Last-Event-ID to go on where you were")
                        return
        finally:
            self._readers -= 1

    async def _pieces(self, wanted: Wanted, cursor: Cursor) -> AsyncGenerator[bytes, None]:
        told = time.monotonic()
        while not self.draining:
            try:
                events, reached = await self._ask(self._next, wanted, cursor)
            except (duckdb.Error, Problem):
                yield end("restarting", "the index is restarted; reconnect with Last-Event-ID")
                return
            if events:
                yield b"".join(events)
                told = time.monotonic()
            if reached != cursor:
                cursor = reached
                continue
            if time.monotonic() - told > HEARTBEAT_SECONDS:
                yield b": still here\n\n"
                told = time.monotonic()
            await asyncio.sleep(POLL_SECONDS)
        yield end("restarting", "the index is stopping; reconnect with Last-Event-ID")

    async def _loaded(self) -> int:
        return int(await self._ask(self._position))

    async def _ask(self, question: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, question, *arguments)

    def _position(self) -> int:
        with self._database.reading(_unwatched()) as connection:
            return int(connection.execute("select position from progress").fetchall()[0][0])

    def _next(self, wanted: Wanted, cursor: Cursor) -> tuple[list[bytes], Cursor]:
        """The next events and the cursor after them; both of one moment, because one transaction reads them."""
        with self._database.reading(_unwatched()) as connection:
            connection.execute("begin transaction read only")
            loaded = int(connection.execute("select position from progress").fetchall()[0][0])
            last = min(loaded, cursor.position + SPAN_POSITIONS)
            if last < cursor.position:
                return [], cursor  # the index was made anew and has not come so far yet
            filters, values = _filters(wanted)
            reader = connection.sql(
                NEW_EVENTS.format(filters=filters),
                params=[cursor.position, last, cursor.position, cursor.place, *values, CHUNK_EVENTS],
            ).to_arrow_reader(CHUNK_EVENTS)
            rows = [
                (orjson.loads(b"[" + rows_json(batch) + b"]"), batch.schema.names) for batch in reader if batch.num_rows
            ]
        events = [dict(zip(names, row, strict=True)) for found, names in rows for row in found]
        if len(events) == CHUNK_EVENTS:
            return [_event(event) for event in events], Cursor(events[-1]["journal_position"], events[-1]["place"])
        # All of these positions were seen, whatever the filters left out.
        return [_event(event) for event in events], Cursor(last, WHOLE)


def _unwatched() -> Running:
    return Running(QUERY_SECONDS, lambda _: None)


def _filters(wanted: Wanted) -> tuple[str, list[str]]:
    parts = []
    values: list[str] = []
    for column, chosen in (("session_id", wanted.sessions), ("type", wanted.types)):
        if chosen:
            parts.append(f"and {column} in ({', '.join('?' * len(chosen))})")
            values += chosen
    return " ".join(parts), values


def _event(event: dict[str, Any]) -> bytes:
    """One event in the form of the stream; what is unknown is left out."""
    cursor = Cursor(event["journal_position"], event["place"])
    for name in ("payload", "refs"):
        if event.get(name):
            event[name] = orjson.loads(event[name])
    content = orjson.dumps({name: value for name, value in event.items() if value is not None and name != "place"})
    return b"id: %s\ndata: %s\n\n" % (str(cursor).encode(), content)


def end(reason: str, hint: str) -> bytes:
    """The last piece of a stream that we end."""
    return b"event: end\ndata: %s\n\n" % orjson.dumps({"reason": reason, "hint": hint})
