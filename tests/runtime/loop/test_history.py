"""Compaction, rollback and the window: what the model still sees, and what the record tells about it."""

from pathlib import Path
from typing import Any

import pytest

from models.errors import CommandRefused
from runtime.loop.conversation import HISTORY_TURNS, Reader
from tests.runtime.loop.driving import SESSION, THREAD, Stage, catalogue, run, stage

LONG = "word " * 200
TALK = f"""
after_end: repeat
turns:
  - when: {{contains: Sum up this conversation}}
    steps: [{{text: The person said hello twice., usage: counted}}]
  - steps: [{{text: "{LONG}", usage: counted}}]
"""
SUMMARY = "The person said hello twice."
FAILING = TALK.replace(
    "steps: [{text: The person said hello twice., usage: counted}]",
    "steps: [{error: {category: invalid_request}}]",
)


def said(scene: Stage, turn_id: str) -> str:
    """Everything the model gets to see for a turn."""
    reader = Reader(scene.runtime.texts, scene.runtime.tools)
    messages = reader.read(scene.state, THREAD, turn_id, "").messages
    return " ".join(message.text for message in messages)


@pytest.mark.req("AR-85", "AR-86", "GAP-8")
def test_a_context_over_the_threshold_is_compacted_before_the_model_is_asked(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, TALK, compact_at_tokens=1_200) as scene:
            await scene.say("Hello one.", "t-1")
            await scene.say("Hello two.", "t-2")
            await scene.say("Hello three.", "t-3")
            types = scene.types("t-3")
            at = types.index("context.compaction.started")
            assert types[at - 1 : at + 9] == [
                *("context.resolved", "context.compaction.started", "cost.estimated", "model.requested"),
                *("model.delta", "model.completed", "cost.recorded", "context.compaction.completed"),
                *("context.resolved", "cost.estimated"),
            ]
            boundary = scene.facts("context.compaction.completed")[0]
            assert boundary.trigger == "auto"
            assert boundary.affected_turns == ("t-1", "t-2")
            assert boundary.tokens_after < boundary.tokens_before
            assert scene.text(boundary.summary_ref) == SUMMARY
            before, after = scene.facts("context.resolved", "t-3")
            assert after.estimated_tokens < before.estimated_tokens
            shown = said(scene, "t-3")
            assert SUMMARY in shown
            assert "Hello one." not in shown
            assert "Hello three." in shown
            kinds = [item.kind for item in scene.state.conversation()]
            assert kinds.count("assistant_output") == 3  # the summary is no answer

    run(play)


@pytest.mark.req("AR-86", "GAP-8")
def test_compaction_on_request_is_a_turn_of_the_system(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, TALK) as scene:
            await scene.say("Hello one.", "t-1")
            asked = {"session_id": SESSION, "thread_id": THREAD, "idempotency_key": "once"}
            first = await scene.runtime.compact_thread(**asked)
            await scene.idle()
            again = await scene.runtime.compact_thread(**asked)
            assert (again.turn_id, again.repeated, again.status) == (first.turn_id, True, "completed")
            assert scene.facts("context.compaction.completed")[0].trigger == "manual"
            assert scene.state.turns[first.turn_id].stop_reason == "compacted"
            await scene.say("Hello two.", "t-2")
            shown = said(scene, "t-2")
            assert SUMMARY in shown
            assert "Hello one." not in shown
            assert "Sum up the earlier" not in shown
            nothing = await scene.runtime.compact_thread(session_id=SESSION, thread_id=THREAD)
            await scene.idle()
            assert scene.facts("context.compaction.completed")[1].affected_turns == ("t-2",)
            nothing = await scene.runtime.compact_thread(session_id=SESSION, thread_id=THREAD)
            await scene.idle()
            assert scene.state.turns[nothing.turn_id].stop_reason == "nothing_to_compact"

    run(play)


@pytest.mark.req("AR-87", "AR-98", "GAP-8")
def test_three_failures_in_a_row_open_the_breaker_and_a_success_on_request_closes_it(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, FAILING, compact_at_tokens=300) as scene:
            for number in range(6):
                await scene.say(f"Hello {number}.", f"t-{number}")
            counts = [fact.consecutive_failures for fact in scene.facts("context.compaction.failed")]
            assert counts == [1, 2, 3]
            assert [fact.code for fact in scene.facts("runtime.warning")] == ["compaction.breaker_open"]
            assert all(turn.status == "completed" for turn in scene.state.turns.values())
        async with stage(tmp_path, TALK, compact_at_tokens=300) as scene:
            await scene.say("Hello 6.", "t-6")
            assert "context.compaction.started" not in scene.types("t-6")  # it is open after a restart too
            await scene.runtime.compact_thread(session_id=SESSION, thread_id=THREAD)
            await scene.idle()
            await scene.say("Hello 7.", "t-7")
            await scene.say("Hello 8.", "t-8")
            assert "context.compaction.completed" in scene.types("t-8")

    run(play)


READING = f"""
after_end: repeat
turns:
  - when: {{contains: Sum up this conversation}}
    steps: [{{text: The person said hello twice.}}]
  - when: {{contains: Read}}
    steps:
      - tool_calls: [{{name: read_file, arguments: {{path: long.txt}}}}]
      - tool_calls: [{{name: list_files}}]
      - text: Done.
  - steps: [{{text: "{LONG}"}}]
"""


def test_a_context_that_grows_too_large_in_the_midst_of_a_turn_is_compacted_before_the_next_call(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        async with stage(tmp_path, READING, compact_at_tokens=2_000) as scene:
            (tmp_path / "ws" / "long.txt").write_text("line of text\n" * 600)
            await scene.say("Hello one.", "t-1")
            await scene.say("Read it.", "t-2")
            types = scene.types("t-2")
            begun = types.index("context.compaction.started")
            assert types.index("tool.result") < begun < types.index("turn.completed")
            assert types[:begun].count("model.requested") == 1
            assert [fact.affected_turns for fact in scene.facts("context.compaction.completed")] == [("t-1",)]
            assert scene.state.turns["t-2"].status == "completed"
            shown = said(scene, "t-2")
            assert SUMMARY in shown
            assert "Hello one." not in shown

    run(play)


def test_a_compaction_that_failed_is_not_tried_again_in_the_same_turn_nor_taken_for_a_try_at_the_answer(
    tmp_path: Path,
) -> None:
    script = READING.replace("{text: The person said hello twice.}", "{error: {category: invalid_request}}")

    async def play() -> None:
        async with stage(tmp_path, script, compact_at_tokens=2_000) as scene:
            (tmp_path / "ws" / "long.txt").write_text("line of text\n" * 600)
            await scene.say("Hello one.", "t-1")
            await scene.say("Read it.", "t-2")
            assert [fact.consecutive_failures for fact in scene.facts("context.compaction.failed")] == [1]
            asked = [fact for fact in scene.facts("model.requested", "t-2") if fact.operation == "chat"]
            assert [fact.attempt_index for fact in asked] == [1, 1, 1]
            assert scene.state.turns["t-2"].status == "completed"

    run(play)


WRITING = """
after_end: repeat
turns:
  - steps: [{text: One.}]
  - steps:
      - tool_calls: [{name: write_file, arguments: {path: out.txt, content: hello}}]
      - text: Two.
"""


@pytest.mark.req("AR-152", "AR-153")
def test_a_rollback_takes_later_turns_out_of_the_conversation_and_tells_what_stays(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, WRITING) as scene:
            await scene.say("First.", "t-1")
            await scene.submit("Second.", "t-2")
            await scene.answer("allow")
            await scene.idle()
            asked = {"session_id": SESSION, "thread_id": THREAD, "turn_id": "t-1", "idempotency_key": "back"}
            done = await scene.runtime.rollback_thread(**asked)
            assert done.removed_turns == ("t-2",)
            assert "out.txt" in (done.repair or "")
            assert (tmp_path / "ws" / "out.txt").exists()
            completed = scene.facts("history.rollback.completed")[0]
            assert completed.degraded
            assert completed.surviving_baseline == "t-1"
            assert len(completed.affected_tools) == 1
            assert completed.affected_artifacts == done.affected_artifacts
            assert (await scene.runtime.rollback_thread(**asked)).repeated
            await scene.say("Third.", "t-3", approval_policy="deny")
            shown = said(scene, "t-3")
            assert "First." in shown
            assert "Second." not in shown
            assert "Two." in shown

    run(play)


@pytest.mark.parametrize("target", ["t-2", "nothing"])
def test_a_rollback_to_the_last_or_to_no_turn_is_refused(tmp_path: Path, target: str) -> None:
    async def play() -> None:
        async with stage(tmp_path, TALK) as scene:
            await scene.say("First.", "t-1")
            await scene.say("Second.", "t-2")
            count = len(scene.events())
            with pytest.raises(CommandRefused):
                await scene.runtime.rollback_thread(session_id=SESSION, thread_id=THREAD, turn_id=target)
            assert len(scene.events()) == count

    run(play)


def test_a_rollback_is_refused_while_a_turn_runs(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, WRITING) as scene:
            await scene.say("First.", "t-1")
            await scene.submit("Second.", "t-2")
            await scene.asked()
            with pytest.raises(CommandRefused, match="under way"):
                await scene.runtime.rollback_thread(session_id=SESSION, thread_id=THREAD, turn_id="t-1")

    run(play)


@pytest.mark.req("AR-150")
def test_a_history_that_does_not_fit_is_bounded_and_the_window_is_told(tmp_path: Path) -> None:
    async def play() -> None:
        models = catalogue(window=2_200)
        async with stage(tmp_path, TALK, catalogue=models) as scene:
            for number in range(6):
                await scene.say(f"Hello {number}.", f"t-{number}")
            window = scene.facts("history.window.loaded", "t-5")[0]
            assert window.has_more
            assert window.to_sequence > window.from_sequence > 1
            assert "earlier turns are not in the context" in scene.facts("context.resolved", "t-5")[0].warnings
            assert not scene.facts("history.window.loaded", "t-0")

    run(play)


def test_at_most_a_fixed_number_of_turns_is_read(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, "after_end: repeat\nturns: [{steps: [{text: Yes.}]}]") as scene:
            for number in range(HISTORY_TURNS + 3):
                await scene.say(f"Hello {number}.", f"t-{number}")
            last: Any = scene.facts("history.window.loaded")[-1]
            assert last.item_count == 2 * HISTORY_TURNS + 1
            assert len(scene.facts("history.window.loaded")) == 2

    run(play)
