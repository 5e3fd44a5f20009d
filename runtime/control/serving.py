"""Serves the control plane of a runtime, and writes down where it is."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import uvicorn

from models.address import Address
from models.errors import Unreachable
from runtime.control.http_app import ControlApp
from runtime.telemetry.identity import write_whole

if TYPE_CHECKING:
    from runtime.runtime import Runtime

CONTROL = "control.json"
TOKEN = "control.token"  # noqa: S105 - the name of the file
DRAIN_S = 2


def token_of(folder: Path) -> str:
    """The token of a runtime's control plane; made once, readable by its user only."""
    path = folder / TOKEN
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(32) + "\n")
    return path.read_text().strip()


class _Server(uvicorn.Server):
    def install_signal_handlers(self) -> None:
        """Signals are the caller's."""


@asynccontextmanager
async def served(runtime: Runtime, address: str = "127.0.0.1:0") -> AsyncIterator[str]:
    """Serve the control plane inside; gives its URL. Where it is, is written into the runtime's folder."""
    control = ControlApp(runtime, token_of(runtime.folder))
    listener = _listen(Address.parse(address))
    host, port = listener.getsockname()[:2]
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    config = uvicorn.Config(
        control.app(), ws="none", lifespan="off", log_config=None, access_log=False, server_header=False,
        timeout_graceful_shutdown=DRAIN_S,
    )  # fmt: skip
    server = _Server(config)
    serving = asyncio.create_task(server._serve(sockets=[listener]), name="control plane")
    while not server.started and not serving.done():
        await asyncio.sleep(0.005)
    runtime.address = url
    path = runtime.folder / CONTROL
    told = {"address": url, "token_ref": str(runtime.folder / TOKEN), "pid": os.getpid()}
    write_whole(path, orjson.dumps(told | {"runtime_id": runtime.telemetry.runtime_id}))
    try:
        yield url
    finally:
        runtime.address = None
        path.unlink(missing_ok=True)
        control.closing.set()
        server.should_exit = True
        await serving


def _listen(address: Address) -> socket.socket:
    try:
        return socket.create_server(
            (address.host, address.port), family=socket.AF_INET6 if ":" in address.host else socket.AF_INET, backlog=128
        )
    except OSError as problem:
        raise Unreachable(str(address), problem.strerror or str(problem), next_step="choose another address") from None
