"""Patience with bounds: a client that dawdles over its headers, or never ends them, is let go."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADER_BYTES = 64 * 1024
TIMEOUT_ANSWER = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
TOO_LARGE_ANSWER = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class PatientProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with a time and a size limit on request headers, which it lacks."""

    header_timeout_s = 10.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._timer: asyncio.TimerHandle | None = None
        self._header_bytes = 0
        self._begun = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._arm()

    def connection_lost(self, exc: Exception | None) -> None:
        self._disarm()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._begun = True
        self._header_bytes = 0
        if self._timer is None:
            self._arm()

    def on_headers_complete(self) -> None:
        # They may have come all at once, before their bytes were counted.
        if sum(len(name) + len(value) for name, value in self.headers) > MAX_HEADER_BYTES:
            raise ValueError("request headers too large")  # the parser gives up; uvicorn answers 400 and closes
        self._begun = False
        self._disarm()
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._begun:
            self._header_bytes += len(data)
            if self._header_bytes > MAX_HEADER_BYTES and not self.transport.is_closing():
                self.transport.write(TOO_LARGE_ANSWER)
                self.transport.close()

    def _arm(self) -> None:
        self._timer = self.loop.call_later(self.header_timeout_s, self._give_up)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            if self._begun:
                self.transport.write(TIMEOUT_ANSWER)
            self.transport.close()


def patient_protocol(header_timeout_s: float) -> type[PatientProtocol]:
    """The protocol class with its time limit."""
    return type("Patient", (PatientProtocol,), {"header_timeout_s": header_timeout_s})
