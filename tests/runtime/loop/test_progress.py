"""Tools that take long tell how far they are, as facts between their start and their end."""

import threading
from pathlib import Path
from typing import Any

import pytest

from runtime.loop import file_tools
from runtime.loop import tools as tools_module
from runtime.loop.progress import Progress
from runtime.loop.tools import Observation
from runtime.loop.workspace import Workspace
from tests.runtime.loop.driving import SESSION, run, stage

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SEARCH = """
turns:
  - steps:
      - tool_calls: [{name: grep, arguments: {pattern: here}}]
      - text: Done.
  - steps:
      - tool_calls: [{name: grep, arguments: {pattern: here, path: small}}]
      - text: Done.
"""


def many_files(root: Path, count: int) -> None:
    """A folder with a find at its beginning."""
    (root / "small").mkdir(parents=True)
    (root / "small" / "a.txt").write_text(f"here is token {SECRET}\n")
    (root / "large").mkdir()
    for number in range(count):
        (root / "large" / f"{number}.txt").touch()


@pytest.mark.req("AR-78")
def test_a_long_search_tells_how_far_it_is_and_what_it_found_so_far(tmp_path: Path) -> None:
    many_files(tmp_path / "ws", 2_500)

    async def play() -> None:
        async with stage(tmp_path, SEARCH) as scene:
            await scene.say("Search.", "t-1")
            types = scene.types("t-1")
            at = types.index("tool.args")
            assert types[at : at + 5] == [
                *("tool.args", "tool.progress", "tool.progress", "output.redacted", "tool.result"),
            ]
            told = scene.facts("tool.progress")
            assert [fact.progress for fact in told] == [1_000.0, 2_000.0]
            assert told[0].message == "1,000 files and folders seen, 55 bytes read, 1 found"
            assert told[0].preview.startswith("small/a.txt:1:here is token [REDACTED:github:")
            event = next(event for event in scene.events() if event.type == "tool.progress")
            assert event.tool_call_id == told[0].tool_call_id
            assert (event.turn_id, event.step_id) == ("t-1", f"{event.tool_call_id}.step")
            assert scene.state.tool_calls[str(event.tool_call_id)].progress == 2_000.0
            await scene.say("Search the small one.", "t-2")
            assert "tool.progress" not in scene.types("t-2")

    run(play)


def test_a_search_reports_by_files_and_by_bytes_and_shows_its_newest_find(tmp_path: Path) -> None:
    many_files(tmp_path, 1_100)
    for number in range(3):
        (tmp_path / "small" / f"big{number}.txt").write_text(("x" * 99 + "\n") * 35_000)
    heard: list[Progress] = []
    found = file_tools.grep(Workspace(tmp_path), "here", report=heard.append)
    assert found.startswith("small/a.txt:1:")
    assert len(heard) == 2
    assert heard[-1].latest == f"small/a.txt:1:here is token {SECRET}"
    heard.clear()
    file_tools.glob(Workspace(tmp_path), "large/*.txt", report=heard.append)
    assert [one.done for one in heard] == [1_000]
    assert heard[0].latest is not None


def test_what_a_tool_reports_after_its_turn_was_stopped_is_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, gone_on = threading.Event(), threading.Event()

    def slow(workspace: Any, asked: Any, report: Any) -> Observation:
        report(Progress("half", 1))
        go_on.wait(10)
        report(Progress("whole", 2))
        gone_on.set()
        return Observation("late")

    tool = tools_module.BUILT_IN[3]
    monkeypatch.setattr(tools_module, "BUILT_IN", (tools_module.Tool(tool.name, tool.takes, slow, tool.capabilities),))

    async def play() -> None:
        async with stage(tmp_path, SEARCH) as scene:
            await scene.submit("Search.", "t-1")
            await scene.until(lambda now: any(call.progress for call in now.tool_calls.values()))
            await scene.runtime.interrupt_turn(session_id=SESSION, reason="enough")
            await scene.idle()
            go_on.set()
            gone_on.wait(10)
            assert [fact.message for fact in scene.facts("tool.progress")] == ["half"]
            assert scene.types("t-1")[-2:] == ["tool.failed", "turn.failed"]

    run(play)
