"""Streams of the official SDKs as normalized chunks: opened, read, explained when they break, and closed."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import httpx2
from pydantic import BaseModel, ConfigDict

from models.values import Usage
from runtime.providers.failures import Call
from runtime.providers.provider import Chunk, LimitChunk, ModelRequest, ProviderFailed

T = TypeVar("T")


class Wire(BaseModel):
    """A part of a native event that we read. The SDKs build theirs without checking, so the check is ours."""

    model_config = ConfigDict(frozen=True, extra="ignore", from_attributes=True, protected_namespaces=())


class SdkStream(Protocol):
    """What the two SDKs' streams have in common."""

    response: httpx2.Response

    def __anext__(self) -> Awaitable[Any]:
        """The next event."""

    async def close(self) -> None:
        """End the request."""


class Reader(Protocol):
    """Turns one kind of native events into chunks; raises ValueError on what it cannot understand."""

    def read(self, event: object) -> Iterator[Chunk]:
        """The chunks one event stands for."""

    def finish(self) -> Iterator[Chunk]:
        """What closes the answer, once the stream has ended; raises ProviderFailed if it ended too early."""

    def usage(self) -> Usage | None:
        """The tokens told so far."""


@dataclass(frozen=True)
class SdkErrors:
    """One SDK's exception classes."""

    status: type[Exception]
    timeout: type[Exception]
    connection: type[Exception]
    every: type[Exception]


def parameters(request: ModelRequest, ours: Mapping[str, Any]) -> dict[str, Any]:
    """The caller's own parameters; one that would replace what the runtime sends is refused."""
    told = dict(request.parameters or {})
    clash = sorted(name for name in told if name in ours)
    if clash:
        raise ProviderFailed("invalid_request", f"parameters may not set {', '.join(clash)}: the runtime does")
    return told


async def normalized(
    opening: Callable[[], Awaitable[SdkStream]], reader: Reader, call: Call, errors: SdkErrors
) -> AsyncGenerator[Chunk, None]:
    """Chunks of one answer; every way it can break is a ProviderFailed without the SDK's error behind it."""
    stream = await _explained(opening, call, reader, (errors.every, httpx2.HTTPError), errors)
    try:
        limits = call.limits(stream.response.headers)
        if limits:
            yield LimitChunk(limits)
        broken = (errors.every, httpx2.HTTPError, httpx2.StreamError, ValueError)
        while (chunks := await _explained(lambda: _step(stream, reader), call, reader, broken, errors)) is not None:
            for chunk in chunks:
                yield chunk
        for chunk in reader.finish():
            yield chunk
    finally:
        await stream.close()


async def _step(stream: SdkStream, reader: Reader) -> list[Chunk] | None:
    try:
        event = await stream.__anext__()
    except StopAsyncIteration:
        return None
    return list(reader.read(event))


async def _explained(
    work: Callable[[], Awaitable[T]],
    call: Call,
    reader: Reader,
    expected: tuple[type[Exception], ...],
    errors: SdkErrors,
) -> T:
    try:
        return await work()
    except expected as error:
        failure = _explain(error, call, reader.usage(), errors)
    # Raised outside the handler: an SDK's error holds the request, and with it the key, and must not hang on ours.
    raise failure


def _explain(error: Exception, call: Call, usage: Usage | None, errors: SdkErrors) -> ProviderFailed:
    body, response = getattr(error, "body", None), getattr(error, "response", None)
    if isinstance(error, errors.status) and response is not None:
        return call.refused(body, status=response.status_code, headers=response.headers, usage=usage)
    if isinstance(error, (errors.timeout, httpx2.TimeoutException)):
        return call.failed("timeout", usage=usage)
    if isinstance(error, (errors.connection, httpx2.HTTPError, httpx2.StreamError)):
        return call.failed("disconnected", usage=usage)
    if isinstance(error, errors.every) and body is not None:
        return call.refused(body, usage=usage)
    return call.failed("malformed", usage=usage)
