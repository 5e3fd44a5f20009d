"""A collector as users run it: `tachograph up` in its own process, on free ports."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

import httpx

PROGRAM = str(Path(sys.executable).parent / "tachograph")
READY = re.compile(r"ready otlp-http=(\S+) otlp-grpc=(\S+)")


class Collector:
    """A running collector; use it as a context, or end it yourself."""

    def __init__(self, home: Path, *options: str, **environment: str) -> None:
        self.home = home
        self.log = home.parent / f"{home.name}.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    PROGRAM,
                    "--home",
                    str(home),
                    "up",
                    "--otlp-http",
                    "127.0.0.1:0",
                    "--otlp-grpc",
                    "127.0.0.1:0",
                    *options,
                ],
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

    def peak_rss_mb(self) -> float:
        """The most memory it has had, in MB."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert match
        return int(match[1]) / 1024

    def kill(self) -> None:
        """End it as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self._ended()

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


def tachograph(*arguments: str, home: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a verb and give what it printed."""
    options = ["--home", str(home)] if home else []
    return subprocess.run(
        [PROGRAM, *options, *arguments], capture_output=True, text=True, env=os.environ | environment, timeout=120
    )
