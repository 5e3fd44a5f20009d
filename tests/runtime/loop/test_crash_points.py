"""The runtime ends after any of its writes and is started again: the turn goes on and comes to the same end."""

import asyncio
import shutil
from collections.abc import Sequence
from pathlib import Path

from models.event import Event
from runtime.loop.closing import UNKNOWN
from runtime.runtime import Runtime
from tests.runtime.loop.driving import SESSION, Stage, options, run, stage

SCRIPT = """
piece_chars: 4
turns:
  - when: {contains: Look and write}
    steps:
      - reasoning: ["I look ", "first."]
        text: Let me look.
        tool_calls:
          - {name: read_file, arguments: {path: notes.txt}}
          - {name: grep, arguments: {pattern: note}}
        usage: counted
      - tool_calls:
          - {name: write_file, arguments: {path: out.txt, content: "hello"}}
          - {name: ask_user, arguments: {question: Which colour}}
        usage: counted
      - text: Done.
        usage: counted
        error: {category: overloaded, attempts: 1, retry_after_ms: 1, after_pieces: 1}
  - when: {contains: And then}
    steps: [{text: Nothing., usage: counted}]
"""
Told = list[tuple[str, str]]


async def finish(scene: Stage) -> Told:
    """Answer what is asked until nothing is left to do; what the model was shown at the end."""

    async def answer() -> None:
        while True:
            await scene.runtime.kernel.until(SESSION, lambda now: bool(now.open_actions()))
            for action in scene.state.open_actions():
                told = {"decision": "allow"} if action.action_type == "permission" else {"decision": "answer"}
                more = {} if action.action_type == "permission" else {"payload": "blue"}
                await scene.runtime.respond_action(session_id=SESSION, action_id=action.action_id, **told, **more)

    person = asyncio.create_task(answer())
    try:
        await scene.idle()
    finally:
        person.cancel()
    assert not [name for name in ("turns", "tool_calls", "model_calls", "actions") if scene.state.open_keys(name)]
    last = scene.state.turn_list("th-1", 1)[0].turn_id
    return [
        (str(part.kind), str(getattr(part, "text", None) or getattr(part, "arguments", "")))
        for message in scene.talk(last)
        for part in message.parts
    ]


async def recorded(folder: Path) -> tuple[Told, list[Path]]:
    """Play the scene once, keeping the runtime's folder and the workspace as they are after each write."""
    copies: list[Path] = []

    def keep(_: Sequence[Event]) -> None:
        copy = folder.parent / f"copy-{len(copies)}"
        for name in ("rt", "ws"):
            shutil.copytree(folder / name, copy / name)
        copies.append(copy)

    (folder / "ws").mkdir(parents=True)
    (folder / "ws" / "notes.txt").write_text("a note\n")
    async with stage(folder, SCRIPT) as scene:
        scene.runtime.kernel.on_facts.append(keep)
        await scene.submit("Look and write.", "t-1")
        await scene.submit("And then?", "t-2")
        return await finish(scene), copies


def test_a_start_after_any_write_comes_to_the_same_end(tmp_path: Path) -> None:
    async def play() -> None:
        told, copies = await recorded(tmp_path / "first")
        assert len(copies) >= 15
        unknown = 0
        for copy in copies:
            async with stage(copy, SCRIPT) as scene:
                await scene.submit("Look and write.", "t-1")  # the same turn, so it is one turn
                await scene.submit("And then?", "t-2")
                again = await finish(scene)
                if ("tool_result", UNKNOWN) in again:  # the write was cut off: the model is told, and may look
                    unknown += 1
                    at = again.index(("tool_result", UNKNOWN))
                    again[at] = told[at]
                else:
                    assert (copy / "ws" / "out.txt").read_text() == "hello"
                assert again == told, copy.name
                writes = [fact for fact in scene.facts("tool.started") if fact.tool_name == "write_file"]
                assert len(writes) == 1  # never made twice, whatever was cut off
        assert unknown >= 1

    run(play)


def test_a_call_that_was_cut_off_is_told_and_asked_again_under_a_new_name(tmp_path: Path) -> None:
    script = "turns:\n  - steps: [{text: ['a ', 'b ', 'c'], delay_ms: 100}]\n"

    async def play() -> None:
        async with stage(tmp_path, script) as scene:
            await scene.submit("Go.", "t-1")
            await scene.until(lambda now: any(call.deltas for call in now.model_calls.values()))
        runtime = await Runtime.open(tmp_path / "rt", options(tmp_path / "ws", script))
        async with runtime:
            scene = Stage(runtime)
            await scene.idle()
            failed = scene.facts("model.failed")
            assert [fact.failure_category for fact in failed] == ["interrupted"]
            requested = [event for event in scene.events() if event.type == "model.requested"]
            assert len({event.model_request_id for event in requested}) == 2
            assert len({event.step_id for event in requested}) == 1
            assert scene.text(scene.state.turns["t-1"].output_ref) == "a b c"

    run(play)
