"""The control plane changes the runtime's own facts and nothing else: what others own is only referred to."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from models.errors import CommandRefused
from runtime.control.command import TABLE
from runtime.runtime import Runtime
from tests.runtime.control.test_transports import GOOD
from tests.runtime.loop.driving import run
from tests.runtime.stage import event_types, staged

ATTEMPTS: dict[str, tuple[str, dict[str, Any]]] = {
    "a surface": ("update_session", {"session_id": "s", "title": "x", "layout": {"theme": "dark"}}),
    "a card": ("update_task", {"session_id": "s", "task_id": "task-1", "card": {"colour": "red"}}),
    "a provider's API": ("submit_turn", {"input": [{"text": "x"}], "options": {"base_url": "http://evil.example"}}),
    "a provider's key": ("submit_turn", {"input": [{"text": "x"}], "options": {"api_key": "k"}}),
    "a tool's protocol": ("get_tool_inventory", {"tools": [{"tool_name": "shell"}]}),
    "the bytes of a deliverable": ("complete_task", {"session_id": "s", "task_id": "task-1", "artifacts": ["bytes"]}),
    "a deliverable by content": (
        "link_tasks",
        {"session_id": "s", "task_id": "task-1", "kind": "produced_artifact", "target_id": "a", "content": "bytes"},
    ),
    "a verdict": (
        "record_evidence",
        {"session_id": "s", "evidence_id": "e", "evidence_kind": "review", "ref": "x", "verdict": "passed"},
    ),
    "a memory": ("update_thread", {"session_id": "s", "thread_id": "t", "metadata": {}, "memory": ["a note"]}),
    "an account": ("update_session", {"session_id": "s", "title": "x", "account": {"plan": "pro"}}),
    "another workspace": ("submit_turn", {"input": [{"text": "x"}], "options": {"workspace": "/"}}),
}
NO_SUCH_COMMANDS = (
    *("render", "set_theme", "register_provider", "set_credentials", "register_tool", "write_artifact"),
    *("delete_artifact", "set_verdict", "write_memory", "delete_memory", "update_account", "write_file"),
)


def outside(runtime: Runtime) -> dict[str, str]:
    """Every file around the runtime that is not its own, by its content."""
    files = sorted(file for file in runtime.options.workspace.parent.parent.rglob("*") if file.is_file())
    theirs = [file for file in files if runtime.folder not in file.parents or runtime.options.workspace in file.parents]
    return {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in theirs}


@pytest.mark.req("AR-2")
def test_all_commands_together_change_no_file_setting_or_deliverable_of_others(tmp_path: Path) -> None:
    async def play() -> None:
        environment = {"ANTHROPIC_API_KEY": "k", "HOME": str(tmp_path)}
        settings = {"scripted": {"text": "turns: []"}}
        (tmp_path / "host.json").write_text('{"account": "mine"}')
        runtime = await staged(tmp_path / "runtime", environment=environment, provider_settings=settings)
        async with runtime:
            (runtime.options.workspace / "report.md").write_text("a report")
            before, catalogue = outside(runtime), runtime.options.catalogue.model_dump()
            inventory, count = runtime.inventory(), len(event_types(runtime))
            assert len(before) == 2
            accepted = 0
            for name, content in GOOD.items():
                try:
                    await runtime.call(name, content)
                except CommandRefused:
                    continue
                accepted += TABLE[name].effect == "writes"
            assert accepted >= 15
            assert len(event_types(runtime)) > count
            assert outside(runtime) == before
            assert runtime.options.catalogue.model_dump() == catalogue
            assert (runtime.options.environment, runtime.options.provider_settings) == (environment, settings)
            assert runtime.inventory() == inventory
            state = runtime.kernel.state("s")
            assert not state.artifacts  # linking to one refers to it, and makes none
            assert state.evidence["proof"].pack_ref == "file:report.xml"
            assert state.evidence["proof"].verification_outcomes is None

    run(play)


@pytest.mark.req("AR-2")
@pytest.mark.parametrize("what", ATTEMPTS)
def test_an_attempt_to_change_what_others_own_is_refused(what: str, tmp_path: Path) -> None:
    name, content = ATTEMPTS[what]

    async def play() -> None:
        async with await staged(tmp_path / "runtime") as runtime:
            before, count = outside(runtime), len(event_types(runtime))
            with pytest.raises(CommandRefused) as refused:
                await runtime.call(name, content)
            assert refused.value.kind == "invalid"
            assert (outside(runtime), len(event_types(runtime))) == (before, count)

    run(play)


@pytest.mark.req("AR-2")
def test_there_is_no_command_for_what_others_own() -> None:
    assert not set(NO_SUCH_COMMANDS) & set(TABLE)


@pytest.mark.req("AR-2")
def test_a_verdict_on_record_cannot_be_changed_through_the_runtime(tmp_path: Path) -> None:
    async def play() -> None:
        async with await staged(tmp_path / "runtime") as runtime:
            told = {"session_id": "s", "evidence_id": "e", "evidence_kind": "verification", "ref": "file:r"}
            await runtime.record_evidence(**told, verification_outcomes=[{"name": "tests", "status": "failed"}])
            count = len(event_types(runtime))
            with pytest.raises(CommandRefused, match="verdict"):
                await runtime.record_evidence(**told, verification_outcomes=[{"name": "tests", "status": "passed"}])
            assert len(event_types(runtime)) == count
            (outcome,) = runtime.kernel.state("s").evidence["e"].verification_outcomes or ()
            assert outcome.status == "failed"

    run(play)
