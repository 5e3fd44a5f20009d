"""The control plane over HTTP: one route for all commands, a live stream of facts, and its own description."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

import orjson
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from models.errors import CommandRefused, InvalidCommand, JournalBusy, JournalUnwritable, NotAuthorised, NotFound
from models.event import Event
from models.items import Items
from runtime.control.command import MAX_REQUEST_BYTES, TABLE
from runtime.control.openapi import VIEWS, describe

if TYPE_CHECKING:
    from runtime.runtime import Runtime
    from views.state import State

KEEP_ALIVE_S = 15.0
PROBLEM = "application/problem+json"


class ControlApp:
    """The routes of one runtime; every one but `/livez` needs the token."""

    def __init__(self, runtime: Runtime, token: str) -> None:
        self._runtime = runtime
        self._token = token
        self.closing = asyncio.Event()

    def app(self) -> Starlette:
        """The routes."""
        return Starlette(
            routes=[
                Route("/v1/control/{command}", self.control, methods=["POST"]),
                Route("/v1/control", self.table, methods=["GET"]),
                Route("/v1/sessions/{session_id}/events", self.events, methods=["GET"]),
                Route("/openapi.json", self.openapi, methods=["GET"]),
                Route("/livez", self.livez, methods=["GET"]),
            ],
            exception_handlers={
                CommandRefused: _refused,
                NotAuthorised: _not_authorised,
                JournalBusy: _unavailable,
                JournalUnwritable: _unavailable,
                Exception: _bug,
                404: _no_route,
                405: _no_route,
            },
        )

    async def control(self, request: Request) -> Response:
        """Carry out one command."""
        self._authorise(request)
        name = request.path_params["command"]
        if name not in TABLE:
            raise NotFound("command", name[:100])
        content = await _content(request, name)
        answer = await self._runtime.call(name, content)
        return Response(answer.model_dump_json(exclude_none=True), media_type="application/json")

    async def table(self, request: Request) -> Response:
        """The commands there are."""
        self._authorise(request)
        lines = [
            {"name": one.name, "effect": one.effect, "supported": one.supported, "summary": one.summary}
            for one in TABLE.values()
        ]
        return JSONResponse({"commands": lines})

    async def openapi(self, request: Request) -> Response:
        """The description of all this for programs."""
        self._authorise(request)
        return JSONResponse(describe())

    async def livez(self, _: Request) -> Response:
        """The process answers."""
        return PlainTextResponse("ok\n")

    async def events(self, request: Request) -> Response:
        """The facts of a session after a number, or its items, as server-sent events, and each new one as it comes."""
        self._authorise(request)
        session_id = request.path_params["session_id"]
        told = request.headers.get("last-event-id") or request.query_params.get("after") or "0"
        if not told.isascii() or not told.isdecimal() or len(told) > 18:
            raise InvalidCommand("events", ["after: a number of a fact is needed, 0 for all"])
        view = request.query_params.get("view", VIEWS[0])
        if view not in VIEWS:
            raise InvalidCommand("events", [f"view: one of {', '.join(VIEWS)}"])
        if not self._runtime.kernel.known(session_id):
            raise NotFound("session", session_id)
        begin, after = int(told), int(told)
        frames: Callable[[Event], bytes] = _fact_frame
        if view == "items":
            begin, frames = _first_of_items(self._runtime.kernel.state(session_id), after), _item_frames(after)
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        stream = self._stream(session_id, begin, frames)
        return StreamingResponse(stream, media_type="text/event-stream", headers=headers)

    async def _stream(self, session_id: str, after: int, frames: Callable[[Event], bytes]) -> AsyncIterator[bytes]:
        facts = self._runtime.kernel.follow(session_id, after)
        closing = asyncio.ensure_future(self.closing.wait())
        coming: asyncio.Future[Any] | None = None
        try:
            yield b"retry: 1000\n\n"
            while not closing.done():
                coming = coming or asyncio.ensure_future(anext(facts))
                await asyncio.wait({coming, closing}, timeout=KEEP_ALIVE_S, return_when=asyncio.FIRST_COMPLETED)
                if coming.done():
                    event, coming = coming.result(), None
                    if frame := frames(event):
                        yield frame
                elif not closing.done():
                    yield b": still here\n\n"
        finally:
            closing.cancel()
            if coming is not None:
                coming.cancel()
                await asyncio.wait({coming})
            await facts.aclose()

    def _authorise(self, request: Request) -> None:
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), self._token.encode()):
            raise NotAuthorised(
                "the control plane needs its token", next_step="read it from the file that control.json names"
            )


def _fact_frame(event: Event) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.sequence or 0, event.type.encode(), event.to_json())


def _item_frames(after: int) -> Callable[[Event], bytes]:
    """Frames of a session's items; what happened up to a number is only looked at, to know which items are open."""
    items = Items()

    def frames(event: Event) -> bytes:
        told, number = items.take(event), event.sequence or 0
        if not told or number <= after:
            return b""
        data = [b"event: %s\ndata: %s\n" % (one["type"].encode(), orjson.dumps(one)) for one in told]
        # The number stands with the last one, so whoever resumes has seen all that the fact is, or gets it again.
        return b"\n".join((*data[:-1], b"id: %d\n%s\n" % (number, data[-1])))

    return frames


def _first_of_items(state: State, after: int) -> int:
    """The fact before the turns that were under way after a number: no open item began earlier."""
    first = after
    for thread_id in state.lane("threads"):
        for _, turn_id in state.lane("turns", thread_id).newest():
            started = state.source(("turns", turn_id, "started_at"))
            if started is not None and (started[1] or 0) <= after:
                first = min(first, (started[1] or 1) - 1)
                break
    return first


async def _content(request: Request, name: str) -> Any:
    """The JSON object of the body; read no further than a command may be long."""
    if request.headers.get("content-type", "application/json").partition(";")[0].strip() != "application/json":
        raise InvalidCommand(name, ["the content type is not application/json"])
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_REQUEST_BYTES:
            raise InvalidCommand(name, [f"the request is larger than {MAX_REQUEST_BYTES} bytes"])
    try:
        return orjson.loads(bytes(body) or b"{}")
    except orjson.JSONDecodeError:
        raise InvalidCommand(name, ["the request is not JSON"]) from None


def problem(status: int, kind: str, detail: str, next_step: str | None = None, **more: Any) -> Response:
    """What went wrong, in the form of RFC 9457."""
    told = {"type": f"urn:tachograph:{kind}", "title": kind.replace("_", " "), "status": status, "detail": detail}
    told |= {"kind": kind, "next_step": next_step, **more}
    headers = {"retry-after": "1"} if status == 503 else {}
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    return Response(orjson.dumps(told), status, headers, media_type=PROBLEM)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, CommandRefused)
    more = {"problems": error.problems} if isinstance(error, InvalidCommand) else {}
    return problem(error.status, error.kind, error.message, error.next_step, **more)


async def _not_authorised(_: Request, error: Exception) -> Response:
    assert isinstance(error, NotAuthorised)
    return problem(error.status, "not_authorised", error.message, error.next_step)


async def _unavailable(_: Request, error: Exception) -> Response:
    assert isinstance(error, JournalBusy | JournalUnwritable)
    return problem(503, "unavailable", "nothing can be recorded now, so nothing is done", error.next_step)


async def _no_route(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    kind = "not_found" if status == 404 else "method_not_allowed"
    return problem(status, kind, f"{request.method} {request.url.path[:200]} is not served here")


async def _bug(_: Request, __: Exception) -> Response:
    return problem(500, "internal", "an internal error; see the log of the runtime")
