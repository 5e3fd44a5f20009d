"""Turns and their queue: one at a time per thread, in order, held after an interrupt, on record with their settings."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from models.payloads.turn import TurnSubmitted
from runtime.runtime import Runtime
from tests.runtime.stage import event_types
from tests.runtime.test_replay import turn, working


@pytest.mark.req("AR-42", "AR-44", "AR-47", "AR-48", "GAP-15", "GAP-22")
def test_a_turn_begins_its_session_and_tells_under_which_settings_it_is_carried_out(tmp_path: Path) -> None:
    async def run() -> None:
        async with await Runtime.open(tmp_path, working(tmp_path)) as runtime:
            options = {"sandbox_policy": "read_only", "approval_policy": "deny", "instructions": "be brief"}
            await runtime.submit_turn(
                session_id="s", input=[{"text": "look"}], options=options, metadata={"ticket": 7}, title="A title"
            )
            await runtime.engine.idle()
            told = list(runtime.kernel.events("s"))
            assert [event.type for event in told[:4]] == [
                "session.created", "thread.started", "turn.submitted", "turn.started",
            ]  # fmt: skip
            assert told[-1].type == "turn.completed"
            submitted = told[2].payload
            assert isinstance(submitted, TurnSubmitted)
            snapshot = submitted.options or {}
            assert snapshot["workspace"] == str(tmp_path / "workspace")
            assert (snapshot["sandbox_policy"], snapshot["approval_policy"]) == ("read_only", "deny")
            assert {"provider_routing", "tool_policy", "prompt_augmentation"} <= set(snapshot)
            assert submitted.metadata == {"ticket": 7}

    asyncio.run(run())


@pytest.mark.req("AR-156", "AR-157", "AR-234")
def test_an_interrupt_holds_the_queue_across_a_restart_until_the_thread_is_resumed(tmp_path: Path) -> None:
    async def begin() -> None:
        async with await Runtime.open(tmp_path, working(tmp_path)) as runtime:
            for number in range(3):
                await runtime.submit_turn(session_id="s", turn_id=f"t{number}", input=[{"text": "write it"}])
            await runtime.kernel.until("s", lambda state: bool(state.open_actions()))
            await runtime.interrupt_turn(session_id="s", reason="stop")
            await runtime.engine.idle()
            state = runtime.kernel.state("s")
            assert (state.turns["t0"].status, state.queues[one(state)].resume_state) == ("cancelled", "held")

    async def resume() -> None:
        async with await Runtime.open(tmp_path, working(tmp_path)) as runtime:
            await runtime.engine.idle()
            state = runtime.kernel.state("s")
            assert [queued.queued_turn_id for queued in state.queue(one(state))] == ["t1", "t2"]
            await runtime.promote_queued_turn(session_id="s", queued_turn_id="t2")
            answer = await runtime.resume_thread(session_id="s", thread_id=one(state))
            assert (answer.outcome, answer.turn_id) == ("resumed", "t2")
            await runtime.kernel.until("s", lambda now: now.turns["t2"].started_at is not None)

    asyncio.run(begin())
    asyncio.run(resume())


def one(state: Any) -> str:
    """The only thread."""
    return str(next(iter(state.lane("threads"))))


def test_a_queue_emptied_by_hand_after_an_interrupt_holds_nothing_back_any_more(tmp_path: Path) -> None:
    async def run() -> None:
        async with await Runtime.open(tmp_path, working(tmp_path)) as runtime:
            for name in ("a", "b"):
                await runtime.submit_turn(session_id="s", turn_id=name, input=[{"text": "write it"}])
            await runtime.kernel.until("s", lambda state: bool(state.open_actions()))
            await runtime.interrupt_turn(session_id="s")
            await runtime.engine.idle()
            await runtime.remove_queued_turn(session_id="s", queued_turn_id="b")
            for name in ("c", "d"):
                await runtime.submit_turn(session_id="s", turn_id=name, input=[{"text": "look"}])
            await runtime.engine.idle()
            state = runtime.kernel.state("s")
            assert [state.turns[name].status for name in "abcd"] == ["cancelled", "cancelled", "completed", "completed"]

    asyncio.run(run())


@pytest.mark.req("AR-99")
def test_a_fault_of_the_runtime_ends_the_turn_as_such_and_the_next_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with await Runtime.open(tmp_path, working(tmp_path)) as runtime:
            with monkeypatch.context() as broken:
                broken.setattr("runtime.loop.turn_run.TurnRun._prepare", _broken)
                await turn(runtime, 0)
            assert event_types(runtime)[-2:] == ["runtime.error", "turn.failed"]
            assert "secret" not in "".join(event.to_json().decode() for event in runtime.kernel.events("s"))
            await turn(runtime, 1)
            assert event_types(runtime)[-1] == "turn.completed"

    asyncio.run(run())


async def _broken(*_: object) -> None:
    raise ZeroDivisionError("a secret detail")


@pytest.mark.req("AR-150", "AR-154", "AR-175", "AR-236")
def test_a_long_session_is_restored_from_its_snapshot_and_read_in_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runtime.checkpoints.FIRST_AFTER", 100)

    async def begin() -> Any:
        async with await Runtime.open(tmp_path, working(tmp_path)) as runtime:
            for number in range(8):
                await turn(runtime, number)
            await runtime.create_task(session_id="s", task_id="open", objective="keeps the session unfinished")
            return runtime.kernel.state("s")

    async def again(repaired: bool) -> None:
        async with await Runtime.open(tmp_path, working(tmp_path)) as runtime:
            told = event_types(runtime, after=before.sequence)
            assert ("snapshot.repaired" in told) == repaired
            assert runtime.kernel.state("s").turns == before.turns
            newest = await runtime.get_session(session_id="s", window=5)
            older = await runtime.get_session(session_id="s", window=5, before=int(newest.history_cursor))
            assert len(newest.recent_steps) == len(older.recent_steps) == 5
            assert not {step.step_id for step in newest.recent_steps} & {step.step_id for step in older.recent_steps}

    before = asyncio.run(begin())
    (snapshot,) = (tmp_path / "states").glob("*.state")
    asyncio.run(again(repaired=False))
    snapshot.write_bytes(snapshot.read_bytes()[:-7])
    asyncio.run(again(repaired=True))
