"""Large and secret outputs, and calls that run side by side."""

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from runtime.loop import tools as tools_module
from runtime.loop.tools import Observation
from tests.runtime.loop.driving import run, stage

READ = """
turns:
  - steps:
      - tool_calls: [{name: read_file, arguments: {path: big.txt}}]
      - text: Done.
"""


def test_a_large_output_is_kept_whole_and_the_model_gets_its_beginning_and_end(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, READ) as scene:
            lines = [f"line {number:05}\n" for number in range(1_900)]
            whole = "".join(line.rstrip() + " " + "x" * 60 + "\n" for line in lines)
            (tmp_path / "ws" / "big.txt").write_text(whole)
            await scene.say("Go.", "t-1")
            types = scene.types("t-1")
            at = types.index("tool.result")
            assert types[at - 2 : at] == ["output.spilled", "output.truncated"]
            result = scene.facts("tool.result")[0]
            assert scene.text(result.result_ref) == whole
            assert result.truncated
            part: Any = scene.talk("t-1")[2].parts[0]
            assert part.text.startswith("line 00000")
            assert part.text.rstrip().endswith("x")
            assert len(part.text) < len(whole)
            assert result.result_ref in part.text
            spilled = scene.facts("output.spilled")[0]
            assert spilled.size_bytes == len(whole)
            assert len(spilled.preview) <= 200

    run(play)


def test_a_secret_in_a_file_reaches_neither_the_record_nor_the_model(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"

    async def play() -> None:
        async with stage(tmp_path, READ) as scene:
            (tmp_path / "ws" / "big.txt").write_text(f"token = {secret}\n")
            await scene.say("Go.", "t-1")
            assert scene.facts("output.redacted")
            part: Any = scene.talk("t-1")[2].parts[0]
            assert secret not in part.text
            assert "REDACTED" in part.text
            assert all(secret not in event.model_dump_json() for event in scene.events())

    run(play)


PARALLEL = """
turns:
  - steps:
      - tool_calls:
          - {name: read_file, arguments: {path: a.txt}}
          - {name: read_file, arguments: {path: b.txt}}
          - {name: read_file, arguments: {path: c.txt}}
      - text: Done.
"""


def test_reads_that_do_not_depend_on_each_other_run_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(3, timeout=10)

    def meet(workspace: Any, asked: Any, report: Any) -> Observation:
        together.wait()  # raises unless three calls are here at once
        return Observation(asked.path)

    tool = tools_module.BUILT_IN[0]
    monkeypatch.setattr(tools_module, "BUILT_IN", (tools_module.Tool(tool.name, tool.takes, meet, tool.capabilities),))

    async def play() -> None:
        async with stage(tmp_path, PARALLEL) as scene:
            await scene.say("Go.", "t-1")
            assert [part.text for part in scene.talk("t-1")[2].parts] == ["a.txt", "b.txt", "c.txt"]  # type: ignore[union-attr]

    run(play)


WRITES = """
turns:
  - steps:
      - tool_calls:
          - {name: write_file, arguments: {path: a.txt, content: "1"}}
          - {name: edit_file, arguments: {path: a.txt, old_text: "1", new_text: "2"}}
          - {name: read_file, arguments: {path: a.txt}}
      - text: Done.
"""


def test_calls_on_the_same_file_happen_in_the_order_the_model_asked(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, WRITES) as scene:
            await scene.submit("Go.", "t-1")
            await scene.answer("allow")
            first = next(iter(scene.state.actions))
            await scene.until(lambda now: len(now.actions) == 2 and now.actions[first].status == "resolved")
            assert len([call for call in scene.state.tool_calls.values() if call.success]) == 1
            await scene.answer("allow")
            await scene.idle()
            assert scene.talk("t-1")[2].parts[2].text == "2"  # type: ignore[union-attr]
            assert (tmp_path / "ws" / "a.txt").read_text() == "2"

    run(play)


def test_a_slow_tool_does_not_hold_up_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tools_module.BUILT_IN[0]

    def slow(workspace: Any, asked: Any, report: Any) -> Observation:
        time.sleep(0.3)
        return Observation("late")

    monkeypatch.setattr(tools_module, "BUILT_IN", (tools_module.Tool(tool.name, tool.takes, slow, tool.capabilities),))

    async def play() -> None:
        async with stage(tmp_path, READ) as scene:
            await scene.submit("Go.", "t-1")
            await scene.until(lambda now: bool(now.open_keys("tool_calls")))
            begun = time.monotonic()
            await asyncio.sleep(0)
            assert time.monotonic() - begun < 0.2
            await scene.idle()

    run(play)
