"""The supervisor: starts receiver, index and dashboard, starts again what dies, and stops them in order."""

import asyncio
import ctypes
import fcntl
import os
import re
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from collector import addresses
from collector.home import Home
from collector.memory import ALLOCATOR
from collector.tokens import TokenStore
from models.address import Address
from models.errors import Locked
from models.settings import Settings

BACKOFF_SECONDS = (0.1, 5.0)
STEADY_SECONDS = 10.0
"""What ran so long is started again at once; what did not waits longer each time."""

WATCHDOG_CODE = 75
"""The index ended itself to be rid of a query; that says nothing against starting it at once."""

TRY_AGAIN_CODES = (5, WATCHDOG_CODE)
"""Locked by another, or ended by the watchdog: also worth another try before all was ever up."""

STOP_SECONDS = 9.5
"""A service manager's patience; what is then not done is in the journal and is done at the next start."""

INDEX_STOP_SECONDS = 5.0
PING_SECONDS = 2.0
HANG_SECONDS = 15.0
DASHBOARD = Path(__file__).resolve().parent.parent / "dashboard" / "app.py"
READY = re.compile(r"ready otlp-http=(\S+) otlp-grpc=(\S+)")
PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


@dataclass(slots=True)
class Child:
    """A process that is kept running."""

    name: str
    command: Callable[[], list[str]]
    environment: dict[str, str] = field(default_factory=dict)
    """Variables it gets unless the user set them."""

    up: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while it is ready."""

    process: asyncio.subprocess.Process | None = None
    started: float = 0.0

    def signal(self, number: int) -> None:
        """Send a signal, if it runs."""
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)


class Supervisor:
    """Runs one home: everything or, without a dashboard address, everything but the dashboard."""

    def __init__(self, settings: Settings, dashboard: Address | None, told: Callable[[str], None]) -> None:
        self._settings = settings
        self._home = Home(settings.home)
        self._told = told
        self._stopping = asyncio.Event()
        self._exit_code = 0
        self._http, self._grpc = settings.otlp_http, settings.otlp_grpc
        self._receiver = Child("receiver", self._receiver_command)
        self._index = Child("index", lambda: self._program("index"), ALLOCATOR.values)
        self._dashboard_at = self._dashboard_address(dashboard)
        self._dashboard = Child("dashboard", self._dashboard_command) if self._dashboard_at else None
        self._children = [child for child in (self._receiver, self._index, self._dashboard) if child]

    async def run(self, ready: Callable[[str], None]) -> int:
        """Run until SIGTERM or SIGINT; the exit code. A second signal ends everything at once."""
        self._home.make()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._asked_to_stop, number)
        with only_one(self._home.running / "up.lock"), self._home.announced("supervisor"):
            keeping = [asyncio.create_task(self._keep(child)) for child in self._children]
            watching = asyncio.create_task(self._watch_index())
            all_up = asyncio.gather(*(child.up.wait() for child in self._children))
            await _first(all_up, self._stopping.wait())
            if not self._stopping.is_set():
                ready(self._ready_line())
                await self._stopping.wait()
            all_up.cancel()
            watching.cancel()
            await self._stop()
            await asyncio.gather(*keeping)
        return self._exit_code

    def _ready_line(self) -> str:
        dashboard = f" dashboard=http://{self._dashboard_at}" if self._dashboard_at else ""
        return f"ready otlp-http={self._http} otlp-grpc={self._grpc}{dashboard} home={self._settings.home}"

    def _asked_to_stop(self, number: int) -> None:
        if self._stopping.is_set():
            for child in self._children:
                child.signal(signal.SIGKILL)
            os._exit(128 + number)
        self._stopping.set()

    # --- starting and starting again -----------------------------------------------------------------------------

    def _program(self, *arguments: str) -> list[str]:
        # -P: what lies in the current folder is not ours, whatever it is called.
        return [sys.executable, "-P", "-m", "cli", "--home", str(self._settings.home), *arguments]

    def _receiver_command(self) -> list[str]:
        return self._program("receiver", "--otlp-http", self._http, "--otlp-grpc", self._grpc)

    def _dashboard_command(self) -> list[str]:
        assert self._dashboard_at is not None
        options = {
            "server.address": self._dashboard_at.host,
            "server.port": str(self._dashboard_at.port),
            "server.headless": "true",
            "server.fileWatcherType": "none",
            "browser.gatherUsageStats": "false",
        }
        flags = [part for name, value in options.items() for part in (f"--{name}", value)]
        return [sys.executable, "-P", "-m", "streamlit", "run", str(DASHBOARD), *flags]

    def _dashboard_address(self, wanted: Address | None) -> Address | None:
        """Where the dashboard will be; whether the port is free is said now, because it would not say it well."""
        if wanted is None or not DASHBOARD.exists():
            return None
        addresses.require_tokens_beyond_loopback(wanted, tokens=TokenStore(self._home.tokens).configured())
        with addresses.bind(wanted) as trial:
            return Address(wanted.host, trial.getsockname()[1])

    async def _keep(self, child: Child) -> None:
        """Run a child, again and again, until all is to stop."""
        wait_s, was_up = BACKOFF_SECONDS[0], False
        while not self._stopping.is_set():
            child.started = time.monotonic()
            code = await self._once(child)
            was_up = was_up or child.up.is_set()
            child.up.clear()
            if self._stopping.is_set():
                return
            if not was_up and code > 0 and code not in TRY_AGAIN_CODES:
                self._exit_code = code  # it has said why
                self._stopping.set()
                return
            if time.monotonic() - child.started > STEADY_SECONDS or code == WATCHDOG_CODE:
                wait_s = BACKOFF_SECONDS[0]
            self._told(f"the {child.name} ended (exit code {code}); it is started again in {wait_s:g} s")
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._stopping.wait()
            wait_s = min(wait_s * 2, BACKOFF_SECONDS[1])

    async def _once(self, child: Child) -> int:
        """Run a child until it ends; its exit code, negative if a signal ended it."""
        child.process = await asyncio.create_subprocess_exec(
            *child.command(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            env=child.environment | os.environ | {"TACHOGRAPH_HOME": str(self._settings.home)},
            start_new_session=True,  # Ctrl-C in a terminal reaches us alone; we stop them in order
            preexec_fn=_die_with_parent,
        )
        health = asyncio.create_task(self._await_dashboard(child)) if child is self._dashboard else None
        assert child.process.stdout is not None
        async for line in child.process.stdout:
            self._heard(child, line.decode(errors="replace").rstrip())
        code = await child.process.wait()
        if health is not None:
            health.cancel()
        return code

    def _heard(self, child: Child, line: str) -> None:
        if child is self._dashboard:
            return  # its greeting; trouble it tells on stderr
        if found := READY.match(line):
            self._http, self._grpc = found[1], found[2]  # a receiver that is started again takes the same ports
        if line.startswith("ready"):
            child.up.set()

    async def _await_dashboard(self, child: Child) -> None:
        async with httpx.AsyncClient(timeout=2.0, trust_env=False) as client:
            while not child.up.is_set():
                with suppress(httpx.TransportError):
                    answer = await client.get(f"http://{self._dashboard_at}/_stcore/health")
                    if answer.status_code == httpx.codes.OK:
                        child.up.set()
                await asyncio.sleep(0.1)

    async def _watch_index(self) -> None:
        """End an index that runs but no longer answers; it is then started again."""
        path = str(self._settings.home / "index.sock")
        answered = time.monotonic()
        while True:
            await asyncio.sleep(PING_SECONDS)
            if not self._index.up.is_set():
                answered = time.monotonic()
                continue
            try:
                transport = httpx.AsyncHTTPTransport(uds=path)
                async with httpx.AsyncClient(transport=transport, timeout=PING_SECONDS) as client:
                    await client.get("http://index/livez")
                answered = time.monotonic()
            except httpx.TransportError:
                if time.monotonic() - max(answered, self._index.started) > HANG_SECONDS:
                    self._told("the index does not answer; it is ended")
                    self._index.signal(signal.SIGKILL)

    # --- stopping ------------------------------------------------------------------------------------------------

    async def _stop(self) -> None:
        """First the receiver, so that nothing more comes in; then the index, which loads what did; the dashboard."""
        deadline = time.monotonic() + STOP_SECONDS
        await _end(self._receiver, min(self._settings.drain_timeout_s, STOP_SECONDS - 2.0))
        ending = [_end(self._index, max(1.0, min(INDEX_STOP_SECONDS, deadline - time.monotonic())))]
        if self._dashboard is not None:
            ending.append(_end(self._dashboard, 2.0))
        await asyncio.gather(*ending)


async def _end(child: Child, patience_s: float) -> None:
    child.signal(signal.SIGTERM)
    if child.process is None:
        return
    try:
        async with asyncio.timeout(patience_s):
            await child.process.wait()
    except TimeoutError:
        child.signal(signal.SIGKILL)
        await child.process.wait()


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold a home for one supervisor; raises Locked for a second."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(handle, 32, 0).decode(errors="replace").strip()
            raise Locked(
                path.parent.parent,
                f"`tachograph up` (process {holder})",
                next_step="stop it first, or choose another home with --home",
            ) from None
        os.ftruncate(handle, 0)
        os.pwrite(handle, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(handle)


def _die_with_parent() -> None:
    """In a child before its program starts: when the supervisor is killed, it ends too."""
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


async def _first(*waits: Awaitable[object]) -> None:
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    tasks[-1].cancel()
