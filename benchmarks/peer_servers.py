"""Other collectors to be measured beside ours: installed in environments of their own, run on a free port, with the
SQLite database each uses when nothing else is said."""

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

CACHE_VARIABLE = "TACHOGRAPH_BENCH_CACHE"
READY_SECONDS = 120.0
STORED_SECONDS = 600.0
POLL_SECONDS = 0.1

QUIET = {
    "DO_NOT_TRACK": "true",
    "PHOENIX_TELEMETRY_ENABLED": "false",
    "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}
"""Nobody is told of our runs."""


@dataclass(frozen=True)
class Peer:
    """A collector that takes OTLP over HTTP and keeps spans in SQLite."""

    name: str
    requirement: str
    command: tuple[str, ...]
    """What is run in the bin folder of its environment; `{port}` is filled in."""

    ready_path: str
    database: str
    """The database, from its working folder."""

    environment: dict[str, str] = field(default_factory=dict)
    """`{port}`, `{other_port}` and `{folder}` are filled in."""

    headers: dict[str, str] = field(default_factory=dict)
    slow_start: bool = False
    """Whether its first requests take much longer than later ones, so that a second load is measured too."""


PHOENIX = Peer(
    name="Phoenix 20.26.1",
    requirement="arize-phoenix==20.26.1",
    command=("phoenix", "serve"),
    ready_path="/healthz",
    database="phoenix.db",
    environment={
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": "{port}",
        "PHOENIX_GRPC_PORT": "{other_port}",
        "PHOENIX_WORKING_DIR": "{folder}",
    },
)
MLFLOW = Peer(
    name="MLflow 3.17.2",
    requirement="mlflow==3.17.2",
    command=("mlflow", "server", "--host", "127.0.0.1", "--port", "{port}"),
    ready_path="/health",
    database="mlflow.db",
    headers={"x-mlflow-experiment-id": "0"},
    slow_start=True,
)


def environment_of(peer: Peer) -> Path:
    """The bin folder of the environment that has the peer installed; made when missing."""
    told = os.environ.get(CACHE_VARIABLE)
    cache = Path(told) if told else Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "tachograph-bench"
    folder = cache / peer.requirement.replace("==", "-")
    complete = folder / ".complete"
    if not complete.exists():
        print(f"installing {peer.requirement} in {folder}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        python = folder / "bin" / "python"
        options = ("--quiet", "--quiet", "--disable-pip-version-check")
        subprocess.run([python, "-m", "pip", "install", *options, peer.requirement], check=True)
        complete.touch()
    return folder / "bin"


@dataclass(frozen=True)
class Running:
    """A peer that answers."""

    address: str
    database: Path

    def stored(self) -> int:
        """Spans in its database; 0 while it is busy or not made yet."""
        try:
            uri = f"{self.database.absolute().as_uri()}?mode=ro"
            with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=5)) as connection:
                return int(connection.execute("select count(*) from spans").fetchone()[0])
        except sqlite3.OperationalError:
            return 0

    def await_stored(self, spans: int) -> float:
        """Wait until so many spans are in its database; the moment on the monotonic clock."""
        deadline = time.monotonic() + STORED_SECONDS
        while self.stored() < spans:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.stored()} of {spans} spans after {STORED_SECONDS:.0f} s")
            time.sleep(POLL_SECONDS)
        return time.monotonic()


@contextlib.contextmanager
def running(peer: Peer, folder: Path) -> Iterator[Running]:
    """Run a peer in a working folder of its own."""
    bin_folder = environment_of(peer)
    folder.mkdir(parents=True)
    fill = {"port": str(free_port()), "other_port": str(free_port()), "folder": str(folder)}
    program, *arguments = (part.format_map(fill) for part in peer.command)
    environment = os.environ | QUIET | {name: text.format_map(fill) for name, text in peer.environment.items()}
    environment["PATH"] = f"{bin_folder}{os.pathsep}{environment['PATH']}"
    with folder.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(
            [bin_folder / program, *arguments],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,  # it has workers, to be ended with it
        )
    try:
        address = f"127.0.0.1:{fill['port']}"
        _await_ready(process, f"http://{address}{peer.ready_path}", log_of=folder.with_suffix(".log"))
        yield Running(address, folder / peer.database)
    finally:
        _end(process)


def _await_ready(process: "subprocess.Popen[bytes]", url: str, log_of: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(url, timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(POLL_SECONDS)
    raise RuntimeError(f"did not start: {log_of.read_text(errors='replace')[-2000:]}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    for how in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, how)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=30)
            return


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def size_of(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
