"""Nothing is seen of a session before it is a fact on disk, and whatever is seen names the fact it comes from."""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from models.errors import TachographError
from models.event import Event
from runtime.control.command import TABLE
from runtime.runtime import Runtime
from tests.runtime.loop.driving import SESSION, THREAD, Stage, options, run, stage
from tests.runtime.stage import staged

SCRIPT = """
after_end: repeat
turns:
  - steps:
      - text: ["I will ", "write. "]
        tool_calls: [{name: write_file, arguments: {path: out.txt, content: hello}}]
      - text: Done.
"""
OWNED = {"event_id", "sequence", "timestamp", "runtime_id", "request_id", "status", "schema_version"}
"""What only the runtime sets."""


def on_disk(folder: Path) -> int:
    """How many records another program finds in the runtime's journal."""
    (file,) = (folder / "journal").glob("segment-*.sqlite")
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        return int(connection.execute("select count(*) from records").fetchone()[0])


@pytest.mark.req("AR-1")
def test_every_reader_is_told_of_a_fact_only_when_it_is_on_disk(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, SCRIPT) as scene:
            behind: list[int] = []
            followed: list[str] = []
            misplaced: list[str] = []

            def listen(events: Sequence[Event]) -> None:
                told = scene.state.sequence or 0
                behind.append(told - on_disk(tmp_path / "rt"))
                newest = [event.event_id for event in scene.events()][-len(events) :]
                misplaced.extend(one.type for at, one in zip(newest, events, strict=True) if at != one.event_id)

            async def follow() -> None:
                async for event in scene.runtime.kernel.follow(SESSION):
                    behind.append((event.sequence or 0) - on_disk(tmp_path / "rt"))
                    followed.append(event.type)
                    if event.type == "turn.completed":
                        return

            scene.runtime.kernel.on_facts.append(listen)
            await scene.submit("Go.", "t-1")
            following = asyncio.create_task(follow())
            await scene.submit("Go on.", "t-2")
            await scene.answer("allow")
            await asyncio.wait_for(following, 10)
            assert len(behind) > 40
            assert max(behind) <= 0
            assert misplaced == []
            assert {"turn.submitted", "queue.changed", "action.required", "action.resolved"} <= set(followed)

    run(play)


@pytest.mark.req("AR-1")
def test_what_is_shown_of_identity_status_order_queue_and_actions_names_its_fact(tmp_path: Path) -> None:
    async def play() -> None:
        async with await staged(tmp_path / "runtime") as runtime:
            state = runtime.kernel.state("s")
            facts: dict[str, Event] = {event.event_id: event for event in runtime.kernel.events("s")}
            assert [event.sequence for event in facts.values()] == list(range(1, len(facts) + 1))
            paths = [("session", "status"), ("session", "title"), ("queues", "t", "queued_turns")]
            paths += [("threads", "t", name) for name in ("status", "active_turn_id")]
            paths += [("turns", turn, "status") for turn in state.turns]
            paths += [("actions", "action-1", name) for name in ("status", "decisions")]
            paths += [("tasks", task, "status") for task in state.tasks]
            for path in paths:
                source = state.source(path)
                assert source is not None, path
                assert (facts[source.event_id].sequence, facts[source.event_id].type) == source[1:]

    run(play)


@pytest.mark.req("AR-1")
def test_a_change_that_cannot_be_recorded_does_not_happen(tmp_path: Path) -> None:
    async def play() -> None:
        runtime = await staged(tmp_path / "runtime")
        heard: list[object] = []
        runtime.kernel.on_facts.append(heard.append)
        before = runtime.kernel.state("s")
        runtime.telemetry.journal.close()
        changes = {
            "submit_turn": {"session_id": "s", "input": [{"text": "more"}]},
            "promote_queued_turn": {"session_id": "s", "queued_turn_id": "turn-3"},
            "respond_action": {"session_id": "s", "action_id": "action-1", "decision": "allow"},
            "cancel_task": {"session_id": "s", "task_id": "task-1"},
        }
        for name, content in changes.items():
            with pytest.raises(TachographError):
                await asyncio.wait_for(runtime.call(name, content), 10)
        assert heard == []
        assert runtime.kernel.state("s") == before
        await runtime.close()

    run(play)


@pytest.mark.req("AR-1")
def test_no_command_lets_its_caller_name_what_the_runtime_owns() -> None:
    writing = {name: command for name, command in TABLE.items() if command.effect == "writes"}
    taken = {name: OWNED & set(command.asks.model_fields) for name, command in writing.items()}
    assert {name: fields for name, fields in taken.items() if fields} == {}


@pytest.mark.req("AR-1")
def test_a_turn_that_no_fact_tells_of_is_not_carried_out(tmp_path: Path) -> None:
    """What the engine does next follows from the facts: waking it without any leads to nothing."""

    async def play() -> None:
        async with await Runtime.open(tmp_path / "rt", options(tmp_path / "ws", SCRIPT)) as runtime:
            scene = Stage(runtime)
            await scene.say("Go.", "t-1", approval_policy="deny")
            count = len(scene.events())
            runtime.engine.wake(SESSION, THREAD)
            await scene.idle()
            assert len(scene.events()) == count

    run(play)
