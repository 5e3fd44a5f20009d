"""A session as items: the same facts, each piece of work begun once, updated, and ended once."""

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from models.event import Correlation
from models.payload import Payload
from models.payloads.process import ProcessCompleted, ProcessOutput, ProcessStarted
from models.payloads.tool import ToolFailed, ToolProgress, ToolResult, ToolStarted
from models.payloads.turn import TurnFailed
from runtime.control.serving import served, token_of
from runtime.kernel import Draft
from runtime.runtime import Runtime
from tests.runtime.loop.driving import SESSION, run, stage
from tests.runtime.stage import staged

SCRIPT = """
turns:
  - steps:
      - reasoning: ["I look ", "first."]
        reasoning_summary: It looks.
        text: ["Let me ", "look."]
        tool_calls:
          - {name: list_files}
          - {name: write_file, arguments: {path: out.txt, content: hello}}
          - {name: fly}
      - reasoning: ["Enough."]
        text: Done.
  - steps: [{error: {category: invalid_request}}]
"""

Told = tuple[int | None, dict[str, Any]]


async def items(runtime: Runtime, session_id: str, last: str, after: int = 0) -> list[Told]:
    """The items of a session up to a fact of this type, as the stream gives them, each with its number."""
    found: list[Told] = []
    number: int | None = None
    headers = {"authorization": f"Bearer {token_of(runtime.folder)}"}
    route = f"{runtime.address}/v1/sessions/{session_id}/events?view=items&after={after}"
    async with httpx.AsyncClient() as client, client.stream("GET", route, headers=headers, timeout=10) as answer:
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            if line.startswith("id: "):
                number = int(line.removeprefix("id: "))
            elif line.startswith("data: "):
                found.append((number, orjson.loads(line.removeprefix("data: "))))
                number = None
                if found[-1][1]["type"] == last:
                    break
    return found


def lives(told: list[Told]) -> dict[str, list[dict[str, Any]]]:
    """What is told of each item, in order."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for _, one in told:
        if "item" in one:
            found[one["item"]["id"]].append(one)
    return found


def check_lives(told: list[Told]) -> None:
    """Each item begins once, at first, and ends once, at last."""
    for name, life in lives(told).items():
        stages = [one["type"] for one in life]
        assert stages[0] == "item.started", name
        assert stages[-1] == "item.completed", name
        assert set(stages[1:-1]) <= {"item.updated"}, name
        assert len({one["item"]["type"] for one in life}) == 1, name


@pytest.mark.req("GAP-13", "GAP-14")
def test_a_turn_is_told_as_items_that_begin_and_end_once(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, SCRIPT) as scene, served(scene.runtime):
            await scene.submit("Go.", "t-1")
            await scene.answer("allow")
            await scene.idle()
            await scene.say("Go on.", "t-2")
            told = await items(scene.runtime, SESSION, "turn.failed")
            check_lives(told)
            around = [one["type"] for _, one in told if "item" not in one]
            assert around == ["thread.started", "turn.started", "turn.completed", "turn.started", "turn.failed"]
            kinds = sorted(life[0]["item"]["type"] for life in lives(told).values())
            assert kinds == [
                *("agent_message", "agent_message", "agent_message", "file_change", "file_change"),
                *("function_call", "reasoning", "reasoning", "unknown"),
            ]
            thought = next(life for life in lives(told).values() if life[0]["item"]["type"] == "reasoning")
            assert "".join(one["item"]["payload"].get("text", "") for one in thought[1:]) == "I look first."
            turns = {one["turn_id"] for _, one in told if "item" in one}
            assert turns == {"t-1", "t-2"}
            for number in [number for number, _ in told if number is not None]:
                rest = [one for at, one in enumerate(told) if at > [n for n, _ in told].index(number)]
                again = await items(scene.runtime, SESSION, "turn.failed", number) if rest else []
                assert again == rest, f"after fact {number}"

    run(play)


@pytest.mark.req("GAP-13")
def test_what_an_interrupted_turn_left_open_is_ended_with_it(tmp_path: Path) -> None:
    script = "turns:\n  - steps: [{reasoning: ['I ', 'think '], text: ['a ', 'b ', 'c '], delay_ms: 100}]\n"

    async def play() -> None:
        async with stage(tmp_path, script) as scene, served(scene.runtime):
            await scene.submit("Go.", "t-1")
            following = asyncio.create_task(items(scene.runtime, SESSION, "turn.failed"))
            await scene.until(lambda now: any(call.deltas for call in now.model_calls.values()))
            await scene.runtime.interrupt_turn(session_id=SESSION)
            check_lives(await following)

    run(play)


def call_facts(kind: str) -> list[Payload]:
    """A call of a tool of one kind."""
    names = {"tool_name": f"a {kind}", "item_kind": kind}
    return [
        ToolStarted(**names, runtime_owner="mcp", status="running"),
        ToolProgress(**names, message="half", progress=1, total=2),
        ToolResult(**names, success=True, duration_ms=1.0, status="completed"),
    ]


TOOL_KINDS = ("command_execution", "file_change", "mcp_tool_call", "web_search", "image_generation", "todo_list")


@pytest.mark.req("GAP-14")
def test_every_kind_of_work_is_an_item_of_its_kind(tmp_path: Path) -> None:
    async def play() -> None:
        runtime = await staged(tmp_path / "runtime")
        async with runtime, served(runtime):
            ids = Correlation(thread_id="t", turn_id="turn-1")
            for kind in TOOL_KINDS:
                call = ids.model_copy(update={"step_id": f"step-{kind}", "tool_call_id": f"call-{kind}"})
                await runtime.kernel.record("s", *(Draft(fact, call) for fact in call_facts(kind)))
            process = ids.model_copy(update={"process_id": "process-1", "step_id": "step-p"})
            facts = (
                ProcessStarted(command_summary="ls", cwd="/src", status="running"),
                ProcessOutput(stream="stdout", preview="a", size_bytes=2),
                ProcessCompleted(exit_code=0, duration_ms=1.0, status="completed"),
            )
            await runtime.kernel.record("s", *(Draft(fact, process) for fact in facts))
            refused = ids.model_copy(update={"step_id": "step-r", "tool_call_id": "call-r"})
            failed = ToolFailed(
                tool_name="x", item_kind="web_search", failure_category="permission_denied", message="no"
            )
            ended = TurnFailed(status="failed", failure_category="tool_failed", message="it ends")
            await runtime.kernel.record("s", Draft(failed, refused), Draft(ended, ids))
            told = await items(runtime, "s", "turn.failed")
            check_lives(told)
            kinds = {name: life[0]["item"]["type"] for name, life in lives(told).items()}
            assert kinds == {
                **{f"call-{kind}": kind for kind in TOOL_KINDS},
                "process-1": "command_execution",
                "call-r": "web_search",
            }
            assert [one["type"] for one in lives(told)["call-web_search"]] == [
                *("item.started", "item.updated", "item.completed"),
            ]
            assert runtime.kernel.state("s").tool_calls["call-todo_list"].item_kind == "todo_list"

    run(play)


def test_a_view_that_is_not_there_is_refused(tmp_path: Path) -> None:
    async def play() -> None:
        runtime = await staged(tmp_path / "runtime")
        async with runtime, served(runtime) as url, httpx.AsyncClient(base_url=url) as client:
            headers = {"authorization": f"Bearer {token_of(runtime.folder)}"}
            answer = await client.get("/v1/sessions/s/events?view=dreams", headers=headers)
            assert (answer.status_code, answer.json()["kind"]) == (400, "invalid")

    run(play)
