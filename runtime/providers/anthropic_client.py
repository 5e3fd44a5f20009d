"""The `anthropic` provider: the Messages API through the official SDK."""

from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from typing import Any

import anthropic
import httpx2

from runtime.providers import anthropic_messages
from runtime.providers.failures import Call
from runtime.providers.provider import Chunk, ModelRequest
from runtime.providers.sdk_streams import SdkErrors, normalized

ERRORS = SdkErrors(
    anthropic.APIStatusError, anthropic.APITimeoutError, anthropic.APIConnectionError, anthropic.AnthropicError
)


class AnthropicProvider:
    """Calls Anthropic, or any server that speaks its API."""

    name = anthropic_messages.PROVIDER

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str | None,
        max_output_tokens: int,
        timeout: httpx2.Timeout,
        clock: Callable[[], datetime],
    ) -> None:
        # Retrying is the runtime's, which records it; so are spans, of which the SDK would add its own.
        self._client = anthropic.AsyncAnthropic(
            api_key=api_key,
            base_url=base_url or "https://api.anthropic.com",
            max_retries=0,
            timeout=timeout,
            open_telemetry=False,
        )
        self._secrets = (api_key,)
        self._max_output_tokens = max_output_tokens
        self._clock = clock

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Ask the model."""
        call = Call(self.name, self._clock(), self._secrets)
        # The body is plain data in the API's own form; the SDK's typed dictionaries would only restate it.
        create: Any = self._client.messages.create
        reader = anthropic_messages.MessagesReader(call)
        told = anthropic_messages.body
        return normalized(lambda: create(**told(request, self._max_output_tokens)), reader, call, ERRORS)

    async def close(self) -> None:
        """Let go of connections."""
        await self._client.close()
