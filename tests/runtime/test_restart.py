"""The runtime is killed at random moments of its work and started again: nothing is lost, doubled or forgotten."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

import store
from models.event import Event
from runtime.runtime import Runtime
from tests.collector.asking import loaded
from tests.running import Collector
from tests.runtime.stage import options
from tests.runtime.working import SESSION, TASKS, THREADS, TURNS
from views.facts import events_of
from views.state import fold

KILLS = 50


def start(folder: Path, address: str) -> subprocess.Popen[bytes]:
    with (folder.parent / "err.txt").open("ab") as errors:
        arguments = [sys.executable, "-m", "tests.runtime.working", str(folder), address]
        return subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=errors)


def kill_at_random_moments(folder: Path, address: str, kills: int, seed: int) -> int:
    """Kill the worker again and again, then let it finish; how often it was really killed."""
    source = random.Random(seed)
    killed = 0
    for _ in range(kills):
        process = start(folder, address)
        time.sleep(source.uniform(0.35, 1.3))
        if process.poll() is None:
            os.kill(process.pid, signal.SIGKILL)
            killed += 1
        process.wait()
    process = start(folder, address)
    assert process.wait(120) == 0, (folder.parent / "err.txt").read_text()[-3000:]
    return killed


async def journaled(folder: Path) -> tuple[list[Event], Runtime]:
    runtime = await Runtime.open(folder, options(folder / "workspace", work=False, runtime_id=None))
    return list(runtime.kernel.events(SESSION)), runtime


@pytest.mark.req("AR-230", "AR-234", "AR-235")
@pytest.mark.parametrize("kills", [pytest.param(12, id="some"), pytest.param(KILLS, id="many", marks=pytest.mark.long)])
def test_after_any_number_of_kills_everything_is_there_once_and_finished(tmp_path: Path, kills: int) -> None:
    folder = tmp_path / "runtime"
    folder.mkdir()
    with Collector(tmp_path / "home", everything=True) as collector:
        killed = kill_at_random_moments(folder, collector.http, kills, seed=kills)
        assert killed > kills // 2, "the worker ended before it was killed: nothing was tested"
        with collector.client() as client:
            loaded(client)
        with store.open(tmp_path / "home") as reader:
            collected = list(events_of(reader.facts(SESSION)))

    async def check() -> None:
        told, runtime = await journaled(folder)
        async with runtime:
            live = runtime.kernel.state(SESSION)
        assert [event.sequence for event in told] == list(range(1, len(told) + 1))
        assert collected == told
        assert fold(told) == live
        assert fold(collected) == live
        ends = Counter(event.turn_id for event in told if event.type in ("turn.completed", "turn.failed"))
        assert ends == Counter(f"{thread}-{number}" for thread in THREADS for number in range(TURNS))
        submitted = Counter(event.turn_id for event in told if event.type == "turn.submitted")
        assert set(submitted.values()) == {1}
        for task_id in (*TASKS, "part"):
            task = live.task(task_id)
            assert task is not None
            assert task.status == "completed"
            tries = [
                attempt for attempt in told if attempt.type == "task.attempt.started" and attempt.task_id == task_id
            ]
            assert len(task.attempts or ()) == len(tries) >= 2
        assert {edge.kind for edge in live.edges_of("build")} >= {"child", "blocks"}
        assert not live.open_actions()
        assert all(not live.queue(thread) for thread in THREADS)

    asyncio.run(check())
