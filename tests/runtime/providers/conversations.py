"""Asking providers in tests: the three native shapes, a request, and what came of it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from runtime.providers import Chunk, FinishChunk, Message, ModelRequest, Provider, ProviderFailed, TextPart
from runtime.providers.opening import open_provider
from tests.model_server import CHAT, MESSAGES, RESPONSES, ModelServer

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class NativeShape:
    """One API on the wire and the provider that reads it."""

    path: str
    provider: str
    settings: Mapping[str, Any]


SHAPES = {
    "chat": NativeShape(CHAT, "openai", {"api": "chat"}),
    "responses": NativeShape(RESPONSES, "openai", {"api": "responses"}),
    "messages": NativeShape(MESSAGES, "anthropic", {}),
}


def user(text: str) -> Message:
    """A user's message."""
    return Message(role="user", parts=(TextPart(text=text),))


def request(*messages: Message, **other: Any) -> ModelRequest:
    """A request with these messages, or with a plain one."""
    return ModelRequest(model="model-x", messages=messages or (user("hello"),), **other)


@dataclass(frozen=True)
class Heard:
    """What a stream gave."""

    chunks: list[Chunk]
    failure: ProviderFailed | None

    @property
    def finish(self) -> FinishChunk:
        """The end of a whole answer."""
        assert self.failure is None, self.failure
        end = self.chunks[-1]
        assert isinstance(end, FinishChunk)
        return end


def opened(shape: str, server: ModelServer, **settings: Any) -> Provider:
    """The provider of a native shape, pointed at a server."""
    native = SHAPES[shape]
    told = {**native.settings, **settings}
    return open_provider(native.provider, settings=told, environment=server.environment, clock=lambda: NOW)


async def hear(provider: Provider, asked: ModelRequest) -> Heard:
    """Everything a provider says to a request."""
    chunks: list[Chunk] = []
    try:
        async for chunk in provider.stream(asked):
            chunks.append(chunk)
    except ProviderFailed as failure:
        return Heard(chunks, failure)
    return Heard(chunks, None)


def ask(shape: str, server: ModelServer, asked: ModelRequest | None = None, **settings: Any) -> Heard:
    """Ask over one native shape."""

    async def run() -> Heard:
        provider = opened(shape, server, **settings)
        try:
            return await hear(provider, asked or request())
        finally:
            await provider.close()

    return asyncio.run(run())
