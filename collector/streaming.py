"""A streamed answer whose reader must keep reading: a connection nobody takes from is given up."""

import asyncio
from collections.abc import AsyncGenerator

from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send


class BoundedStream(StreamingResponse):
    """Ends when the reader has taken nothing for so long, and always lets go of its source."""

    def __init__(
        self, source: AsyncGenerator[bytes, None], status_code: int, headers: dict[str, str], *, stall_s: float
    ) -> None:
        super().__init__(source, status_code, headers)
        self._source = source
        self._stall_s = stall_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""

        async def bounded(message: Message) -> None:
            async with asyncio.timeout(self._stall_s):
                await send(message)

        try:
            await super().__call__(scope, receive, bounded)
        finally:
            await self._source.aclose()
