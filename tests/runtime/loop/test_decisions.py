"""What waits for a person, and how each outcome is told."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.loop.driving import SESSION, Stage, run, stage

WRITE = """
turns:
  - steps:
      - tool_calls:
          - {name: write_file, arguments: {path: out.txt, content: hello}}
          - {name: read_file, arguments: {path: notes.txt}}
          - {name: read_file, arguments: {path: out.txt}}
      - text: Done.
"""

QUESTION = """
turns:
  - steps:
      - tool_calls: [{name: ask_user, arguments: {question: "Which colour?"}}]
      - text: Thanks.
  - steps:
      - tool_calls: [{name: ask_user, arguments: {question: "Which?", choices: [red, blue]}}]
      - text: Thanks again.
"""


def results(scene: Stage, turn_id: str = "t-1") -> list[tuple[str, bool]]:
    """What the model was told of its calls."""
    return [
        (part.text, part.is_error)
        for message in scene.talk(turn_id)
        if message.role == "tool"
        for part in message.parts
        if part.kind == "tool_result"
    ]


@pytest.mark.req("AR-81", "AR-82", "AR-233")
def test_a_write_that_asks_holds_up_only_what_depends_on_it(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, WRITE) as scene:
            (tmp_path / "ws" / "notes.txt").write_text("a note")
            await scene.submit("Go.", "t-1")
            await scene.asked()
            # The other file is read while the question is open; the written one only after the decision.
            state = await scene.until(lambda now: any(call.success for call in now.tool_calls.values()))
            assert state.turns["t-1"].status == "waiting_permission"
            await asyncio.sleep(0.05)
            assert sorted(call.tool_name or "" for call in scene.state.tool_calls.values() if call.started_at) == [
                "read_file"
            ]
            assert not (tmp_path / "ws" / "out.txt").exists()
            await scene.answer("allow")
            await scene.idle()
            assert [error for _, error in results(scene)] == [False, False, False]
            assert results(scene)[2] == ("hello", False)

    run(play)


def test_a_denied_write_is_not_made_and_the_model_is_told(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, WRITE) as scene:
            await scene.submit("Go.", "t-1")
            await scene.answer("deny", reason="not now")
            await scene.idle()
            resolved = scene.facts("permission.resolved")[0]
            assert (resolved.outcome, resolved.decision_source) == ("denied", "human")
            failed = next(fact for fact in scene.facts("tool.failed") if fact.tool_name == "write_file")
            assert failed.failure_category == "permission_denied"
            assert failed.permission.decision == "deny"
            assert "denied" in results(scene)[0][0]
            assert not (tmp_path / "ws" / "out.txt").exists()
            assert scene.state.turns["t-1"].status == "completed"

    run(play)


def test_when_the_time_is_up_nothing_is_allowed_and_both_facts_say_so(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, WRITE) as scene:
            await scene.say("Go.", "t-1", action_timeout_s=0.05)
            required, resolved = scene.facts("action.required")[0], scene.facts("action.resolved")[0]
            assert required.expires_at is not None
            assert required.default_decision == "deny"
            assert (resolved.decided_by, resolved.decision, resolved.status) == ("timeout", "deny", "timed_out")
            assert scene.facts("permission.resolved")[0].outcome == "timed_out"
            failed = [fact for fact in scene.facts("tool.failed") if fact.tool_name == "write_file"]
            assert [fact.failure_category for fact in failed] == ["permission_timed_out"]
            assert not (tmp_path / "ws" / "out.txt").exists()

    run(play)


@pytest.mark.parametrize(
    ("turn_options", "source"),
    [
        ({"interactive": False}, "rule"),
        ({"interactive": False, "approval_policy": "ask"}, "mode"),
        ({"approval_policy": "deny"}, "rule"),
        ({"sandbox_policy": "read_only"}, "sandbox"),
    ],
)
@pytest.mark.req("GAP-15")
def test_options_of_the_turn_deny_writing_without_asking(
    tmp_path: Path, turn_options: dict[str, Any], source: str
) -> None:
    async def play() -> None:
        async with stage(tmp_path, WRITE) as scene:
            await scene.say("Go.", "t-1", **turn_options)
            assert "action.required" not in scene.types()
            evaluated = next(fact for fact in scene.facts("permission.evaluated") if fact.tool_name == "write_file")
            assert (evaluated.decision, evaluated.decision_source) == ("deny", source)
            entries = {entry.tool_name: entry.policy for entry in scene.facts("tool.catalog.resolved")[0].tools}
            assert entries["write_file"] == "denied"
            assert entries["read_file"] == "allowed"
            assert not (tmp_path / "ws" / "out.txt").exists()

    run(play)


def test_a_question_brings_the_answer_to_the_model(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, QUESTION) as scene:
            await scene.submit("Ask.", "t-1")
            await scene.until(lambda now: now.turns["t-1"].status == "waiting_input")
            await scene.answer("answer", payload="green")
            await scene.idle()
            assert results(scene) == [("green", False)]
            await scene.submit("Ask again.", "t-2")
            await scene.answer("blue")
            await scene.idle()
            assert scene.facts("action.required")[1].decisions == ("red", "blue", "decline")
            assert results(scene, "t-2")[-1] == ("blue", False)

    run(play)


def test_a_question_that_is_declined_or_not_answered_is_an_explicit_outcome(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, QUESTION) as scene:
            await scene.submit("Ask.", "t-1")
            await scene.answer("decline")
            await scene.idle()
            await scene.say("Ask again.", "t-2", action_timeout_s=0.05)
            assert [fact.failure_category for fact in scene.facts("tool.failed")] == ["declined", "no_answer"]

    run(play)


def test_without_a_person_a_question_is_answered_at_once_with_that(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, QUESTION, interactive=False) as scene:
            await scene.say("Ask.", "t-1")
            assert "action.required" not in scene.types()
            assert scene.facts("permission.evaluated")[0].decision == "unavailable"
            assert scene.facts("tool.failed")[0].failure_category == "no_person"
            assert scene.state.turns["t-1"].status == "completed"

    run(play)


def test_only_one_answer_counts(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, WRITE) as scene:
            await scene.submit("Go.", "t-1")
            action_id = await scene.asked()
            answers = await asyncio.gather(
                *(
                    scene.runtime.respond_action(session_id=SESSION, action_id=action_id, decision=decision)
                    for decision in ("deny", "allow")
                ),
                return_exceptions=True,
            )
            await scene.idle()
            assert sum(isinstance(answer, Exception) for answer in answers) == 1
            assert len(scene.facts("action.resolved")) == 1

    run(play)
