"""The life of a task: taken, tried, blocked, waited for, retried, cancelled, lost, completed, and never by hearsay."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from models.errors import CommandRefused, IllegalTransition
from runtime.runtime import Runtime
from runtime.tasks.watching import end_late_tasks
from tests.runtime.stage import event_types, options, ticking_clock
from tests.runtime.test_replay import working


def with_runtime(folder: Path, play: Callable[[Runtime], Awaitable[None]], **given: Any) -> None:
    """Play something on a runtime that carries out no turns."""

    async def run() -> None:
        chosen = options(folder / "workspace", **({"work": False} | given))
        async with await Runtime.open(folder, chosen) as runtime:
            await play(runtime)

    asyncio.run(run())


async def make(runtime: Runtime, *names: str, **more: Any) -> None:
    for name in names:
        await runtime.create_task(session_id="s", task_id=name, objective=f"do {name}", **more)


async def do(runtime: Runtime, command: str, task_id: str, **more: Any) -> Any:
    return (await runtime.call(command, {"session_id": "s", "task_id": task_id, **more})).task  # type: ignore[attr-defined]  # an answer about a task


@pytest.mark.req("AR-12", "AR-53", "AR-123", "AR-160", "AR-166", "AR-229", "GAP-35")
def test_a_task_completes_only_when_the_facts_on_record_agree(tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        criteria = [{"description": "the tests pass"}, {"description": "it is pretty", "required": False}]
        await make(runtime, "whole", acceptance=criteria, owner="me")
        await make(runtime, "part", parent_task_id="whole")
        started = await do(runtime, "start_task", "whole")
        assert (started.status, len(started.attempts), started.owner) == ("running", 1, "me")
        await do(runtime, "append_task_progress", "whole", progress={"phase": "working", "output_refs": ["sha256:1"]})
        with pytest.raises(CommandRefused) as refused:
            await do(
                runtime, "complete_task", "whole", artifact_ids=["nowhere"], evidence_refs=["proof"],
            )  # fmt: skip
        for missing in ("part part is accepted", "nowhere is not on record", "proof is not on record", "criterion_1"):
            assert missing in refused.value.message
        assert "criterion_2" not in refused.value.message
        await do(runtime, "start_task", "part")
        await do(runtime, "complete_task", "part")
        await runtime.record_evidence(
            session_id="s", evidence_id="proof", evidence_kind="verification", ref="file:report", task_id="whole"
        )
        done = await do(runtime, "complete_task", "whole", evidence_refs=["proof"], criteria={"criterion_1": "met"})
        assert (done.status, done.attempts[0].status) == ("completed", "completed")
        assert {one.criterion_id: one.status for one in done.acceptance} == {
            "criterion_1": "met",
            "criterion_2": "pending",
        }
        assert runtime.kernel.state("s").tasks["part"].delivery_state == "delivered"

    with_runtime(tmp_path, play)


@pytest.mark.req("AR-52", "AR-57", "AR-122")
def test_a_task_is_blocked_by_name_and_released_when_the_last_blocker_is_completed(tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        await make(runtime, "a", "b")
        await make(runtime, "c", depends_on=["a", "b"])
        blocked = (await runtime.get_task(session_id="s", task_id="c")).task
        assert (blocked.status, runtime.kernel.state("s").tasks["c"].blocker_id) == ("blocked", "a")
        for name, status in (("a", "blocked"), ("b", "queued")):
            await do(runtime, "start_task", name)
            await do(runtime, "complete_task", name)
            assert runtime.kernel.state("s").tasks["c"].status == status
        assert {edge.status for edge in runtime.kernel.state("s").edges_of("c")} == {"satisfied"}
        with pytest.raises(CommandRefused, match="circle"):
            await runtime.link_tasks(session_id="s", task_id="a", kind="blocked_by", target_id="c")

    with_runtime(tmp_path, play)


@pytest.mark.req("AR-60", "AR-125", "AR-165", "GAP-20")
def test_tries_before_are_kept_and_a_policy_ends_them(tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        await make(runtime, "a")
        policy = {"max_attempts": 2, "non_retryable_errors": ["hopeless"]}
        await do(runtime, "start_task", "a", retry_policy=policy, worker={"worker_id": "w-1", "kind": "remote"})
        await do(runtime, "fail_task", "a", message="no", failure_category="timeout")
        again = await do(runtime, "retry_task", "a", reason="once more")
        assert [attempt.status for attempt in again.attempts] == ["failed", "running"]
        assert again.attempts[0].worker.worker_id == "w-1"
        assert again.attempts[0].run_id != again.attempts[1].run_id
        await do(runtime, "fail_task", "a", message="no", failure_category="hopeless")
        with pytest.raises(CommandRefused, match="allows no more"):
            await do(runtime, "retry_task", "a")

    with_runtime(tmp_path, play)


@pytest.mark.req("AR-61", "AR-62", "AR-164")
def test_cancelling_is_wished_first_reaches_the_parts_and_starts_no_new_ones(tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        await make(runtime, "top")
        await make(runtime, "mid", parent_task_id="top")
        await make(runtime, "low", parent_task_id="mid")
        await make(runtime, "done", parent_task_id="top")
        for name in ("top", "low", "done"):
            await do(runtime, "start_task", name)
        await do(runtime, "complete_task", "done")
        before = len(event_types(runtime))
        await do(runtime, "cancel_task", "top", reason="enough")
        told = [(e.type, e.task_id) for e in runtime.kernel.events("s", before) if e.type.startswith("task.cancel")]
        assert told[:3] == [("task.cancel_requested", name) for name in ("top", "low", "mid")]
        assert [name for kind, name in told if kind == "task.cancelled"] == ["low", "mid", "top"]
        state = runtime.kernel.state("s")
        assert {name: state.tasks[name].status for name in ("top", "mid", "low", "done")} == {
            "top": "cancelled", "mid": "cancelled", "low": "cancelled", "done": "completed",
        }  # fmt: skip
        with pytest.raises(CommandRefused, match="no new parts"):
            await make(runtime, "late", parent_task_id="top")

    with_runtime(tmp_path, play)


@pytest.mark.req("AR-63")
@pytest.mark.parametrize(("budget", "kind"), [({"budget_s": 5}, "time"), ({"inactivity_s": 5}, "inactivity")])
def test_a_budget_of_time_or_inactivity_ends_a_task(tmp_path: Path, budget: dict[str, float], kind: str) -> None:
    async def play(runtime: Runtime) -> None:
        await make(runtime, "a", constraints={"time": budget})
        await make(runtime, "b")
        for name in ("a", "b"):
            await do(runtime, "start_task", name)
        assert await end_late_tasks(runtime, "s") == ["a"]
        last = list(runtime.kernel.events("s"))[-1]
        assert (last.type, last.payload.budget_kind) == ("task.timed_out", kind)  # type: ignore[attr-defined]  # of this type
        assert runtime.kernel.state("s").tasks["b"].status == "running"

    with_runtime(tmp_path, play, clock=ticking_clock(step_ms=2_000))


@pytest.mark.req("AR-65", "AR-151")
def test_after_a_restart_a_task_whose_worker_nobody_can_prove_alive_is_lost_and_can_be_tried_again(
    tmp_path: Path,
) -> None:
    async def begin(runtime: Runtime) -> None:
        await make(runtime, "a", "b")
        await do(runtime, "start_task", "a")

    async def look(runtime: Runtime) -> None:
        state = runtime.kernel.state("s")
        assert (state.tasks["a"].status, state.tasks["b"].status) == ("lost", "accepted")
        assert event_types(runtime)[-2:] == ["history.reconstructed", "task.lost"]
        again = await do(runtime, "retry_task", "a")
        assert (again.status, len(again.attempts)) == ("running", 2)

    with_runtime(tmp_path, begin)
    with_runtime(tmp_path, look, work=True)


@pytest.mark.req("AR-56", "AR-217", "AR-218")
def test_a_task_waits_while_its_turn_waits_for_a_person(tmp_path: Path) -> None:
    async def run() -> None:
        async with await Runtime.open(tmp_path, working(tmp_path)) as runtime:
            await make(runtime, "a")
            await do(runtime, "start_task", "a")
            await runtime.submit_turn(session_id="s", input=[{"text": "write it"}], options={"task_id": "a"})
            state = await runtime.kernel.until("s", lambda now: now.tasks["a"].status == "waiting_permission")
            with pytest.raises(CommandRefused, match="is open"):
                await do(runtime, "complete_task", "a")
            action = state.open_actions()[0]
            await runtime.respond_action(session_id="s", action_id=action.action_id, decision="allow")
            await runtime.engine.idle()
            kinds = [e for e in event_types(runtime) if e in ("task.waiting", "action.resolved", "task.resumed")]
            assert kinds == ["task.waiting", "action.resolved", "task.resumed"]
            # The turn went well, and still the task is not complete before its owner says so.
            assert runtime.kernel.state("s").tasks["a"].status == "running"
            assert (await do(runtime, "complete_task", "a")).status == "completed"

    asyncio.run(run())


def test_an_illegal_transition_names_what_may_follow(tmp_path: Path) -> None:
    async def play(runtime: Runtime) -> None:
        await make(runtime, "a")
        with pytest.raises(IllegalTransition) as refused:
            await do(runtime, "complete_task", "a")
        assert "task.queued" in refused.value.allowed

    with_runtime(tmp_path, play)
