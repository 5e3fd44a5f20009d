"""The index as a process: loads the journal into DuckDB and answers questions on a Unix socket in the home folder."""

import asyncio
import signal
import socket
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import duckdb
import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from collector.home import Home
from collector.http_server import Server
from collector.index_store import IndexStore
from collector.loader import Loader
from collector.prices import Prices
from collector.problems import Problem
from collector.query import Queries
from collector.query_request import QueryRequest, limited_body
from collector.repricing import Repricer
from collector.sql_guard import Guard, columns_of
from collector.stream import Cursor, Tail, Wanted
from collector.streaming import BoundedStream
from collector.watchdog import Running, Watchdog
from journal import Journal
from models.errors import TachographError, UsageError
from models.settings import Settings
from store import Layout, quarantine
from store.database import without_paths

MAX_SOCKET_PATH_BYTES = 107
CATCH_UP_SECONDS = 3.0
"""After SIGTERM so long loading goes on; what is left is loaded at the next start."""

REPRICING_POLL_SECONDS = 0.1


class Index:
    """The parts of the process, and what its routes do."""

    def __init__(self, settings: Settings) -> None:
        self._layout = Layout(settings.home)
        self.journal = Journal(self._layout.journal, compress=False)
        self.store = IndexStore.open(settings.home, memory_limit=f"{settings.index_memory_bytes}B")
        self._prices = Prices(settings.home)
        self._loader = Loader(self.journal, self.store, Repricer(self.store, self._prices.table(), self._prices.note))
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._load, name="loader")
        self.failure: BaseException | None = None
        with self.store.cursor() as cursor:
            guard = Guard(columns_of(cursor))
        self._queries = Queries(self.store, guard, Watchdog(settings.index_memory_bytes), settings)
        self._tail = Tail(self.store, settings.stream_stall_s)
        self._stall_s = 2 * settings.stream_stall_s

    def start(self) -> None:
        """Begin to load."""
        self._thread.start()

    def _load(self) -> None:
        try:
            self._loader.run(self._stop)
        except BaseException as failure:
            self.failure = failure
            raise

    @property
    def loading(self) -> bool:
        """Whether the loader runs."""
        return self._thread.is_alive()

    async def finish(self) -> None:
        """Load what is left, as far as there is time, and write it to the file."""
        self._tail.draining = True
        deadline = time.monotonic() + CATCH_UP_SECONDS
        while self.loading and time.monotonic() < deadline:
            if (await asyncio.to_thread(self._status))["lag"]["records"] == 0:
                break
            await asyncio.sleep(0.05)
        self._stop.set()
        await asyncio.to_thread(self._thread.join)

    def close(self) -> None:
        """Let go of everything; nobody asks any more."""
        self.store.close()
        self._queries.close()
        self._tail.close()
        self.journal.close()

    def app(self) -> Starlette:
        """The routes."""
        routes = (
            ("/v1/query", self.query, ["POST"]),
            ("/v1/stream", self.stream, ["GET"]),
            ("/v1/index", self.index, ["GET"]),
            ("/v1/reprice", self.reprice, ["POST"]),
            ("/livez", self.livez, ["GET"]),
            ("/readyz", self.readyz, ["GET"]),
        )
        return Starlette(
            routes=[Route(path, endpoint, methods=methods) for path, endpoint, methods in routes],
            exception_handlers={Problem: _told, Exception: _bug},
        )

    async def query(self, request: Request) -> Response:
        """Answer one statement."""
        asked = QueryRequest.parse(await limited_body(request))
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            answer = await self._queries.ask(asked, gone)
        finally:
            gone.cancel()
        headers = {"x-rows": str(answer.rows), "x-truncated": str(answer.truncated).lower()}
        return Response(answer.content, headers=headers, media_type=answer.media_type)

    async def stream(self, request: Request) -> Response:
        """Follow the events."""
        pieces = self._tail.follow(wanted(request))
        first = await anext(pieces)

        async def whole() -> AsyncGenerator[bytes, None]:
            async with aclosing(pieces):
                yield first
                async for piece in pieces:
                    yield piece

        # Cut off without a word only if the reader does not even take the word that it is too slow.
        headers = {"content-type": "text/event-stream", "cache-control": "no-store"}
        return BoundedStream(whole(), 200, headers, stall_s=self._stall_s)

    async def index(self, _: Request) -> Response:
        """What is loaded and what is not yet."""
        return JSONResponse(await asyncio.to_thread(self._status))

    async def reprice(self, _: Request) -> Response:
        """Go by the prices that the home's folder tells now; lines of JSON say how far that is and what came of it.

        Only on the socket in the home folder, never passed on from the HTTP port. It goes on if nobody listens.
        """
        try:
            repricing = self._loader.pricing.go_by(await asyncio.to_thread(self._prices.table))
        except TachographError as problem:
            raise Problem("request", problem.message, problem.next_step) from None

        async def lines() -> AsyncGenerator[bytes, None]:
            while repricing.outcome is None and repricing.failure is None and self.loading:
                yield orjson.dumps({"done": repricing.done, "rows": repricing.rows}) + b"\n"
                await asyncio.sleep(REPRICING_POLL_SECONDS)
            ended = repricing.failure or "the index is stopping; pricing goes on at its next start"
            told = {"error": ended} if repricing.outcome is None else {"outcome": asdict(repricing.outcome)}
            yield orjson.dumps(told) + b"\n"

        return StreamingResponse(lines(), media_type="application/x-ndjson")

    async def livez(self, _: Request) -> Response:
        """The process answers."""
        return PlainTextResponse("ok\n")

    async def readyz(self, _: Request) -> Response:
        """Whether questions are answered."""
        ready = self.loading and not self._tail.draining
        return JSONResponse({"state": "ready" if ready else "draining"}, 200 if ready else 503)

    def _status(self) -> dict[str, Any]:
        """What is loaded, as far as the file can be read, and why loading stands still if it does."""
        unread: str | None = None
        try:
            known = self._progress()
        except (Problem, duckdb.Error) as error:
            # Being opened anew, or failing: that is just when someone asks, and the trouble is known without the file.
            known = {"loaded": None, "lag": {"records": None, "seconds": None}}
            unread = str(error) if isinstance(error, Problem) else without_paths(error)
        return {
            **known,
            "trouble": self._loader.trouble or self.store.trouble or self._loader.pricing.trouble or unread,
            "quarantines": [note.model_dump(mode="json") for note in quarantine.notes(self._layout)],
        }

    def _progress(self) -> dict[str, Any]:
        """What the tables hold, and how far they are behind the journal."""
        with self.store.reading(Running(5.0, lambda _: None)) as cursor:
            names = ("position", "records", "events", "duplicates", "undecoded")
            row = cursor.execute(f"select {', '.join(names)} from progress").fetchall()[0]  # noqa: S608
        progress = dict(zip(names, row, strict=True))
        loaded = int(progress.pop("position"))
        behind = max(0, self.journal.last_position() - loaded)
        oldest = self.journal.read(loaded, 1, 1) if behind else []
        seconds = max(0.0, time.time() - oldest[0].received_ns / 1e9) if oldest else 0.0
        return {"loaded": loaded, "lag": {"records": behind, "seconds": round(seconds, 3)}, **progress}


def wanted(request: Request) -> Wanted:
    """What the reader of a stream asks for."""
    known = {"session", "type", "after"}
    if unknown := set(request.query_params) - known:
        raise Problem("request", f"unknown parameter {min(unknown)!r}", f"use {', '.join(sorted(known))}")
    after = request.headers.get("last-event-id") or request.query_params.get("after")
    return Wanted(
        Cursor.parse(after) if after else None,
        request.query_params.getlist("session"),
        request.query_params.getlist("type"),
    )


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _told(_: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    return problem.response()


async def _bug(_: Request, __: Exception) -> Response:
    return Problem("internal", "an internal error; see the log of the index").response()


def _require_short(path: Path) -> None:
    if len(str(path).encode()) > MAX_SOCKET_PATH_BYTES:
        raise UsageError(
            f"{path} is too long for a Unix socket ({MAX_SOCKET_PATH_BYTES} bytes at most)",
            next_step="choose a home folder with a shorter path",
        )


def _bind(path: Path) -> socket.socket:
    """The socket; only our own user may connect."""
    # Whoever holds the lock of the index may do this: an older socket has nobody behind it.
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(128)
    return listener


async def serve(settings: Settings, ready: Callable[[], None]) -> None:
    """Load and answer until SIGTERM or SIGINT; then finish the batch, write it to the file, and return."""
    home = Home(settings.home)
    _require_short(Layout(home.path).socket)
    home.make()
    index = Index(settings)
    listener = _bind(Layout(settings.home).socket)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    config = uvicorn.Config(
        index.app(), ws="none", lifespan="off", log_config=None, access_log=False, server_header=False,
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = Server(config)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    index.start()
    while not server.started and not running.done():
        await asyncio.sleep(0.005)
    with home.announced("index", socket="index.sock"):
        ready()
        await _first(stop.wait(), _ended(index))
        server.should_exit = True
        await index.finish()
        await running
        index.close()
    Layout(settings.home).socket.unlink(missing_ok=True)
    if index.failure is not None:
        raise index.failure


async def _ended(index: Index) -> None:
    """The loader gave up, which it does for faults of ours only; without it there is nothing to serve."""
    while index.loading:
        await asyncio.sleep(0.2)


async def _first(*waits: Awaitable[Any]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
