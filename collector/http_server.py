"""The HTTP port: OTLP, our own event lines, blobs, reads (relayed to the index), and health."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import orjson
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from collector.blob_routes import BlobRoutes
from collector.bodies import ENCODINGS, Overloaded, UnknownEncoding, collect
from collector.http_protocol import patient_protocol
from collector.receiver import Arrival, Receiver, Source
from collector.relay import Relay
from ingest.otlp.answers import answer, status_body
from ingest.otlp.check import Checked
from ingest.otlp.refusals import TooLarge
from ingest.otlp.signals import SIGNALS, Encoding
from models.errors import JournalBusy, JournalUnwritable, MalformedInput, NotAuthorised, TachographError

OTLP_TYPES: dict[str, Encoding] = {"application/x-protobuf": "protobuf", "application/json": "json"}
LINE_TYPES: dict[str, Encoding] = dict.fromkeys(
    ("application/x-ndjson", "application/jsonl", "application/json"), "json"
)
RETRY_AFTER_SECONDS = 1


class UnknownContentType(TachographError):
    """A content type that is not served."""


class TooSlow(TachographError):
    """The body did not come in time."""


# What each refusal is in HTTP and among gRPC's codes, which OTLP's error bodies use.
STATUSES: tuple[tuple[type[TachographError], int, int], ...] = (
    (UnknownContentType, 415, 3),
    (UnknownEncoding, 415, 3),
    (TooSlow, 408, 4),
    (TooLarge, 413, 8),
    (MalformedInput, 400, 3),
    (Overloaded, 503, 14),
    (JournalBusy, 503, 14),
    (JournalUnwritable, 503, 14),
)


def status_of(refusal: TachographError) -> tuple[int, int]:
    """The HTTP status and gRPC code of a refusal. Trouble of ours is 503, never 500: a client would drop its data."""
    if isinstance(refusal, NotAuthorised):
        return refusal.status, 16 if refusal.status == 401 else 7
    return next(((status, code) for kind, status, code in STATUSES if isinstance(refusal, kind)), (503, 14))


@dataclass(frozen=True, slots=True)
class Intake:
    """One ingest route: what it takes and how it answers."""

    path: str
    source: Source
    types: dict[str, Encoding]
    answer: Callable[[Encoding, Checked], bytes]


def _otlp_answer(source: Source) -> Callable[[Encoding, Checked], bytes]:
    return lambda encoding, checked: answer(source, encoding, checked)  # type: ignore[arg-type] # never `events` here


def _lines_answer(_: Encoding, checked: Checked) -> bytes:
    return orjson.dumps({"accepted": checked.items, "rejected": checked.rejected, "message": checked.message})


INTAKES = (
    *(Intake(signal.path, name, OTLP_TYPES, _otlp_answer(name)) for name, signal in SIGNALS.items()),
    Intake("/v1/events", "events", LINE_TYPES, _lines_answer),
)


def create_app(receiver: Receiver) -> Starlette:
    """The HTTP application around a receiver."""
    routes = [Route(intake.path, _endpoint(receiver, intake), methods=["POST"]) for intake in INTAKES]
    routes += [*BlobRoutes(receiver).routes(), *Relay(receiver).routes()]
    return Starlette(
        routes=[*routes, Route("/livez", _livez), Route("/readyz", _readyz(receiver))],
        exception_handlers={Exception: _bug},
    )


async def _bug(_: Request, __: Exception) -> Response:
    """A fault of ours: the client should keep its data and try again; the traceback goes to the log."""
    fault = TachographError("an internal error; see the collector's log")
    return _refusal(fault, "json", "application/json")


def _endpoint(receiver: Receiver, intake: Intake) -> Callable[[Request], Awaitable[Response]]:
    async def take(request: Request) -> Response:
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        encoding = intake.types.get(content_type)
        try:
            receiver.authorise(request.headers.get("authorization"), "ingest")
            if encoding is None:
                raise UnknownContentType(f"content type {content_type!r} is not served; use {', '.join(intake.types)}")
            checked = await _take(request, receiver, intake.source, encoding)
        except TachographError as refusal:
            receiver.refused(intake.source, refusal)
            return _refusal(refusal, encoding or "json", content_type if encoding else "application/json")
        except ClientDisconnect:
            return Response(status_code=499)  # nobody is there to read it
        return Response(intake.answer(encoding, checked), media_type=content_type)

    return take


async def _take(request: Request, receiver: Receiver, source: Source, encoding: Encoding) -> Checked:
    settings = receiver.settings
    content_encoding = request.headers.get("content-encoding", "identity").strip().lower() or "identity"
    if content_encoding not in ENCODINGS:
        raise UnknownEncoding(content_encoding)
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told) > settings.max_body_bytes:
        raise TooLarge("max_body_bytes", settings.max_body_bytes)
    with receiver.budget.hold() as share:
        try:
            async with asyncio.timeout(settings.body_timeout_s):
                body = await collect(request.stream(), share, settings.max_body_bytes)
        except TimeoutError:
            raise TooSlow(f"the body did not come within {settings.body_timeout_s:g} s") from None
        return await receiver.take(Arrival(source, encoding, body, content_encoding), share)


def _refusal(refusal: TachographError, encoding: Encoding, content_type: str) -> Response:
    status, code = status_of(refusal)
    headers = {}
    if status == 503:
        headers["retry-after"] = str(RETRY_AFTER_SECONDS)
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    if status in (408, 413, 503):
        headers["connection"] = "close"  # the rest of the body is not waited for
    return Response(status_body(encoding, code, refusal.message), status, headers, media_type=content_type)


async def _livez(_: Request) -> Response:
    return PlainTextResponse("ok\n")


def _readyz(receiver: Receiver) -> Callable[[Request], Awaitable[Response]]:
    async def readyz(_: Request) -> Response:
        state = "draining" if receiver.draining else "ready"
        return JSONResponse({"state": state}, 503 if receiver.draining else 200)

    return readyz


class Server(uvicorn.Server):
    """Uvicorn without its own signal handling: the program around it decides when to end."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals alone."""
        yield


def create_server(app: Starlette, receiver: Receiver) -> Server:
    """A server for the application; give it bound sockets."""
    settings = receiver.settings
    config = uvicorn.Config(
        app,
        http=patient_protocol(settings.header_timeout_s),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=round(settings.drain_timeout_s),
    )
    return Server(config)
