"""Questions in SQL: checked, run under limits beside the loader, and answered as an Arrow stream or JSON."""

import asyncio
import base64
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, Protocol

import duckdb
import orjson
import pyarrow as pa

from collector.problems import Problem
from collector.query_request import QueryRequest
from collector.sql_guard import Guard
from collector.watchdog import Reason, Running, Watchdog
from models.settings import Settings

AT_ONCE = 4
WAIT_SECONDS = 2.0
"""So long a query waits for its turn."""

BATCH_ROWS = 2048
ARROW_TYPE = "application/vnd.apache.arrow.stream"
JSON_OPTIONS = orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query gave."""

    content: bytes
    media_type: str
    rows: int
    truncated: bool


class Database(Protocol):
    """Where queries run."""

    def reading(self, running: Running) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
        """A cursor of its own for one query."""

    def damaged(self, error: Exception) -> bool:
        """Whether the error shows damage of the file; it is then taken care of."""


class Queries:
    """Runs a few queries at a time, each within its bounds."""

    def __init__(self, database: Database, guard: Guard, watchdog: Watchdog, settings: Settings) -> None:
        self._database = database
        self._guard = guard
        self._watchdog = watchdog
        self._settings = settings
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="query")

    async def ask(self, request: QueryRequest, gone: "asyncio.Future[None]") -> Answer:
        """The answer to a question; raises Problem. `gone` resolves when nobody waits for it any more."""
        loop = asyncio.get_running_loop()
        verdict: asyncio.Future[Answer] = loop.create_future()
        running = Running(self._timeout_s(request), lambda reason: _tell(loop, verdict, reason))
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await self._turns.acquire()
        except TimeoutError:
            raise Problem("busy", f"{AT_ONCE} queries are running already", "try again in a moment") from None
        if self._watchdog.ending:
            self._turns.release()
            raise stopped("restarting", 0)
        running.started = time.monotonic()
        work = asyncio.ensure_future(loop.run_in_executor(self._pool, self._run, request, running))
        work.add_done_callback(lambda _: self._turns.release())
        gone.add_done_callback(lambda _: running.stop("gone"))
        done, _ = await asyncio.wait({work, verdict}, return_when=asyncio.FIRST_COMPLETED)
        verdict.cancel()
        return done.pop().result()

    def close(self) -> None:
        """Let go of everything; running queries end first."""
        self._pool.shutdown()
        self._guard.close()
        self._watchdog.close()

    def _timeout_s(self, request: QueryRequest) -> float:
        most = self._settings.query_timeout_max_s
        if request.timeout_s is not None and request.timeout_s > most:
            raise Problem("request", f"timeout_s may be {most:g} at most")
        return request.timeout_s or self._settings.query_timeout_s

    def _run(self, request: QueryRequest, running: Running) -> Answer:
        statement = self._guard.checked(request.sql)
        try:
            with self._watchdog.watching(running), self._database.reading(running) as cursor:
                if running.stopped:
                    raise duckdb.InterruptException("stopped before it began")
                with cursor.sql(statement, params=request.params).to_arrow_reader(BATCH_ROWS) as reader:
                    return self._collected(request, reader)
        except (duckdb.Error, pa.ArrowException, OSError, RuntimeError) as error:
            raise self._problem(error, running) from error

    def _collected(self, request: QueryRequest, reader: pa.RecordBatchReader) -> Answer:
        taken = Taken(request.max_rows, self._settings.query_result_bytes)
        if request.format == "arrow":
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, reader.schema) as writer:
                for batch in taken.of(reader):
                    writer.write_batch(batch)
            return Answer(sink.getvalue().to_pybytes(), ARROW_TYPE, taken.rows, taken.truncated)
        parts = [part for batch in taken.of(reader) if (part := rows_json(batch))]
        columns = orjson.dumps([field.name for field in reader.schema])
        end = b'],"truncated":' + orjson.dumps(taken.truncated) + b"}"
        content = b'{"columns":' + columns + b',"rows":[' + b",".join(parts) + end
        return Answer(content, "application/json", taken.rows, taken.truncated)

    def _problem(self, error: Exception, running: Running) -> Problem:
        if running.stopped is not None:
            return stopped(running.stopped, running.timeout_s)
        if isinstance(error, duckdb.OutOfMemoryException) or "Out of Memory" in str(error):
            return stopped("memory", 0)
        if self._database.damaged(error) or isinstance(error, duckdb.FatalException):
            return Problem("restarting", "the index is damaged and is being made anew", "try again in a moment")
        # Errors while rows are fetched come through Arrow, which keeps only their text.
        return self._guard.failed(error if isinstance(error, duckdb.Error) else duckdb.Error(str(error)))


class Taken:
    """Takes batches up to the limits of an answer, and knows whether something was left."""

    def __init__(self, max_rows: int | None, max_bytes: int) -> None:
        self._max_rows = max_rows
        self._max_bytes = max_bytes
        self.rows = 0
        self.truncated = False

    def of(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """The batches within the limits. Without a row limit nothing is left out: too much is an error."""
        size = 0
        for batch in reader:
            room = batch.num_rows
            if self._max_rows is not None:
                room = min(room, self._max_rows - self.rows)
            if size + batch.nbytes > self._max_bytes:
                if self._max_rows is None:
                    raise Problem(
                        "limit",
                        f"the answer is larger than {self._max_bytes} bytes",
                        "select fewer columns or rows, or set max_rows",
                        limit="bytes",
                    )
                room = min(room, batch.num_rows * (self._max_bytes - size) // batch.nbytes)
            self.truncated = room < batch.num_rows
            size += batch.nbytes
            self.rows += room
            yield batch.slice(0, room)
            if self.truncated:
                return


def rows_json(batch: pa.RecordBatch) -> bytes:
    """The rows of a batch as JSON arrays, comma-separated."""
    columns = [_values(column) for column in batch.columns]
    return orjson.dumps(list(zip(*columns, strict=True)), default=_json_value, option=JSON_OPTIONS)[1:-1]


def _values(column: pa.Array) -> list[Any]:
    """The values of a column; a time in UTC to the microsecond, or as a number of those where Python has no such year.

    Times go through numpy, which makes them thirty times faster than Arrow.
    """
    if not pa.types.is_timestamp(column.type):
        return list(column.to_pylist())
    return list(column.to_numpy(zero_copy_only=False).astype("datetime64[us]").tolist())


def _json_value(value: Any) -> Any:
    """What JSON has no form for."""
    if isinstance(value, Decimal):
        whole = value == value.to_integral_value()
        return (int(value) if abs(value) < 2**63 else str(value)) if whole else float(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, timedelta):
        return value.total_seconds()
    return str(value)


def stopped(reason: Reason, timeout_s: float) -> Problem:
    """What the sender of a query that was stopped is told."""
    if reason == "time":
        return Problem(
            "limit", f"the query took longer than {timeout_s:g} s", "narrow it, for example by time", limit="time"
        )
    if reason == "memory":
        return Problem(
            "limit",
            "the query needed more memory than it may use",
            "aggregate or filter before sorting",
            limit="memory",
        )
    return Problem("restarting", "the index is being restarted", "try again in a moment")


def _tell(loop: asyncio.AbstractEventLoop, verdict: "asyncio.Future[Answer]", reason: Reason) -> None:
    def settle() -> None:
        if not verdict.done():
            told = stopped(reason, 0) if reason != "time" else Problem("limit", "the query took too long", limit="time")
            verdict.set_exception(Problem(told.kind, f"{told.message}; the index is restarted", limit=told.limit))

    loop.call_soon_threadsafe(settle)
