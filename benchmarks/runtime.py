"""What recording costs the runtime: CPU per fact, its share of a turn, and late turns of a session beside early ones.

The provider answers at once, so everything that is measured is the runtime's own work.
"""

import asyncio
import itertools
import multiprocessing
import shutil
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from models.event import Correlation, Event
from models.payloads.turn import TurnStarted
from runtime.routing.catalogue import Catalogue, Model, ProviderEntry
from runtime.runtime import Runtime, RuntimeOptions
from runtime.telemetry import ExportSettings, Telemetry

SCRIPT = """
version: 1
after_end: repeat
turns:
  - steps:
      - text: ["Let me ", "look."]
        tool_calls: [{name: read_file, arguments: {path: notes.txt}}]
        usage: counted
      - text: "There is a note."
        usage: counted
"""
FACTS = 3_000
EARLY, LATE = 100, 10_000
ROUNDS, TURNS_PER_ROUND = 40, 10


def facts(folder: Path) -> tuple[float, int]:
    """CPU microseconds per fact for building, numbering, encoding and journaling it, batches of 8."""
    ids = Correlation(session_id="s", thread_id="t", turn_id="u")
    told = {name: value for name, value in ids if value is not None}
    with Telemetry(folder, settings=ExportSettings(disabled=True)) as telemetry:
        started = time.process_time()
        for first in range(0, FACTS, 8):
            events = [
                Event(
                    type="turn.started", event_id=f"e-{first + at}", timestamp=telemetry.clock(),
                    payload=TurnStarted(status="running"), **told,
                )
                for at in range(8)
            ]  # fmt: skip
            telemetry.emit_all(events)
        return (time.process_time() - started) / FACTS * 1e6, FACTS


def options(folder: Path) -> RuntimeOptions:
    """A runtime with a provider that answers at once, and no collector."""
    workspace = folder / "workspace"
    workspace.mkdir(parents=True, exist_ok=True)
    (workspace / "notes.txt").write_text("a note")
    (folder / "script.yaml").write_text(SCRIPT)
    return RuntimeOptions(
        workspace=workspace,
        catalogue=Catalogue(
            providers={"scripted": ProviderEntry()},
            models=(Model(provider="scripted", model="talker", capabilities=("tools",), context_window_tokens=3_000),),
            bundled=False,
        ),
        provider_settings={"scripted": {"path": str(folder / "script.yaml")}},
        export=ExportSettings(disabled=True),
        compact_at_tokens=10**9,
    )


async def turn(runtime: Any, number: int) -> None:
    """One turn to its end."""
    await runtime.submit_turn(session_id="s", turn_id=f"turn-{number}", input=[{"text": f"look {number}"}])
    await runtime.engine.idle()


async def _serve(pipe: Connection, folder: Path, length: int) -> None:
    """Hold a session of so many turns; for each word from the pipe, measure some more of them and some reads."""
    async with await Runtime.open(folder, options(folder)) as runtime:
        numbers = itertools.count()
        for _ in range(length):
            await turn(runtime, next(numbers))
        pipe.send("ready")
        while pipe.recv():
            before, started = runtime.kernel.state("s").event_count, time.process_time()
            for _ in range(TURNS_PER_ROUND):
                await turn(runtime, next(numbers))
            took = (time.process_time() - started) / TURNS_PER_ROUND * 1e3
            facts_per_turn = (runtime.kernel.state("s").event_count - before) / TURNS_PER_ROUND
            started = time.process_time()
            for _ in range(TURNS_PER_ROUND):
                await runtime.get_session(session_id="s", window=50)
            pipe.send((took, (time.process_time() - started) / TURNS_PER_ROUND * 1e3, facts_per_turn))


def _session(pipe: Connection, folder: Path, length: int) -> None:
    asyncio.run(_serve(pipe, folder, length))


def turns(folder: Path) -> dict[str, float]:
    """CPU milliseconds per turn and per `get_session` in a session of 100 turns and in one of 10,000; facts per turn.

    Each session has a process of its own, and they take turns in being measured, so that both see the same machine.
    """
    context = multiprocessing.get_context("spawn")
    pipes: dict[str, Connection] = {}
    processes = []
    for name, length in (("late", LATE), ("early", EARLY)):
        pipes[name], theirs = context.Pipe()
        processes.append(context.Process(target=_session, args=(theirs, folder / name, length)))
        processes[-1].start()
        pipes[name].recv()
    measured: dict[str, list[tuple[float, float, float]]] = {name: [] for name in pipes}
    for _ in range(ROUNDS):
        for name, pipe in pipes.items():
            pipe.send(True)
            measured[name].append(pipe.recv())
    for pipe, process in zip(pipes.values(), processes, strict=True):
        pipe.send(False)
        process.join()
    found = {"facts per turn": measured["early"][0][2]}
    for name, rounds in measured.items():
        found[f"{name} turn"], found[f"{name} get_session"], _ = (
            statistics.fmean(one) for one in zip(*rounds, strict=True)
        )
    return found


def main() -> None:
    """Print both costs and the two ratios."""
    folder = Path(tempfile.mkdtemp(prefix="tachograph-bench-"))
    try:
        per_fact, count = facts(folder / "facts")
        print(f"journal and emission: {per_fact:.0f} µs CPU per fact ({count} facts, 8 at a time)")
        found = turns(folder / "turns")
    finally:
        shutil.rmtree(folder)
    share = per_fact * found["facts per turn"] / 1e3 / found["early turn"]
    print(
        f"a turn with a provider that answers at once: {found['early turn']:.1f} ms CPU, "
        f"{found['facts per turn']:.0f} facts; recording is {share:.0%} of it"
    )
    for what in ("turn", "get_session"):
        early, late = found[f"early {what}"], found[f"late {what}"]
        print(
            f"{what}: {late:.2f} ms after {LATE:,} turns, {early:.2f} ms after {EARLY}: {late / early:.2f} × (bar: 1.5)"
        )


if __name__ == "__main__":
    main()
