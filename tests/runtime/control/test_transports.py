"""Every command over Python, HTTP and the command line: the same answers, the same refusals, the same facts."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from click.testing import CliRunner

from cli.main import cli
from models.errors import CommandRefused
from runtime.control.client import ControlClient
from runtime.control.command import MAX_REQUEST_BYTES, TABLE
from runtime.control.places import LATER
from runtime.control.serving import served, token_of
from runtime.runtime import Runtime
from tests.runtime.stage import event_types, staged

S = {"session_id": "s"}
TASK = {"session_id": "s", "task_id": "task-1"}

GOOD: dict[str, dict[str, Any]] = {
    "submit_turn": {**S, "thread_id": "t", "input": [{"text": "more"}], "turn_id": "turn-9"},
    "interrupt_turn": {**S, "reason": "enough"},
    "resume_thread": {**S, "thread_id": "t"},
    "remove_queued_turn": {**S, "queued_turn_id": "turn-3"},
    "promote_queued_turn": {**S, "queued_turn_id": "turn-3"},
    "respond_action": {**S, "action_id": "action-1", "decision": "allow"},
    "create_task": {**S, "objective": "a new one", "task_id": "task-9", "parent_task_id": "task-1"},
    "update_task": {**TASK, "title": "A title"},
    "start_task": {**S, "task_id": "task-2"},
    "append_task_progress": {**TASK, "progress": {"phase": "working", "summary": "half"}},
    "pause_task": {**TASK, "reason": "lunch"},
    "resume_task": {**S, "task_id": "task-4", "reason": "back"},
    "cancel_task": {**TASK, "reason": "not needed"},
    "retry_task": {**S, "task_id": "task-3", "reason": "again"},
    "complete_task": {**TASK, "summary": "done"},
    "fail_task": {**TASK, "message": "no way"},
    "archive_task": {**S, "task_id": "task-3", "reason": "old"},
    "list_tasks": S,
    "get_task": TASK,
    "link_tasks": {**TASK, "kind": "produced_artifact", "target_id": "report"},
    "unlink_tasks": {**S, "task_id": "task-2", "kind": "blocked_by", "target_id": "task-1"},
    "get_session": S,
    "get_thread_read": {**S, "thread_id": "t"},
    "get_read_models": S,
    "get_tool_inventory": {"caller": "a person", "mode": "interactive"},
    "list_sessions": {},
    "set_limit": {**S, "name": "daily", "unit": "usd", "maximum": 5.0, "window": "day"},
    "update_session": {**S, "title": "Another name"},
    "update_thread": {**S, "thread_id": "t", "metadata": {"colour": "red"}},
    "record_evidence": {**S, "evidence_id": "proof", "evidence_kind": "verification", "ref": "file:report.xml"},
    "compact_thread": {**S, "thread_id": "t"},
    "rollback_thread": {**S, "thread_id": "t", "turn_id": "turn-1"},
}
"""A request of each command that the staged session can take (or refuses, for a reason that is the same everywhere)."""

TRIED = ["task.retrying", "task.attempt.started", "task.started"]
FACTS: dict[str, tuple[list[str], tuple[str, ...]]] = {
    "submit_turn": (["turn.submitted", "queue.changed"], ("AR-155", "AR-46", "AR-83")),
    "interrupt_turn": (["run.status"], ("AR-156",)),
    "resume_thread": (["queue.changed"], ("AR-157",)),
    "remove_queued_turn": (["queue.changed", "turn.failed"], ("AR-173",)),
    "promote_queued_turn": (["queue.changed"], ("AR-174",)),
    "respond_action": (["action.resolved"], ("AR-172",)),
    "create_task": (
        ["task.created", "task.accepted", "task.delegated", "task.dependency.updated"],
        ("AR-158", "AR-50", "AR-51", "AR-121"),
    ),
    "update_task": (["task.updated"], ("AR-159", "AR-54")),
    "start_task": (["task.blocked"], ("AR-57",)),
    "append_task_progress": (["task.progress"], ("AR-161", "AR-55")),
    "pause_task": (["task.paused"], ("AR-162", "AR-58")),
    "resume_task": (["task.resumed"], ("AR-163", "AR-59")),
    "cancel_task": (
        ["task.cancel_requested", "task.attempt.failed", "task.cancelled"],
        ("AR-164", "AR-61", "AR-62"),
    ),
    "retry_task": (TRIED, ("AR-165", "AR-60")),
    "complete_task": (
        ["task.attempt.completed", "task.completed", "task.dependency.updated"],
        ("AR-166", "AR-66", "AR-124"),
    ),
    "fail_task": (["task.attempt.failed", "task.failed"], ("AR-167", "AR-64", "AR-125")),
    "archive_task": (["task.archived"], ("AR-67",)),
    "list_tasks": ([], ("AR-168",)),
    "get_task": ([], ("AR-169",)),
    "link_tasks": (["task.dependency.updated"], ("AR-170", "AR-122")),
    "unlink_tasks": (["task.dependency.updated"] * 2, ("AR-171",)),
    "get_session": ([], ("AR-175",)),
    "get_thread_read": ([], ("AR-176",)),
    "get_read_models": ([], ()),
    "get_tool_inventory": ([], ("AR-177",)),
    "list_sessions": ([], ()),
    "set_limit": (["limit.changed"], ("AR-96",)),
    "update_session": (["session.updated"], ("AR-43",)),
    "update_thread": (["thread.updated"], ("AR-45",)),
    "record_evidence": (["evidence.changed"], ("AR-89",)),
    "compact_thread": (["turn.submitted", "queue.changed"], ()),
    "rollback_thread": ([], ()),
}
"""The facts that the request of `GOOD` leaves, and the requirements that this proves."""

BAD: dict[str, tuple[str, dict[str, Any], str]] = {
    "unknown session": (
        "submit_turn",
        {"session_id": "nobody", "create": "never", "input": [{"text": "x"}]},
        "not_found",
    ),
    "unknown thread": ("get_thread_read", {**S, "thread_id": "nobody"}, "not_found"),
    "unknown turn": ("interrupt_turn", {**S, "turn_id": "nobody"}, "not_found"),
    "unknown task": ("get_task", {**S, "task_id": "nobody"}, "not_found"),
    "unknown action": ("respond_action", {**S, "action_id": "nobody", "decision": "allow"}, "not_found"),
    "unknown answer": ("respond_action", {**S, "action_id": "action-1", "decision": "perhaps"}, "conflict"),
    "missing field": ("submit_turn", S, "invalid"),
    "misspelt field": ("submit_turn", {**S, "input": [{"text": "x"}], "optoins": {}}, "invalid"),
    "wrong type": ("get_session", {"session_id": ["s"]}, "invalid"),
    "no object": ("get_session", {"session_id": ""}, "invalid"),
    "too large": ("submit_turn", {**S, "input": [{"text": "x" * (MAX_REQUEST_BYTES + 1)}]}, "invalid"),
    "long text": ("interrupt_turn", {**S, "reason": "x" * 2001}, "invalid"),
    "wrong state": ("resume_task", TASK, "illegal_transition"),
    "never tried": ("retry_task", {**S, "task_id": "task-2"}, "conflict"),
    "not waiting": ("remove_queued_turn", {**S, "queued_turn_id": "turn-1"}, "conflict"),
    "busy": ("submit_turn", {**S, "thread_id": "t", "input": [{"text": "x"}], "when_busy": "refuse"}, "conflict"),
    "same turn, other content": ("submit_turn", {**S, "input": [{"text": "other"}], "turn_id": "turn-2"}, "conflict"),
    "circle": ("link_tasks", {**TASK, "kind": "blocked_by", "target_id": "task-2"}, "conflict"),
    "itself": ("link_tasks", {**TASK, "kind": "child", "target_id": "task-1"}, "conflict"),
    "open part": ("complete_task", {**S, "task_id": "task-2"}, "conflict"),
    "unproven artifact": ("complete_task", {**TASK, "artifact_ids": ["nowhere"]}, "conflict"),
    "foreign token": ("resume_thread", {**S, "thread_id": "t", "resume_token": "99999"}, "conflict"),
    "later": ("spawn_subagent", S, "not_supported"),
}

Call = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


class Kind(Exception):
    """The kind of a refusal, however it came."""


async def over_python(runtime: Runtime) -> Call:
    async def call(name: str, content: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = await runtime.call(name, content)
        except CommandRefused as refused:
            raise Kind(refused.kind) from None
        told: dict[str, Any] = orjson.loads(answer.model_dump_json(exclude_none=True))
        return told

    return call


async def over_http(runtime: Runtime) -> Call:
    async def call(name: str, content: dict[str, Any]) -> dict[str, Any]:
        try:
            with ControlClient(str(runtime.address), token_of(runtime.folder)) as client:
                return await asyncio.to_thread(client.call, name, content)
        except CommandRefused as refused:
            raise Kind(refused.kind) from None

    return call


async def over_the_command_line(runtime: Runtime) -> Call:
    home = str(runtime.folder.parent)

    async def call(name: str, content: dict[str, Any]) -> dict[str, Any]:
        arguments = ["--home", home, "control", name, "--json", "-"]
        ran = await asyncio.to_thread(CliRunner().invoke, cli, arguments, input=json.dumps(content))
        if isinstance(ran.exception, CommandRefused):
            raise Kind(ran.exception.kind)
        assert ran.exception is None, ran.exception
        told: dict[str, Any] = json.loads(ran.stdout)
        return told

    return call


WAYS = {"python": over_python, "http": over_http, "cli": over_the_command_line}


async def outcome(folder: Path, way: str, name: str, content: dict[str, Any]) -> tuple[Any, list[str]]:
    """What a command gives, or the kind of its refusal, and the facts it recorded, on a fresh runtime."""
    runtime = await staged(folder / way / "runtime")
    async with runtime, served(runtime):
        before = len(event_types(runtime))
        call = await WAYS[way](runtime)
        try:
            answer: Any = await call(name, content)
        except Kind as refused:
            answer = str(refused)
        return answer, event_types(runtime, after=before)


def plain(answer: Any, folder: Path) -> Any:
    """An answer without the folder it was made in."""
    return json.loads(json.dumps(answer).replace(str(folder), "FOLDER"))


def test_every_command_has_a_case_here() -> None:
    assert set(TABLE) == set(GOOD) | set(LATER)


def _marked(name: str) -> Any:
    return pytest.param(name, marks=[pytest.mark.req("AR-197", "AR-198", *FACTS[name][1])], id=name)


@pytest.mark.parametrize("name", [_marked(name) for name in GOOD])
def test_a_command_does_the_same_over_each_transport(name: str, tmp_path: Path) -> None:
    results = {way: asyncio.run(outcome(tmp_path, way, name, GOOD[name])) for way in WAYS}
    shown = {way: (plain(answer, tmp_path / way), facts) for way, (answer, facts) in results.items()}
    assert shown["python"] == shown["http"] == shown["cli"]
    answer, facts = shown["python"]
    assert facts == FACTS[name][0]
    if name == "rollback_thread":
        assert answer == "conflict"  # the thread has a turn under way
    else:
        assert not isinstance(answer, str), f"{name} was refused as {answer}"


@pytest.mark.parametrize("case", BAD)
def test_a_bad_command_gets_the_same_typed_error_and_writes_nothing(case: str, tmp_path: Path) -> None:
    name, content, kind = BAD[case]
    for way in WAYS:
        answer, facts = asyncio.run(outcome(tmp_path, way, name, content))
        assert answer == kind, (way, answer)
        assert facts == []


@pytest.mark.parametrize("name", sorted(LATER))
def test_a_command_of_later_is_refused_honestly(name: str, tmp_path: Path) -> None:
    answer, facts = asyncio.run(outcome(tmp_path, "http", name, {}))
    assert (answer, facts) == ("not_supported", [])


def test_the_same_key_is_carried_out_once_and_with_other_content_refused(tmp_path: Path) -> None:
    async def run() -> None:
        runtime = await staged(tmp_path / "runtime")
        async with runtime:
            asked = {**S, "objective": "once", "idempotency_key": "k1"}
            first: Any = await runtime.call("create_task", asked)
            count = len(event_types(runtime))
            again: Any = await runtime.call("create_task", asked)
            assert (first.task.task_id, again.repeated) == (again.task.task_id, True)
            with pytest.raises(CommandRefused, match="k1"):
                await runtime.call("create_task", {**asked, "objective": "other"})
            assert len(event_types(runtime)) == count

    asyncio.run(run())


def test_the_same_turn_id_twice_is_one_turn_also_in_a_new_session(tmp_path: Path) -> None:
    async def run() -> None:
        runtime = await staged(tmp_path / "runtime")
        asked = {"turn_id": "mine", "input": [{"text": "begin"}]}
        async with runtime:
            first = await runtime.submit_turn(**asked)
            again = await runtime.submit_turn(**asked)
        reopened = await staged_again(tmp_path / "runtime")
        async with reopened:
            third = await reopened.submit_turn(**asked)
        assert first.session_id == again.session_id == third.session_id
        assert [first.repeated, again.repeated, third.repeated] == [False, True, True]

    asyncio.run(run())


async def staged_again(folder: Path) -> Runtime:
    from tests.runtime.stage import options

    return await Runtime.open(folder, options(folder / "workspace", work=False))


def test_without_the_token_nothing_is_told(tmp_path: Path) -> None:
    async def run() -> None:
        runtime = await staged(tmp_path / "runtime")
        async with runtime, served(runtime) as url, httpx.AsyncClient(base_url=url) as client:
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Basic x"}):
                for method, path in (
                    *(("POST", f"/v1/control/{name}") for name in TABLE),
                    ("GET", "/v1/control"),
                    ("GET", "/openapi.json"),
                    ("GET", "/v1/sessions/s/events"),
                ):
                    answer = await client.request(method, path, headers=headers, content=b"{}")
                    assert (answer.status_code, answer.json()["kind"]) == (401, "not_authorised")

    asyncio.run(run())


def test_the_stream_gives_each_fact_once_resumes_and_follows(tmp_path: Path) -> None:
    async def run() -> None:
        runtime = await staged(tmp_path / "runtime")
        async with runtime, served(runtime) as url:
            client = ControlClient(url, token_of(runtime.folder))
            stream = client.events("s")
            there = len(event_types(runtime))
            first = [await asyncio.to_thread(next, stream) for _ in range(there)]
            assert [event.sequence for event in first] == list(range(1, there + 1))
            await runtime.update_task(session_id="s", task_id="task-1", title="New")
            live = await asyncio.to_thread(next, stream)
            assert (live.type, live.sequence) == ("task.updated", there + 1)
            resumed = client.events("s", after=there - 2)
            again = [await asyncio.to_thread(next, resumed) for _ in range(3)]
            assert [event.sequence for event in again] == [there - 1, there, there + 1]
            with contextlib.suppress(RuntimeError):
                stream.close()
                resumed.close()
            client.close()

    asyncio.run(run())
