"""A runtime for the terminal: the one that runs already, else one of our own in a thread, both reached over HTTP."""

import asyncio
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import click

from collector.home import Home
from models.settings import Settings
from runtime.control.client import ControlClient, announced
from runtime.control.serving import served, token_of
from runtime.routing import load, own_file
from runtime.runtime import Runtime, RuntimeOptions
from runtime.telemetry import ExportSettings

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
FLUSH_S = 3.0


def export_settings(home: Path, address: str) -> ExportSettings:
    """Where facts are sent: as the `OTEL_*` variables say, else to the collector of this home folder."""
    environment = dict(os.environ)
    if not any(name.startswith(ENDPOINT[:18]) and name.endswith("ENDPOINT") for name in environment):
        receivers = [one["http"] for one in Home(home).processes() if one["role"] == "receiver" and "http" in one]
        environment[ENDPOINT] = f"http://{receivers[0] if receivers else address}"
        environment.setdefault("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    return ExportSettings.from_environment(environment)


def options_for(found: Settings, workspace: Path, script: Path | None) -> RuntimeOptions:
    """What a runtime of this home folder works with."""
    return RuntimeOptions(
        workspace=workspace.resolve(),
        catalogue=load(own_file(found.home)),
        environment=dict(os.environ),
        provider_settings={"scripted": {"path": str(script)}} if script else {},
        export=export_settings(found.home, found.otlp_http),
    )


@contextmanager
def runtime_client(folder: Path, options: RuntimeOptions) -> Iterator[tuple[ControlClient, bool]]:
    """A client of the runtime that works in the folder, and whether that is one of our own."""
    found = announced(folder)
    if found is not None:
        with ControlClient.of(found) as client:
            yield client, False
        return
    with _own_runtime(folder, options) as url, ControlClient(url, token_of(folder)) as client:
        yield client, True


@contextmanager
def _own_runtime(folder: Path, options: RuntimeOptions) -> Iterator[str]:
    ready: Future[str] = Future()
    stop: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def work() -> None:
        ending = asyncio.Event()
        async with await Runtime.open(folder, options) as runtime, served(runtime) as url:
            stop.set_result((asyncio.get_running_loop(), ending))
            ready.set_result(url)
            await ending.wait()
            sent = await asyncio.to_thread(runtime.telemetry.flush, FLUSH_S)
            if sent and await asyncio.to_thread(runtime.uploader.flush, FLUSH_S):
                return
            waiting = runtime.telemetry.backlog()
            click.secho(
                f"{waiting.records} facts wait here for a collector ({waiting.trouble or 'it is slow'}); "
                "start one with `tachograph up`, and the next run sends them",
                dim=True, err=True,
            )  # fmt: skip

    def thread() -> None:
        try:
            asyncio.run(work())
        except BaseException as failure:
            if ready.done():
                raise
            ready.set_exception(failure)

    running = threading.Thread(target=thread, name="runtime")
    running.start()
    try:
        yield ready.result()
    finally:
        if stop.done():
            loop, ending = stop.result()
            loop.call_soon_threadsafe(ending.set)
        running.join()
