"""A turn is stopped in each of its phases: what was open is closed, and the turn ends as cancelled."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.loop.driving import SESSION, THREAD, Stage, run, stage
from views.state import State

SLOW = "turns:\n  - steps: [{text: ['a ', 'b ', 'c ', 'd'], delay_ms: 200}]\n  - steps: [{text: Next.}]\n"
WRITE = """
turns:
  - steps:
      - tool_calls: [{name: write_file, arguments: {path: out.txt, content: hello}}]
      - text: Done.
  - steps: [{text: Next.}]
"""
QUESTION = """
turns:
  - steps:
      - tool_calls: [{name: ask_user, arguments: {question: "Which?"}}]
      - text: Done.
  - steps: [{text: Next.}]
"""
RETRY = """
turns:
  - steps: [{text: Done., error: {category: overloaded, retry_after_ms: 20000}}]
  - steps: [{text: Next.}]
"""


def streaming(state: State) -> bool:
    return any(call.deltas for call in state.model_calls.values())


def waiting(state: State) -> bool:
    return bool(state.open_actions())


def retrying(state: State) -> bool:
    return state.turns["t-1"].phase == "retrying"


PHASES: dict[str, tuple[str, Callable[[State], bool], list[str]]] = {
    "asking the model": (SLOW, lambda state: bool(state.open_keys("model_calls")), ["model.failed"]),
    "streaming": (SLOW, streaming, ["model.failed"]),
    "waiting for permission": (WRITE, waiting, ["action.resolved", "permission.resolved", "tool.failed"]),
    "waiting for an answer": (QUESTION, waiting, ["action.resolved", "tool.failed"]),
    "waiting for a retry": (RETRY, retrying, []),
}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.req("AR-49", "AR-72", "AR-80")
def test_an_interrupt_closes_what_is_open_and_ends_the_turn(tmp_path: Path, phase: str) -> None:
    script, reached, closing = PHASES[phase]

    async def play() -> None:
        async with stage(tmp_path, script) as scene:
            await scene.submit("Go.", "t-1")
            await scene.until(reached)
            await scene.runtime.interrupt_turn(session_id=SESSION, thread_id=THREAD, turn_id="t-1", reason="enough")
            await scene.idle()
            types = scene.types("t-1")
            assert types[types.index("run.status", types.index("context.resolved")) :][-len(closing) - 1 :] == [
                *closing, "turn.failed",
            ]  # fmt: skip
            check_ended(scene)
            await scene.say("Next.", "t-2")
            assert scene.state.turns["t-2"].status == "completed"

    run(play)


def check_ended(scene: Stage) -> None:
    """Nothing of the turn is open, and everything that was cut off says why."""
    failed = scene.facts("turn.failed")[0]
    assert (failed.status, failed.failure_category, failed.interrupted) == ("cancelled", "interrupted", True)
    state = scene.state
    assert not [family for family in ("turns", "model_calls", "tool_calls", "actions") if state.open_keys(family)]
    for fact in scene.facts("tool.failed"):
        assert (fact.failure_category, fact.cancelled) == ("interrupted", True)
        assert fact.tool_name in ("write_file", "ask_user")
    for action in state.actions.values():
        assert (action.status, action.decision) == ("cancelled", "cancelled")
    for fact in scene.facts("permission.resolved"):
        assert fact.outcome == "cancelled"


def test_a_file_that_is_being_written_is_written_and_recorded_before_the_turn_ends(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, WRITE) as scene:
            tool = scene.runtime.tools

            class Slow:
                async def execute(self, action: Any, report: Any) -> Any:
                    await scene.runtime.interrupt_turn(session_id=SESSION, turn_id="t-1", reason="enough")
                    return await tool.execute(action, report)

            scene.runtime.executors["tool"] = Slow()
            await scene.submit("Go.", "t-1")
            await scene.answer("allow")
            await scene.idle()
            assert (tmp_path / "ws" / "out.txt").read_text() == "hello"
            assert scene.types("t-1")[-3:] == ["tool.result", "artifact.changed", "turn.failed"]

    run(play)
