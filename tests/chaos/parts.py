"""Parts of a collector as single processes, so that a test can end, arm and restart each by itself."""

import os
import subprocess
import time
from pathlib import Path

from models.failpoints import VARIABLE
from tests.running import PROGRAM

RUNNING: list["Part"] = []
"""What a test that fails leaves behind, for the fixture that ends it."""


class Part:
    """A process that was started and is ready, or died on the way to it."""

    def __init__(self, home: Path, *arguments: str, **environment: str) -> None:
        self.log = home.parent / f"{home.name}.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [PROGRAM, "--home", str(home), *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | environment,
            )
        RUNNING.append(self)
        assert self.process.stdout is not None
        ready = self.process.stdout.readline()
        assert ready or VARIABLE in environment, self.log.read_text()

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def died(self, timeout: float) -> bool:
        """Whether it ended within some seconds."""
        deadline = time.monotonic() + timeout
        while self.alive and time.monotonic() < deadline:
            time.sleep(0.01)
        return not self.alive

    def end(self) -> int:
        """End it, as a service manager would, and give its exit code."""
        self.process.terminate()
        code = self.process.wait(timeout=30)
        self.close()
        return code

    def close(self) -> None:
        """Forget it, and end it if it still runs."""
        if self.alive:
            self.process.kill()
            self.process.wait()
        if self in RUNNING:
            RUNNING.remove(self)
        assert self.process.stdout is not None
        self.process.stdout.close()


def receiver(home: Path, port: int, **environment: str) -> Part:
    """A receiver at a fixed port."""
    return Part(home, "receiver", "--otlp-http", f"127.0.0.1:{port}", "--otlp-grpc", "127.0.0.1:0", **environment)


def index(home: Path, **environment: str) -> Part:
    """An index."""
    return Part(home, "index", **environment)
