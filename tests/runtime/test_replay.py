"""The state at any fact can be had again from the facts alone, and facts outlive a missing collector."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import store
from models.event import Event
from models.payloads.turn import TurnSubmitted
from runtime.routing.catalogue import Catalogue, Model, ProviderEntry
from runtime.runtime import Runtime
from tests.collector.asking import loaded
from tests.running import Collector
from tests.runtime.runtimes import settings
from tests.runtime.stage import options
from tests.runtime.working import SCRIPT
from views.facts import events_of
from views.state import State, apply, fold, read_models

EVENTS = 2_000
SCRIPTED = Catalogue(
    providers={"scripted": ProviderEntry()},
    models=(Model(provider="scripted", model="talker", capabilities=("tools",)),),
    bundled=False,
)


def working(folder: Path, **given: Any) -> Any:
    """Options of a runtime that carries out turns by the script."""
    (folder / "workspace").mkdir(parents=True, exist_ok=True)
    (folder / "workspace" / "notes.txt").write_text("a note")
    (folder / "script.yaml").write_text(SCRIPT)
    return options(
        folder / "workspace",
        catalogue=SCRIPTED,
        provider_settings={"scripted": {"path": str(folder / "script.yaml")}},
        **given,
    )


async def turn(runtime: Runtime, number: int, words: str = "look around") -> None:
    """One turn to its end."""
    await runtime.submit_turn(session_id="s", turn_id=f"turn-{number}", input=[{"text": f"{words} {number}"}])
    await runtime.engine.idle()


@pytest.mark.req("AR-230")
def test_the_state_at_every_fact_is_had_again_from_the_facts(tmp_path: Path) -> None:
    stood: dict[int, State] = {}

    async def run() -> list[Event]:
        async with await Runtime.open(tmp_path / "runtime", working(tmp_path / "runtime")) as runtime:

            def note(_: Sequence[Event]) -> None:
                state = runtime.kernel.state("s")
                stood[state.sequence or 0] = state

            runtime.kernel.on_facts.append(note)
            number = 0
            while len(stood) == 0 or max(stood) < EVENTS:
                await turn(runtime, number)
                await runtime.create_task(session_id="s", task_id=f"task-{number}", objective="something")
                await runtime.start_task(session_id="s", task_id=f"task-{number}")
                await runtime.complete_task(session_id="s", task_id=f"task-{number}")
                number += 1
            for asked in (7, 500, max(stood)):
                at = await runtime.get_read_models(session_id="s", at=asked, window=20)
                assert at == read_models(fold(runtime.kernel.events("s", 0, asked)), window=20)
            return list(runtime.kernel.events("s"))

    told = asyncio.run(run())
    state = State.empty("s")
    compared = 0
    for event in told:
        state = apply(state, event)
        if event.sequence in stood:
            assert state == stood[event.sequence], f"after fact {event.sequence}"
            compared += 1
    assert compared > EVENTS / 5


def test_what_was_recorded_while_no_collector_was_there_arrives_once_and_in_order(
    tmp_path: Path, free_tcp_port: int
) -> None:
    address = f"http://127.0.0.1:{free_tcp_port}"
    folder = tmp_path / "runtime"

    async def run() -> list[Event]:
        async with await Runtime.open(folder, working(folder, export=settings(address))) as runtime:
            for number in range(3):
                await turn(runtime, number)
            assert runtime.telemetry.backlog().records > 100
            return list(runtime.kernel.events("s"))

    async def again() -> None:
        async with await Runtime.open(folder, working(folder, export=settings(address), work=False)) as runtime:
            assert await asyncio.to_thread(runtime.telemetry.flush, 20.0)
            assert await asyncio.to_thread(runtime.uploader.flush, 20.0)

    told = asyncio.run(run())
    with Collector(tmp_path / "home", "--otlp-http", f"127.0.0.1:{free_tcp_port}", everything=True) as collector:
        asyncio.run(again())
        with collector.client() as client:
            loaded(client)
            ref = next(event.payload.input_ref for event in told if isinstance(event.payload, TurnSubmitted))
            assert client.get(f"/v1/blobs/{str(ref).removeprefix('sha256:')}").text == "look around 0"
        with store.open(tmp_path / "home") as reader:
            collected = list(events_of(reader.facts("s")))
            arrival = reader.frame(
                "select e.sequence from events as e join records as r on r.record_id = e.record_id "
                "where e.session_id = 's' order by r.journal_position, r.ordinal"
            )
    assert collected == told
    assert arrival["sequence"].to_list() == sorted(arrival["sequence"].to_list())
