"""Blobs over HTTP: `PUT`, `HEAD` and `GET` of `/v1/blobs/{sha256}`."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, TypeVar

import orjson
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from collector.blobs import Blob, BlobDamaged, BlobStore, NoRoom, NotTheHash, Part
from collector.bodies import Share
from collector.home import Home
from collector.problems import Problem
from collector.receiver import Receiver
from collector.relay import require_own_host
from collector.streaming import BoundedStream
from models.errors import NotAuthorised, TachographError

PATH = "/v1/blobs/{sha256}"
BLOCK_BYTES = 1024 * 1024
"""A body is held in memory up to this; a smaller one never touches the disk before its secrets are masked."""

FULL_RETRY_SECONDS = "30"
SAFE_HEADERS = {
    "content-type": "application/octet-stream",
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; sandbox",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Content is whatever an agent saw: no browser shall render it, guess at it, or keep it."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Span:
    """Which bytes of how many a request carries."""

    start: int
    end: int
    total: int


class Refusal(Problem):
    """A problem with headers of its own."""

    def __init__(self, problem: Problem, **headers: str) -> None:
        super().__init__(problem.kind, problem.message, problem.next_step, limit=problem.limit, status=problem.status)
        self.headers = headers

    def response(self) -> Response:
        """The answer in HTTP."""
        answer = super().response()
        answer.headers.update({name.replace("_", "-"): value for name, value in self.headers.items()})
        return answer


class Body:
    """A request's body in blocks, each of which must come in time."""

    def __init__(self, request: Request, timeout_s: float) -> None:
        self._pieces = aiter(request.stream())
        self._timeout_s = timeout_s
        self._rest = b""
        self.ended = False
        self.problem: Exception | None = None
        """Why it breaks off after the last block."""

    async def block(self, share: Share) -> bytes:
        """The next block; shorter than BLOCK_BYTES only when it is the last."""
        whole = bytearray(self._rest)
        self._rest = b""
        try:
            async with asyncio.timeout(self._timeout_s):
                while len(whole) < BLOCK_BYTES:
                    piece = await anext(self._pieces)
                    share.grow(len(piece))
                    whole += piece
        except StopAsyncIteration:
            self.ended = True
        except TimeoutError:
            self.ended, self.problem = True, _too_slow(self._timeout_s)
        except ClientDisconnect as gone:
            self.ended, self.problem = True, gone
        self._rest = bytes(whole[BLOCK_BYTES:])
        return bytes(whole[:BLOCK_BYTES])


class BlobRoutes:
    """Takes blobs from senders and gives them to readers."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._settings = receiver.settings
        self._max_bytes = self._settings.max_blob_bytes
        self.store = BlobStore(
            Home(self._settings.home).blobs, receiver.redactor, reserve_bytes=self._settings.blob_reserve_bytes
        )
        # Apart from the receiver's own threads: a slow disk or a large blob holds up no telemetry.
        self._pool = ThreadPoolExecutor(max_workers=4, thread_name_prefix="blobs")

    def routes(self) -> list[Route]:
        """The routes it serves; HEAD comes with GET."""
        return [
            Route(PATH, self._guarded(self._put), methods=["PUT"]),
            Route(PATH, self._guarded(self._get), methods=["GET"]),
        ]

    def _guarded(self, handler: Callable[[Request, str], Awaitable[Response]]) -> Callable[..., Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            try:
                self._authorise(request)
                return await handler(request, _address(request))
            except ClientDisconnect:
                return Response(status_code=499)  # nobody is there to read it
            except TachographError as refusal:
                problem = _problem(refusal)
                if request.method == "PUT":
                    self._receiver.counters.add("blobs", f"refused:{problem.limit or problem.kind}")
                return problem.response()

        return guarded

    def _authorise(self, request: Request) -> None:
        """Sending needs `ingest`, reading `read`; asking what is there belongs to both."""
        header = request.headers.get("authorization")
        scope = "ingest" if request.method in ("PUT", "HEAD") else "read"
        try:
            self._receiver.authorise(header, scope)
        except NotAuthorised as refusal:
            if request.method != "HEAD" or refusal.status != 403:
                raise
            self._receiver.authorise(header, "read")
        if request.method == "GET" and not self._receiver.tokens.configured():
            require_own_host(request, self._settings)

    async def _run(self, work: Callable[..., Result], *arguments: object) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *arguments)

    # --- sending -----------------------------------------------------------------------------------------------

    async def _put(self, request: Request, sha256: str) -> Response:
        span = _span(request)
        told = request.headers.get("content-length", "")
        length = int(told) if told.isdecimal() and len(told) <= 18 else None
        self._require_size(span.total if span else length or 0)
        if request.headers.get("content-encoding", "identity").strip().lower() not in ("identity", ""):
            raise Problem("request", "blobs are sent as they are, without a content encoding", status=415)
        if span and length is not None and length != span.end - span.start + 1:
            raise Problem("request", "Content-Length and Content-Range contradict each other")
        found = await self._run(self.store.find, sha256)
        if found is not None:
            return _stored(found, 200)  # the body is not asked for
        await self._run(self.store.require_room, span.total - span.start if span else length or 0)
        body = Body(request, self._settings.body_timeout_s)
        blob = await (self._take_span(sha256, body, span) if span else self._take_whole(sha256, body))
        if isinstance(blob, Response):
            return blob
        self._receiver.counters.add("blobs", "received", items=1, size_bytes=blob.size_bytes)
        return _stored(blob, 201)

    async def _take_whole(self, sha256: str, body: Body) -> Blob:
        with self._receiver.budget.hold() as share:
            first = await body.block(share)
            if body.ended and body.problem is None:
                self._require_size(len(first))
                return await self._run(self.store.keep, sha256, first)
            # Two senders of the same blob do not wait for each other: the second gets a file of its own.
            part = await self._run(self._own_part, sha256)
            try:
                await self._run(part.rewind, 0)
                await self._append(part, first, self._max_bytes, _too_large(self._max_bytes))
            except BaseException:
                part.close()
                raise
        try:
            await self._drain(body, part, self._max_bytes, _too_large(self._max_bytes))
            return await self._run(self.store.complete, sha256, part)
        finally:
            part.close()

    def _own_part(self, sha256: str) -> Part:
        part = self.store.part(sha256, resumable=True) or self.store.part(sha256, resumable=False)
        if part is None:
            raise Problem("busy", "the blob is being sent by others")
        return part

    async def _take_span(self, sha256: str, body: Body, span: Span) -> Blob | Response:
        part = await self._run(lambda: self.store.part(sha256, resumable=True))
        if part is None:
            conflict = Problem("busy", "another upload of this blob is under way", "try again", status=409)
            raise Refusal(conflict, retry_after="1")
        try:
            if span.start == 0:
                await self._run(part.rewind, 0)
            elif span.start != part.size:
                conflict = Problem("request", f"{part.size} bytes are there, not {span.start}", status=409)
                raise Refusal(conflict, upload_offset=str(part.size))
            too_long = Problem("request", "the body is longer than its Content-Range says")
            await self._drain(body, part, span.end + 1, too_long)
            if part.size != span.end + 1:
                await self._run(part.rewind, span.start)
                raise Problem("request", "the body is shorter than its Content-Range says")
            if part.size < span.total:
                return Response(status_code=202, headers={"upload-offset": str(part.size)})
            return await self._run(self.store.complete, sha256, part)
        finally:
            part.close()

    async def _drain(self, body: Body, part: Part, limit_bytes: int, too_long: Problem) -> None:
        """Append the body up to its end; what comes before it breaks off stays for another attempt."""
        while not body.ended:
            with self._receiver.budget.hold() as share:
                await self._append(part, await body.block(share), limit_bytes, too_long)
        if body.problem is not None:
            raise body.problem

    async def _append(self, part: Part, block: bytes, limit_bytes: int, too_long: Problem) -> None:
        if part.size + len(block) > limit_bytes:
            await self._run(self.store.discard, part)
            raise Refusal(too_long, connection="close")  # the rest of the body is not waited for
        await self._run(self.store.append, part, block)

    def _require_size(self, size_bytes: int) -> None:
        if size_bytes > self._max_bytes:
            raise _too_large(self._max_bytes)

    # --- reading -----------------------------------------------------------------------------------------------

    async def _get(self, request: Request, sha256: str) -> Response:
        if request.method == "HEAD":
            found = await self._run(self.store.find, sha256)
            if found is not None:
                return Response(status_code=200, headers=_headers(found))
            offset = await self._run(self.store.offset, sha256)
            limit = f"max-size={self._max_bytes}"
            return Response(status_code=404, headers={"upload-offset": str(offset), "upload-limit": limit})
        found = await self._run(self.store.checked, sha256)
        if found is None:
            raise Problem("not_found", "there is no such blob")
        file: IO[bytes] = await self._run(found.path.open, "rb")
        return BoundedStream(self._pieces(file), 200, _headers(found), stall_s=self._settings.stream_stall_s)

    async def _pieces(self, file: IO[bytes]) -> AsyncGenerator[bytes, None]:
        try:
            while piece := await self._run(file.read, BLOCK_BYTES):
                yield piece
        finally:
            file.close()


def _address(request: Request) -> str:
    sha256: str = request.path_params["sha256"]
    if not _SHA256.fullmatch(sha256):
        raise Problem("request", "a blob's address is its SHA-256 in 64 lower-case hex digits")
    return sha256


def _span(request: Request) -> Span | None:
    told = request.headers.get("content-range")
    if told is None:
        return None
    match = _RANGE.fullmatch(told.strip())
    span = Span(*map(int, match.groups())) if match else None
    if span is None or not span.start <= span.end < span.total:
        raise Problem("request", "Content-Range must be `bytes FIRST-LAST/TOTAL`")
    return span


def _headers(blob: Blob) -> dict[str, str]:
    told = {
        **SAFE_HEADERS,
        "content-length": str(blob.size_bytes),
        "content-disposition": f'attachment; filename="{blob.sha256}"',
        "etag": f'"{blob.stored_sha256}"',
    }
    if blob.redactions:
        told["x-redactions"] = ", ".join(f"{kind}={count}" for kind, count in sorted(blob.redactions.items()))
    return told


def _stored(blob: Blob, status: int) -> Response:
    told = {
        "sha256": blob.sha256,
        "stored_sha256": blob.stored_sha256,
        "size_bytes": blob.size_bytes,
        "redactions": blob.redactions,
    }
    return Response(orjson.dumps(told), status, media_type="application/json")


def _too_large(limit_bytes: int) -> Problem:
    return Problem("limit", f"the blob is larger than {limit_bytes} bytes", limit="max_blob_bytes", status=413)


def _too_slow(timeout_s: float) -> Problem:
    message = f"the body came slower than {BLOCK_BYTES} bytes in {timeout_s:g} s"
    return Refusal(Problem("request", message, "continue with Content-Range", status=408), connection="close")


def _problem(refusal: TachographError) -> Problem:
    """Any refusal as an answer. Trouble of ours is never 500: a sender would give up on its content."""
    if isinstance(refusal, Problem):
        return refusal
    if isinstance(refusal, NotAuthorised):
        return Problem("not_authorised", refusal.message, refusal.next_step, status=refusal.status)
    if isinstance(refusal, NoRoom):
        full = Problem("busy", refusal.message, refusal.next_step, status=507)
        return Refusal(full, retry_after=FULL_RETRY_SECONDS)
    if isinstance(refusal, BlobDamaged):
        return Problem("not_found", refusal.message, refusal.next_step, status=410)
    if isinstance(refusal, NotTheHash):
        return Problem("request", refusal.message, refusal.next_step)
    return Problem("busy", refusal.message, refusal.next_step)
