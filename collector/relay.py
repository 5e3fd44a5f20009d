"""Reads on the HTTP port: checked here, answered by the index over its Unix socket."""

import asyncio
import ipaddress
from collections.abc import AsyncGenerator, Awaitable, Callable
from urllib.parse import urlsplit

import httpx
import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from collector.problems import Problem
from collector.query_request import QueryRequest, limited_body
from collector.receiver import Receiver
from collector.streaming import BoundedStream
from models.errors import NotAuthorised, TachographError
from models.settings import Settings

SOCKET = "index.sock"
MARGIN_SECONDS = 10.0
"""The index answers in time or ends; this much later we no longer believe in it."""

DRAIN_POLL_SECONDS = 0.25
RESTARTING = b'event: end\ndata: {"reason":"restarting","hint":"reconnect with Last-Event-ID"}\n\n'
PASSED_HEADERS = ("content-type", "x-rows", "x-truncated", "retry-after", "cache-control")
READS: tuple[tuple[str, str, str], ...] = (
    ("POST", "/v1/query", "sql"),
    ("GET", "/v1/stream", "read"),
    ("GET", "/v1/index", "read"),
)
"""Method, path, and the scope a token needs."""

Endpoint = Callable[[Request], Awaitable[Response]]


class Relay:
    """Passes reads on to the index, whoever it is by now."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._settings = receiver.settings
        self._client = httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(
                uds=str(self._settings.home / SOCKET),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=8),
            ),
            base_url="http://index",
            timeout=httpx.Timeout(self._settings.query_timeout_max_s + MARGIN_SECONDS, connect=2.0),
        )

    def routes(self) -> list[Route]:
        """The routes it serves."""
        handlers = {"/v1/query": self._query, "/v1/stream": self._stream, "/v1/index": self._index}
        return [Route(path, self._guarded(scope, handlers[path]), methods=[verb]) for verb, path, scope in READS]

    def _guarded(self, scope: str, handler: Endpoint) -> Endpoint:
        async def guarded(request: Request) -> Response:
            try:
                self._receiver.authorise(request.headers.get("authorization"), scope)
                if not self._receiver.tokens.configured():
                    require_own_host(request, self._settings)
                return await handler(request)
            except NotAuthorised as refusal:
                return Problem("not_authorised", refusal.message, refusal.next_step, status=refusal.status).response()
            except Problem as problem:
                return problem.response()
            except TachographError as refusal:  # the token file cannot be trusted
                return Problem("busy", refusal.message, refusal.next_step).response()
            except ClientDisconnect:
                return Response(status_code=499)

        return guarded

    async def _query(self, request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            # Also keeps foreign web pages from asking: a browser sends JSON elsewhere only after asking us.
            raise Problem("request", "a query is sent as application/json", status=415)
        try:
            async with asyncio.timeout(self._settings.body_timeout_s):
                asked = self._limited(QueryRequest.parse(await limited_body(request)))
        except TimeoutError:
            raise Problem("request", "the body did not come in time", status=408) from None
        work = asyncio.ensure_future(self._post(asked))
        gone = asyncio.ensure_future(_disconnected(request))
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        gone.cancel()
        if not work.done():
            work.cancel()  # closes the connection to the index, which then stops the query
            raise ClientDisconnect
        return work.result()

    def _limited(self, asked: QueryRequest) -> QueryRequest:
        """The question with the row limit of this port."""
        most = self._settings.query_rows_max
        if asked.max_rows is not None and asked.max_rows > most:
            raise Problem("request", f"max_rows may be {most} at most")
        return asked.model_copy(update={"max_rows": asked.max_rows or min(self._settings.query_rows, most)})

    async def _post(self, asked: QueryRequest) -> Response:
        try:
            answer = await self._client.post(
                "/v1/query", content=orjson.dumps(asked.model_dump()), headers={"content-type": "application/json"}
            )
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise _absent() from None
        except httpx.TransportError:
            raise _restarted() from None
        return Response(answer.content, answer.status_code, _passed(answer))

    async def _index(self, _: Request) -> Response:
        try:
            answer = await self._client.get("/v1/index", timeout=5.0)
        except httpx.TransportError:
            raise _absent() from None
        return Response(answer.content, answer.status_code, _passed(answer))

    async def _stream(self, request: Request) -> Response:
        headers = {name: request.headers[name] for name in ("last-event-id",) if name in request.headers}
        params = httpx.QueryParams(request.url.query)
        asked = self._client.build_request("GET", "/v1/stream", params=params, headers=headers, timeout=60.0)
        try:
            answer = await self._client.send(asked, stream=True)
        except httpx.TransportError:
            raise _absent() from None
        stall_s = 2 * self._settings.stream_stall_s
        return BoundedStream(self._pieces(answer), answer.status_code, _passed(answer), stall_s=stall_s)

    async def _pieces(self, answer: httpx.Response) -> AsyncGenerator[bytes, None]:
        pieces = aiter(answer.aiter_raw())
        coming: asyncio.Future[bytes] | None = None
        try:
            while not self._receiver.draining:
                coming = coming or asyncio.ensure_future(anext(pieces))
                await asyncio.wait({coming}, timeout=DRAIN_POLL_SECONDS)
                if coming.done():
                    yield coming.result()
                    coming = None
            yield RESTARTING
        except StopAsyncIteration:
            return
        except httpx.TransportError:
            yield RESTARTING
        finally:
            if coming is not None:
                coming.cancel()
            await answer.aclose()


def require_own_host(request: Request, settings: Settings) -> None:
    """Refuse requests that a web page of somebody else's made: its name may point to this machine, ours it cannot use.

    Only needed while no token is set; a page does not know a token.
    """
    allowed = {name.strip().lower() for name in settings.allowed_hosts.split(",") if name.strip()}
    named = [request.headers.get("host", "")]
    if origin := request.headers.get("origin"):
        named.append(urlsplit(origin).netloc or "null")
    for text in named:
        if not _is_own(text, allowed):
            raise Problem(
                "refused",
                f"requests for {text[:100]!r} are not answered while no token is set",
                "use 127.0.0.1 or localhost, set TACHOGRAPH_ALLOWED_HOSTS, or make a token",
            )


def _is_own(text: str, allowed: set[str]) -> bool:
    host = (urlsplit(f"//{text}").hostname or "").lower() if text.isprintable() else ""
    if host in allowed or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _absent() -> Problem:
    message = "the index is not running or is being started; receiving goes on"
    return Problem("restarting", message, "try again in a moment")


def _restarted() -> Problem:
    return Problem(
        "restarting",
        "the index was restarted while the query ran; a query that uses too much memory or time does that",
        "narrow the query; if it is modest, try again in a moment",
    )


def _passed(answer: httpx.Response) -> dict[str, str]:
    return {name: answer.headers[name] for name in PASSED_HEADERS if name in answer.headers}


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
