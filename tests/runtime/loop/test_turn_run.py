"""A turn from its input to its end, as facts."""

from pathlib import Path

import pytest

from models.event import Event
from tests.runtime.loop.driving import run, stage

TURN = """
turns:
  - steps:
      - reasoning: ["I look ", "first."]
        reasoning_summary: It looks first.
        text: ["Let me ", "look."]
        tool_calls:
          - {name: read_file, arguments: {path: notes.txt}}
          - {name: list_files}
        usage: counted
      - text: Now I write.
        tool_calls:
          - {name: write_file, arguments: {path: out/new.txt, content: "hello\\n"}}
        usage: counted
      - text: Done.
        usage: counted
"""

ASK = ["cost.estimated", "model.requested"]
ANSWER = ["model.delta", "model.completed", "cost.recorded"]
CALL = ["permission.evaluated", "tool.started", "tool.args"]


@pytest.mark.req(
    *("AR-29", "AR-46", "AR-47", "AR-48", "AR-68", "AR-69", "AR-70", "AR-71", "AR-73", "AR-74", "AR-75", "AR-76"),
    *("AR-77", "AR-79", "AR-81", "AR-82", "AR-84", "AR-88", "AR-97", "AR-115", "AR-116", "AR-120", "AR-126", "AR-127"),
    *("AR-232", "AR-233"),
)
def test_a_turn_with_tools_tells_each_step_in_order(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, TURN) as scene:
            (tmp_path / "ws" / "notes.txt").write_text("a note\n")
            await scene.submit("Look and write.", "t-1")
            await scene.answer("allow")
            await scene.idle()
            assert scene.types("t-1") == [
                *("turn.submitted", "turn.started", "run.status", "task.profile.resolved"),
                *("routing.candidates.resolved", "routing.single_candidate", "tool.catalog.resolved"),
                "context.resolved",
                *(*ASK, "reasoning.delta", "reasoning.summary", *ANSWER),
                *(*CALL, *CALL, "tool.result", "tool.result"),
                *(*ASK, *ANSWER),
                *("permission.evaluated", "permission.requested", "action.required"),
                *("action.resolved", "permission.resolved", "tool.started", "tool.args"),
                *("tool.result", "artifact.changed"),
                *(*ASK, *ANSWER),
                *("snapshot.updated", "turn.completed"),
            ]
            assert (tmp_path / "ws" / "out" / "new.txt").read_text() == "hello\n"
            check_identities(scene.events("t-1"))
            ended = scene.facts("turn.completed")[0]
            assert (ended.stop_reason, scene.text(ended.output_ref)) == ("finished", "Done.")
            assert (ended.model_calls, ended.tool_calls) == (3, 3)
            written = scene.facts("artifact.changed")[0]
            assert (written.change, written.path, written.lines_added) == ("created", "out/new.txt", 1)
            assert scene.text(written.read_ref) == "hello\n"
            call = next(one for one in scene.state.tool_calls.values() if one.tool_name == "write_file")
            assert call.permission is not None
            assert call.permission.decision_source == "human"
            assert call.input_ref is not None
            assert call.result_ref is not None
            assert call.error is None

    run(play)


def check_identities(events: list[Event]) -> None:
    """Turn, step, tool call, model call and action each have their own name, and each step its own."""
    steps = {event.step_id for event in events if event.step_id}
    calls = {event.tool_call_id for event in events if event.tool_call_id}
    models = {event.model_request_id for event in events if event.model_request_id}
    actions = {event.action_id for event in events if event.action_id}
    assert (len(steps), len(calls), len(models), len(actions)) == (6, 3, 3, 1)
    assert not steps & calls
    assert not steps & models
    assert not calls & actions
    assert "t-1" not in steps | calls


def test_facts_of_one_moment_cost_one_write(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, TURN) as scene:
            (tmp_path / "ws" / "notes.txt").write_text("a note\n")
            sizes: list[int] = []
            await scene.submit("Look and write.", "t-1")
            scene.runtime.kernel.on_facts.append(lambda events: sizes.append(len(events)))
            await scene.answer("allow")
            await scene.idle()
            assert sum(sizes) >= 40
            assert len(sizes) <= 20

    run(play)


LIMITED = """
after_end: repeat
turns:
  - steps:
      - text: More.
        tool_calls: [{name: list_files}]
      - text: And more.
        tool_calls: [{name: list_files}]
      - text: The end.
"""


def test_a_turn_ends_at_its_bound_of_steps_and_says_so(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, LIMITED) as scene:
            await scene.say("Go.", "t-1", max_steps=2)
            ended = scene.facts("turn.completed")[0]
            assert (ended.stop_reason, ended.model_calls, ended.tool_calls) == ("max_steps", 2, 2)

    run(play)


def test_the_pieces_of_a_stream_are_told_while_it_runs(tmp_path: Path) -> None:
    script = "turns:\n  - steps:\n      - {text: ['one ', 'two ', 'three ', 'four ', 'five ', 'six'], delay_ms: 40}\n"

    async def play() -> None:
        async with stage(tmp_path, script) as scene:
            await scene.submit("Go.", "t-1")
            state = await scene.until(lambda now: any(call.deltas for call in now.model_calls.values()))
            assert next(iter(state.model_calls.values())).ended_at is None
            await scene.idle()
            pieces = scene.facts("model.delta")
            assert "".join(piece.text for piece in pieces) == "one two three four five six"
            assert len(pieces) > 1

    run(play)


def test_the_model_gets_no_private_reasoning_back(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, TURN, interactive=False) as scene:
            await scene.say("Look and write.", "t-1")
            said = " ".join(part.model_dump_json() for message in scene.talk("t-1") for part in message.parts)
            assert "I look first." not in said
            assert "It looks first." not in said
            assert "Let me look." in said

    run(play)


UNREADABLE = "turns:\n  - steps: [{text: One.}]\n  - steps: [{text: Two.}]\n"


def test_a_content_that_is_gone_makes_the_context_degraded_and_nothing_fails(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, UNREADABLE) as scene:
            await scene.say("First.", "t-1")
            lost = scene.state.turns["t-1"].output_ref
        assert lost is not None
        for file in (tmp_path / "rt" / "contents").rglob("*"):
            if file.is_file() and file.name.startswith(lost.removeprefix("sha256:")[:10]):
                file.unlink()
        async with stage(tmp_path, UNREADABLE) as scene:
            await scene.say("Second.", "t-2")
            context = scene.facts("context.resolved", "t-2")[0]
            assert context.missing == (lost,)
            assert any("degraded" in warning for warning in context.warnings)
            assert scene.state.turns["t-2"].status == "completed"

    run(play)


BROKEN = """
turns:
  - steps:
      - tool_calls:
          - {name: read_file, arguments: '{"path": "notes.txt"'}
          - {name: read_file, arguments: 'nonsense'}
          - {name: fly, arguments: {}}
          - {name: read_file, arguments: {file: notes.txt}}
      - text: I see.
"""


@pytest.mark.req("AR-80")
def test_calls_that_cannot_be_made_are_told_to_the_model_and_mended_ones_are_made(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, BROKEN) as scene:
            (tmp_path / "ws" / "notes.txt").write_text("a note\n")
            await scene.say("Go.", "t-1")
            results = scene.talk("t-1")[2].parts
            assert [part.is_error for part in results] == [False, True, True, True]  # type: ignore[union-attr]  # results
            assert results[0].text == "a note\n"  # type: ignore[union-attr]
            failed = scene.facts("tool.failed")
            assert [fact.failure_category for fact in failed] == [
                "invalid_arguments", "unknown_tool", "invalid_arguments",
            ]  # fmt: skip
            assert scene.state.turns["t-1"].status == "completed"

    run(play)
