"""`tachograph run` at a terminal and without one: the answer, approvals, Ctrl-C, and going on after a crash."""

import os
import pty
import re
import select
import signal
import subprocess
import time
from pathlib import Path

import pytest

import store
from runtime.control.client import ControlClient, announced
from tests.collector.asking import loaded
from tests.running import PROGRAM, Collector

SCRIPT = """
version: 1
turns:
  - steps:
      - text: ["Let me ", "look."]
        tool_calls: [{name: read_file, arguments: {path: notes.txt}}]
        usage: counted
      - text: "Now I write."
        tool_calls: [{name: write_file, arguments: {path: out.md, content: written}}]
        usage: counted
      - text: ["All ", "done."]
        usage: counted
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a workspace and a script."""
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "notes.txt").write_text("a note")
    (tmp_path / "script.yaml").write_text(SCRIPT)
    return tmp_path


def arguments(place: Path, *more: str) -> list[str]:
    options = ["--script", str(place / "script.yaml"), "--workspace", str(place / "workspace")]
    return [PROGRAM, "--home", str(place / "home"), "run", *more, *options]


class AtTerminal:
    """The program with a terminal of its own."""

    def __init__(self, *told: str) -> None:
        self.pid, self._ours = pty.fork()
        if self.pid == 0:  # the child, with the terminal as its own
            os.execv(told[0], told)
        self.seen = ""

    def until(self, pattern: str, seconds: float = 30.0) -> None:
        """Read until the screen shows something."""
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.seen):
            assert time.monotonic() < deadline, self.seen
            if select.select([self._ours], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self._ours, 4096).decode(errors="replace")
                except OSError:  # the program has ended
                    assert re.search(pattern, self.seen), self.seen

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._ours, text.encode())

    def end(self) -> int:
        """Wait for its end; its exit code."""
        _, status = os.waitpid(self.pid, 0)
        os.close(self._ours)
        return os.waitstatus_to_exitcode(status)


def test_a_person_is_asked_before_anything_is_written(place: Path) -> None:
    terminal = AtTerminal(*arguments(place, "Summarise"))
    terminal.until(r"Allow write_file out\.md\?")
    assert not (place / "workspace" / "out.md").exists()
    terminal.type("a\r")
    terminal.until(r"All done\.")
    assert terminal.end() == 0
    assert (place / "workspace" / "out.md").read_text() == "written"


def test_control_c_interrupts_the_turn_and_tells_so(place: Path) -> None:
    terminal = AtTerminal(*arguments(place, "Summarise"))
    terminal.until(r"Allow write_file")
    time.sleep(0.3)
    terminal.type("\x03")
    terminal.until("turn interrupted")
    assert terminal.end() == 130
    assert not (place / "workspace" / "out.md").exists()


def test_without_a_terminal_nothing_waits_for_a_person_and_the_session_is_on_record(place: Path) -> None:
    with Collector(place / "home", everything=True) as collector:
        environment = os.environ | {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.http}
        ran = subprocess.run(
            arguments(place, "Summarise"), stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment
        )
        assert ran.returncode == 0, ran.stderr
        assert ran.stdout.endswith("All done.\n")
        assert "write_file" in ran.stderr
        with collector.client() as client:
            loaded(client)
        with store.open(place / "home") as reader:
            calls = reader.frame("select session_id, model from model_calls").rows()
            decisions = reader.frame(
                "select payload ->> '$.decision' as d from events where type = 'permission.evaluated' order by sequence"
            ).rows()
    assert [model for _, model in calls] == ["script"] * 3
    assert decisions == [("allow",), ("deny",)]
    assert not (place / "workspace" / "out.md").exists()


def test_a_session_goes_on_after_a_crash(place: Path) -> None:
    terminal = AtTerminal(*arguments(place, "Summarise"))
    terminal.until(r"Allow write_file")
    found = announced(place / "home" / "runtime")
    assert found is not None
    with ControlClient.of(found) as client:
        session_id = client.call("list_sessions", {})["sessions"][0]["session_id"]
    os.kill(terminal.pid, signal.SIGKILL)
    terminal.end()
    again = AtTerminal(*arguments(place, "--session", session_id))
    again.until(r"Allow write_file")
    again.type("a\r")
    again.until(r"All done\.")
    assert again.end() == 0


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ((), "what is to be done"),
        (("--session", "nobody"), "there is no session nobody"),
    ],
)
def test_bad_use_is_told_in_one_line(place: Path, told: tuple[str, ...], said: str) -> None:
    ran = subprocess.run(arguments(place, *told), stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert ran.returncode in (1, 2)
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr
