"""The `openai` provider: Chat Completions or Responses, as the setting `api` says, through the official SDK."""

from collections.abc import AsyncGenerator, Callable
from datetime import datetime
from typing import Any, Literal

import httpx2
import openai

from runtime.providers import openai_chat, openai_responses
from runtime.providers.failures import Call
from runtime.providers.provider import Chunk, ModelRequest
from runtime.providers.sdk_streams import SdkErrors, normalized

ERRORS = SdkErrors(openai.APIStatusError, openai.APITimeoutError, openai.APIConnectionError, openai.OpenAIError)


class OpenAiProvider:
    """Calls OpenAI, or any server that speaks its API."""

    name = "openai"

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str | None,
        api: Literal["chat", "responses"],
        timeout: httpx2.Timeout,
        clock: Callable[[], datetime],
    ) -> None:
        # Retrying is the runtime's, which records it; the SDK's own retries would be invisible.
        self._client = openai.AsyncOpenAI(
            api_key=api_key, base_url=base_url or "https://api.openai.com/v1", max_retries=0, timeout=timeout
        )
        self._api = api
        self._clock = clock

    def stream(self, request: ModelRequest) -> AsyncGenerator[Chunk, None]:
        """Ask the model."""
        call = Call(self.name, self._clock(), (self._client.api_key,))
        # The bodies are plain data in the API's own form; the SDK's typed dictionaries would only restate it.
        create: Any
        if self._api == "chat":
            create = self._client.chat.completions.create
            return normalized(lambda: create(**openai_chat.body(request)), openai_chat.ChatReader(call), call, ERRORS)
        create = self._client.responses.create
        reader = openai_responses.ResponsesReader(call)
        return normalized(lambda: create(**openai_responses.body(request)), reader, call, ERRORS)

    async def close(self) -> None:
        """Let go of connections."""
        await self._client.close()
