"""The session's own notes: kept as facts, seen in every later turn and thread, whatever is summed up meanwhile."""

from pathlib import Path

import orjson
import pytest

from runtime.loop.conversation import MEMORY_CHARACTERS, Reader
from tests.runtime.loop.driving import SESSION, THREAD, Stage, run, stage
from views.state import fold

NOTE = "The person wants tabs, not blanks."
SUMMARY = "They talked about the weather."
SCRIPT = f"""
after_end: repeat
turns:
  - when: {{contains: Sum up this conversation}}
    steps: [{{text: {SUMMARY}}}]
  - when: {{contains: Keep this}}
    steps:
      - tool_calls: [{{name: remember, arguments: {{note: "{NOTE}"}}}}]
      - text: I keep it.
  - when: {{contains: Keep much}}
    steps:
      - tool_calls:
          - {{name: remember, arguments: {{note: "{"a" * 1_900}"}}}}
          - {{name: remember, arguments: {{note: "{"b" * 1_900}"}}}}
          - {{name: remember, arguments: {{note: "{"c" * 1_900}"}}}}
          - {{name: remember, arguments: {{note: "{"d" * 1_900}"}}}}
      - text: I keep it all.
  - steps: [{{text: Yes.}}]
"""


def seen(scene: Stage, turn_id: str, thread_id: str = THREAD) -> str:
    """Everything the model gets to see for a turn, from the record alone."""
    reader = Reader(scene.runtime.texts, scene.runtime.tools)
    return " ".join(message.text for message in reader.read(scene.state, thread_id, turn_id, "").messages)


def sent(scene: Stage, turn_id: str) -> list[str]:
    """The notes that were sent with the first request of a turn."""
    request = scene.facts("model.requested", turn_id)[0]
    refs: list[str] = orjson.loads(scene.text(request.request_ref))["memory_refs"]
    return [scene.text(ref) for ref in refs]


@pytest.mark.req("GAP-8")
def test_a_note_outlives_compaction_a_restart_and_the_thread_it_was_made_in(tmp_path: Path) -> None:
    async def begin() -> None:
        async with stage(tmp_path, SCRIPT) as scene:
            await scene.say("Keep this.", "t-1")
            assert sent(scene, "t-1") == []
            await scene.runtime.compact_thread(session_id=SESSION, thread_id=THREAD)
            await scene.idle()
            await scene.say("Go on.", "t-2")
            shown = seen(scene, "t-2")
            assert SUMMARY in shown
            assert "I keep it." not in shown
            assert NOTE in shown
            assert sent(scene, "t-2") == [NOTE]
            allowed = scene.facts("permission.evaluated", "t-1")[0]
            assert (allowed.decision, allowed.rule_refs) == ("allow", ("builtin:noting-is-allowed",))

    async def again() -> None:
        async with stage(tmp_path, SCRIPT) as scene:
            await scene.say("Go on.", "t-3")
            (ref,) = scene.facts("context.resolved", "t-3")[0].memory_refs
            assert scene.text(ref) == NOTE
            assert sent(scene, "t-3") == [NOTE]
            await scene.runtime.submit_turn(
                session_id=SESSION, thread_id="other", turn_id="t-4", input=[{"text": "And you?"}]
            )
            await scene.idle()
            assert sent(scene, "t-4") == [NOTE]
            assert fold(scene.events()).memory() == scene.state.memory()

    run(begin)
    run(again)


@pytest.mark.req("GAP-8")
def test_a_note_of_a_turn_that_is_taken_back_is_gone_and_the_same_note_twice_is_one(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, SCRIPT) as scene:
            await scene.say("Hello.", "t-1")
            await scene.say("Keep this.", "t-2")
            await scene.say("Keep this too.", "t-3")
            await scene.say("Go on.", "t-4")
            assert len(scene.state.memory()) == 2
            assert sent(scene, "t-4") == [NOTE]
            await scene.runtime.rollback_thread(session_id=SESSION, thread_id=THREAD, turn_id="t-1")
            await scene.say("Go on.", "t-5")
            assert sent(scene, "t-5") == []

    run(play)


def test_older_notes_give_way_and_that_is_told(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, SCRIPT) as scene:
            await scene.say("Keep this.", "t-1")
            await scene.say("Keep much.", "t-2")
            await scene.say("Keep this as well.", "t-3")
            await scene.say("Go on.", "t-4")
            kept = sent(scene, "t-4")
            assert kept[-1] == NOTE
            assert sum(map(len, kept)) <= MEMORY_CHARACTERS
            assert [note[0] for note in kept[:-1]] == ["a", "b", "c", "d"]
            await scene.say("Keep much more.", "t-5")  # the same notes again are not more
            await scene.say("Go on.", "t-6")
            assert not scene.facts("context.resolved", "t-6")[0].warnings

    run(play)


def test_more_notes_than_there_is_room_for_are_told_as_left_out(tmp_path: Path) -> None:
    script = SCRIPT.replace("a" * 1_900, "A" * 1_999).replace("b" * 1_900, "B" * 1_999)
    script = script.replace("c" * 1_900, "C" * 1_999).replace("d" * 1_900, "D" * 1_999)

    async def play() -> None:
        async with stage(tmp_path, script) as scene:
            await scene.say("Keep this.", "t-1")
            await scene.say("Keep much.", "t-2")
            await scene.say("Go on.", "t-3")
            assert [note[0] for note in sent(scene, "t-3")] == ["A", "B", "C", "D"]
            warnings = scene.facts("context.resolved", "t-3")[0].warnings
            assert warnings == ("1 older notes are not in the context",)

    run(play)
