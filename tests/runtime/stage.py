"""A runtime whose clock and ids are fixed, with a session in which every command has something to act on."""

import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from models.event import Correlation
from models.payloads.action import ActionRequired
from models.payloads.turn import TurnStarted
from runtime.kernel import Draft
from runtime.runtime import Runtime, RuntimeOptions
from runtime.telemetry import ExportSettings

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)


def counting_ids() -> Callable[[], str]:
    """0001, 0002 …"""
    numbers = itertools.count(1)
    return lambda: f"{next(numbers):04d}"


def ticking_clock(step_ms: float = 1.0) -> Callable[[], datetime]:
    """Each look at the clock is so much later than the last."""
    ticks = itertools.count()
    return lambda: START + timedelta(milliseconds=next(ticks) * step_ms)


def options(workspace: Path, **given: Any) -> RuntimeOptions:
    """A runtime that sends nothing, with a clock and ids of its own."""
    workspace.mkdir(parents=True, exist_ok=True)
    told: dict[str, Any] = {
        "export": ExportSettings(disabled=True),
        "clock": ticking_clock(),
        "ids": counting_ids(),
        "runtime_id": "rt-test",
    }
    return RuntimeOptions(workspace=workspace, **(told | given))


async def staged(folder: Path, **given: Any) -> Runtime:
    """A runtime that carries out no turns, and a session with two threads, queued turns, tasks and an open decision."""
    runtime = await Runtime.open(folder, options(folder / "workspace", **({"work": False} | given)))
    text = [{"text": "hello"}]
    await runtime.submit_turn(session_id="s", thread_id="t", turn_id="turn-1", input=text, title="A session")
    await runtime.kernel.record("s", Draft(TurnStarted(status="running"), Correlation(thread_id="t", turn_id="turn-1")))
    for turn_id in ("turn-2", "turn-3"):
        await runtime.submit_turn(session_id="s", thread_id="t", turn_id=turn_id, input=text)
    for task_id in ("task-1", "task-2", "task-3", "task-4"):
        await runtime.create_task(session_id="s", task_id=task_id, objective=f"objective of {task_id}")
    await runtime.link_tasks(session_id="s", task_id="task-2", kind="blocked_by", target_id="task-1")
    for task_id in ("task-1", "task-3", "task-4"):
        await runtime.start_task(session_id="s", task_id=task_id)
    await runtime.fail_task(session_id="s", task_id="task-3", message="it did not work")
    await runtime.pause_task(session_id="s", task_id="task-4")
    required = ActionRequired(
        action_type="permission", decision_kind="user", decisions=("allow", "deny"), status="waiting_permission",
        prompt="May I?",
    )  # fmt: skip
    ids = Correlation(thread_id="t", turn_id="turn-1", action_id="action-1", step_id="step-1", tool_call_id="call-1")
    await runtime.kernel.record("s", Draft(required, ids))
    return runtime


def event_types(runtime: Runtime, session_id: str = "s", after: int = 0) -> list[str]:
    """The facts of a session, by type."""
    return [event.type for event in runtime.kernel.events(session_id, after)]
