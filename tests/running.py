"""A collector as users run it, in its own processes, on free ports."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import httpx

from collector.home import Home

PROGRAM = str(Path(sys.executable).parent / "tachograph")
READY = re.compile(r"ready otlp-http=(\S+) otlp-grpc=(\S+)")


class Collector:
    """A running collector; use it as a context, or end it yourself. `everything`: as `up` runs it, no dashboard."""

    def __init__(self, home: Path, *options: str, everything: bool = False, **environment: str) -> None:
        self.home = home
        self.log = home.parent / f"{home.name}.log"
        verb = ["up", "--no-dashboard"] if everything else ["receiver"]
        ports = ["--otlp-http", "127.0.0.1:0", "--otlp-grpc", "127.0.0.1:0"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "--home", str(home), *verb, *ports, *options],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | environment,
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        match = READY.match(line)
        assert match, f"not ready: {line!r}; {self.log.read_text()}"
        self.http, self.grpc = f"http://{match[1]}", match[2]

    def client(self) -> httpx.Client:
        """An HTTP client for it."""
        return httpx.Client(base_url=self.http, timeout=60)

    def pid(self, role: str = "receiver") -> int:
        """The process of a part that is running: `receiver`, `index` or `supervisor`."""
        found = [process["pid"] for process in Home(self.home).processes() if process["role"] == role]
        assert found, f"no {role} is running"
        return int(found[-1])

    def peak_rss_mb(self, role: str = "receiver") -> float:
        """The most memory a part has had, in MB."""
        status = Path(f"/proc/{self.pid(role)}/status").read_text()
        match = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert match
        return int(match[1]) / 1024

    def kill(self) -> None:
        """End it, and all its parts, as a crash would."""
        parts = [process["pid"] for process in Home(self.home).processes()]
        self.process.send_signal(signal.SIGKILL)
        self._ended()
        for pid in parts:
            _await_end(pid)

    def stop(self) -> int:
        """End it as a service manager would."""
        self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def _ended(self) -> int:
        code = self.process.wait(timeout=30)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    def __enter__(self) -> "Collector":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, _: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            code = self.stop()
            assert problem is not None or code == 0, self.log.read_text()


def _await_end(pid: int) -> None:
    """Wait until a process is gone: parts end with their supervisor, a moment after it."""
    status = Path(f"/proc/{pid}/status")
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if "State:\tZ" not in status.read_text():
                time.sleep(0.005)
                continue
        return
    raise AssertionError(f"process {pid} outlived its supervisor")


def tachograph(*arguments: str, home: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a verb and give what it printed."""
    options = ["--home", str(home)] if home else []
    return subprocess.run(
        [PROGRAM, *options, *arguments], capture_output=True, text=True, env=os.environ | environment, timeout=120
    )
