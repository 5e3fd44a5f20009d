"""A runtime in a process of its own that works through a plan of turns and tasks, and can be killed at any moment.

Every command has a key, so the plan is simply carried out again after a restart.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from models.errors import CommandRefused
from runtime.routing.catalogue import Catalogue, Model, ProviderEntry
from runtime.runtime import Runtime, RuntimeOptions
from tests.runtime.runtimes import settings
from views.state import State

SESSION = "s-restart"
THREADS = ("th-a", "th-b")
TURNS = 4
"""Turns of each thread."""

TASKS = ("build", "test", "ship")
SCRIPT = """
version: 1
after_end: repeat
turns:
  - when: {contains: "look"}
    steps:
      - reasoning: ["I ", "look."]
        text: ["Let me ", "look."]
        delay_ms: 1
        tool_calls:
          - {name: list_files, arguments: {path: "."}}
          - {name: read_file, arguments: {path: "notes.txt"}}
        usage: counted
      - text: ["There ", "is ", "a ", "note."]
        delay_ms: 1
        usage: counted
  - when: {contains: "write"}
    steps:
      - tool_calls:
          - {name: write_file, arguments: {path: "out.txt", content: "written"}}
        usage: counted
      - text: "Done."
        usage: counted
"""


def plan() -> list[tuple[str, dict[str, Any]]]:
    """The commands, each with a key of its own."""
    commands: list[tuple[str, dict[str, Any]]] = []
    for number in range(TURNS):
        for thread in THREADS:
            words = "look around" if (number + len(thread)) % 2 else "write it"
            commands.append(
                (
                    "submit_turn",
                    {"thread_id": thread, "turn_id": f"{thread}-{number}", "input": [{"text": f"{words} {number}"}]},
                )
            )
    for number, task in enumerate(TASKS):
        depends = [TASKS[number - 1]] if number else []
        commands.append(
            (
                "create_task",
                {"task_id": task, "objective": f"{task} it", "depends_on": depends, "idempotency_key": f"make-{task}"},
            )
        )
    commands.append(
        ("create_task", {"task_id": "part", "objective": "a part", "parent_task_id": "build", "idempotency_key": "p"})
    )
    commands.append(("set_limit", {"name": "much", "unit": "usd", "maximum": 1000.0, "idempotency_key": "limit"}))
    return [(name, {"session_id": SESSION, **content}) for name, content in commands]


async def carry_on(runtime: Runtime) -> None:
    """Answer what is open and move each task one step, until everything has ended."""
    call: Callable[..., Awaitable[Any]] = runtime.call
    while True:
        state = runtime.kernel.state(SESSION)
        for action in state.open_actions():
            await _try(
                call("respond_action", {"session_id": SESSION, "action_id": action.action_id, "decision": "allow"})
            )
        for thread in THREADS:
            await _try(call("resume_thread", {"session_id": SESSION, "thread_id": thread}))
        for name, content in next_steps(state):
            await _try(call(name, {"session_id": SESSION, **content}))
        state = runtime.kernel.state(SESSION)
        if not state.open_keys("turns") and not next_steps(state):
            return
        await asyncio.sleep(0.005)


async def _try(command: Awaitable[Any]) -> None:
    try:
        await command
    except CommandRefused:
        return  # it came too early or too late; the state says what to do next


def next_steps(state: State) -> list[tuple[str, dict[str, Any]]]:
    """What each task needs next, from its state."""
    steps: list[tuple[str, dict[str, Any]]] = []
    for task_id in ("part", *TASKS):
        task = state.tasks.get(task_id)
        if task is None:
            continue
        tries = len(state.attempts_of(task_id))
        if task.status in ("accepted", "queued", "blocked"):
            steps.append(("start_task", {"task_id": task_id}))
        elif task.status == "running" and tries < 2:
            steps.append(("fail_task", {"task_id": task_id, "message": "the first try always fails"}))
        elif task.status == "running":
            steps.append(("complete_task", {"task_id": task_id, "summary": "done"}))
        elif task.status in ("failed", "lost", "timed_out"):
            steps.append(("retry_task", {"task_id": task_id, "reason": "again"}))
    return steps


async def work(folder: Path, address: str) -> None:
    """Carry out the plan to its end."""
    workspace = folder / "workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    (workspace / "notes.txt").write_text("a note")
    script = folder / "script.yaml"
    script.write_text(SCRIPT)
    catalogue = Catalogue(
        providers={"scripted": ProviderEntry()},
        models=(Model(provider="scripted", model="talker", capabilities=("tools",)),),
        bundled=False,
    )
    options = RuntimeOptions(
        workspace=workspace, catalogue=catalogue, provider_settings={"scripted": {"path": str(script)}},
        export=settings(address),
    )  # fmt: skip
    async with await Runtime.open(folder, options) as runtime:
        print("open", flush=True)
        for name, content in plan():
            await _try(runtime.call(name, content))
            print(name, flush=True)
        await carry_on(runtime)
        print("finished", flush=True)
        await asyncio.to_thread(runtime.telemetry.flush, 20.0)


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2]))
