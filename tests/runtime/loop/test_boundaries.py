"""Where a history was cut or summed up is on record, and an old session is restored from that record alone."""

from pathlib import Path
from typing import Any

import pytest

import store
from runtime.loop.conversation import Reader
from runtime.providers.provider import Message
from runtime.runtime import Runtime
from tests.runtime.loop.driving import SESSION, THREAD, Stage, catalogue, options, run, stage
from tests.runtime.routing.scenarios import keep
from views.facts import events_of
from views.state import fold

SUMMARY = "They greeted each other."
TALK = f"""
after_end: repeat
turns:
  - when: {{contains: Sum up this conversation}}
    steps: [{{text: {SUMMARY}}}]
  - when: {{contains: Write}}
    steps:
      - tool_calls: [{{name: write_file, arguments: {{path: out.txt, content: hello}}}}]
      - text: Written.
  - steps: [{{text: Good day.}}]
"""


def conversation(scene: Stage, turn_id: str) -> list[Message]:
    """What the model gets for a turn, by the record."""
    reader = Reader(scene.runtime.texts, scene.runtime.tools)
    return reader.read(scene.state, THREAD, turn_id, "").messages


async def cut_and_summed_up(scene: Stage) -> None:
    """A session with a compaction, a rollback, and a turn that waits for a person."""
    for number in (1, 2):
        await scene.say(f"Hello {number}.", f"t-{number}")
    await scene.runtime.compact_thread(session_id=SESSION, thread_id=THREAD, idempotency_key="compact")
    await scene.idle()
    for number in (3, 4):
        await scene.say(f"Hello {number}.", f"t-{number}")
    await scene.runtime.rollback_thread(session_id=SESSION, thread_id=THREAD, turn_id="t-3")
    await scene.submit("Write.", "t-5")
    await scene.asked()


@pytest.mark.req("AR-10", "GAP-19")
def test_an_old_session_is_restored_with_its_boundaries_and_the_model_sees_the_same(tmp_path: Path) -> None:
    async def begin() -> tuple[Any, list[Message]]:
        async with stage(tmp_path, TALK) as scene:
            await cut_and_summed_up(scene)
            return scene.state, conversation(scene, "t-5")

    async def again() -> None:
        async with stage(tmp_path, TALK) as scene:
            state = scene.state
            assert (state.compactions, state.rollbacks) == (before.compactions, before.rollbacks)
            assert conversation(scene, "t-5") == shown
            boundary = next(iter(state.compactions.values()))
            restored = scene.facts("history.reconstructed")[-1]
            assert restored.baseline_ref == boundary.summary_ref
            assert scene.text(restored.baseline_ref) == SUMMARY
            assert (restored.up_to_sequence, restored.event_count) == (before.sequence, before.event_count)
            assert (restored.degraded, restored.unresolved_actions) == (False, tuple(before.actions))
            await scene.answer("deny")
            await scene.idle()
            assert scene.state.turns["t-5"].status == "completed"
            keep(tmp_path / "home", scene.events())
            with store.open(tmp_path / "home") as reader:
                assert fold(events_of(reader.facts(SESSION))) == scene.state

    before, shown = run(begin)
    words = " ".join(message.text for message in shown)
    assert SUMMARY in words
    assert "Hello 3." in words
    assert not any(f"Hello {gone}." in words for gone in (1, 2, 4))
    (compaction,) = before.compactions.values()
    assert compaction.affected_turns == ("t-1", "t-2")
    (rollback,) = before.rollbacks.values()
    assert (rollback.target, rollback.removed_turns, rollback.surviving_baseline) == ("t-3", ("t-4",), "t-3")
    run(again)


@pytest.mark.req("AR-10")
def test_a_session_whose_summary_is_lost_says_so_and_goes_on(tmp_path: Path) -> None:
    async def begin() -> str:
        async with stage(tmp_path, TALK) as scene:
            await cut_and_summed_up(scene)
            return str(next(iter(scene.state.compactions.values())).summary_ref)

    async def again() -> None:
        async with stage(tmp_path, TALK) as scene:
            restored = scene.facts("history.reconstructed")[-1]
            assert (restored.degraded, restored.status, restored.unrecoverable_refs) == (True, "degraded", (lost,))
            assert restored.baseline_ref == lost
            await scene.answer("deny")
            await scene.idle()
            assert scene.state.turns["t-5"].status == "completed"

    lost = run(begin)
    for file in (tmp_path / "rt" / "contents").rglob(f"*{lost[10:30]}*"):
        file.unlink()
    run(again)


SETTLED = """
turns:
  - steps:
      - text: ["I ", "begin. "]
        delay_ms: 100
        tool_calls: [{name: write_file, arguments: {path: out.txt, content: hello}}]
      - text: Another step.
        tool_calls: [{name: list_files}]
      - text: Too far.
"""


@pytest.mark.req("GAP-19")
def test_a_turn_that_was_cut_off_goes_on_under_the_settings_it_was_submitted_with(tmp_path: Path) -> None:
    async def cut() -> None:
        async with stage(tmp_path, SETTLED, catalogue=catalogue("first", "second")) as scene:
            given = {"model": "scripted/second", "approval_policy": "deny", "max_steps": 2, "instructions": "Be brief."}
            await scene.submit("Go.", "t-1", **given)
            await scene.until(lambda state: any(call.deltas for call in state.model_calls.values()))

    async def again() -> None:
        # Another runtime with other defaults: what the turn was submitted with is on record, and holds.
        told = options(tmp_path / "ws", SETTLED, catalogue=catalogue("first", "third", "second"), interactive=True)
        async with await Runtime.open(tmp_path / "rt", told) as runtime:
            scene = Stage(runtime)
            await scene.idle()
            turn = scene.state.turns["t-1"]
            assert turn.options is not None
            assert (turn.options["approval_policy"], turn.options["instructions"]) == ("deny", "Be brief.")
            assert {fact.model_name for fact in scene.facts("model.requested")} == {"second"}
            assert [fact.failure_category for fact in scene.facts("tool.failed")] == ["permission_denied"]
            assert not (tmp_path / "ws" / "out.txt").exists()
            assert (turn.status, turn.stop_reason) == ("completed", "max_steps")
            system = scene.text(scene.facts("context.resolved")[0].context_refs[0])
            assert system.endswith("Be brief.")

    run(cut)
    run(again)
