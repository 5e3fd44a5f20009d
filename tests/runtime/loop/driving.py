"""Runtimes that play a script, and people who answer what they ask."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from models.event import Event
from runtime.loop.conversation import Reader
from runtime.providers.provider import Message
from runtime.routing.catalogue import Catalogue, Model, Prices, ProviderEntry
from runtime.routing.limits import Limit
from runtime.runtime import Runtime, RuntimeOptions
from runtime.telemetry import ExportSettings
from views.state import State

T = TypeVar("T")
FREE = Prices(input_usd_per_mtok=0, output_usd_per_mtok=0)
SESSION, THREAD = "s-1", "th-1"


def catalogue(*names: str, limits: Sequence[Limit] = (), window: int = 200_000, prices: Prices = FREE) -> Catalogue:
    """Models of the scripted provider, in this order of preference."""
    models = tuple(
        Model(
            provider="scripted",
            model=name,
            capabilities=("tools",),
            context_window_tokens=window,
            preference=at,
            prices=prices,
        )
        for at, name in enumerate(names or ("first",))
    )
    return Catalogue(
        providers={"scripted": ProviderEntry()}, models=models, limits=tuple(limits), bundled=False, version="test"
    )


def options(workspace: Path, script: str, **more: Any) -> RuntimeOptions:
    """Options of a runtime that plays a script and sends nothing anywhere."""
    workspace.mkdir(parents=True, exist_ok=True)
    told: dict[str, Any] = {"catalogue": catalogue(), "export": ExportSettings(disabled=True), **more}
    return RuntimeOptions(workspace=workspace, provider_settings={"scripted": {"text": script}}, **told)


@dataclass
class Stage:
    """A runtime at work, and its one session."""

    runtime: Runtime

    async def submit(self, text: str, turn_id: str | None = None, **turn_options: Any) -> Any:
        """Submit a turn."""
        return await self.runtime.submit_turn(
            session_id=SESSION, thread_id=THREAD, turn_id=turn_id, input=[{"text": text}], options=turn_options
        )

    async def say(self, text: str, turn_id: str | None = None, **turn_options: Any) -> Any:
        """Submit a turn and wait for its end."""
        submitted = await self.submit(text, turn_id, **turn_options)
        await self.idle()
        return submitted

    async def idle(self) -> None:
        """Wait until nothing is being done."""
        await asyncio.wait_for(self.runtime.engine.idle(), 30)

    @property
    def state(self) -> State:
        """The session as it is now."""
        return self.runtime.kernel.state(SESSION)

    def events(self, turn_id: str | None = None) -> list[Event]:
        """The facts of the session, or of a turn."""
        found = self.runtime.kernel.events(SESSION)
        return [event for event in found if turn_id is None or event.turn_id == turn_id]

    def types(self, turn_id: str | None = None) -> list[str]:
        """The types of the facts in their order, pieces of a stream counted once."""
        told: list[str] = []
        for event in self.events(turn_id):
            if event.type not in ("model.delta", "reasoning.delta") or told[-1:] != [event.type]:
                told.append(event.type)
        return told

    def facts(self, kind: str, turn_id: str | None = None) -> list[Any]:
        """The payloads of one type."""
        return [event.payload for event in self.events(turn_id) if event.type == kind]

    async def asked(self) -> str:
        """Wait until a decision is open; its name."""
        state = await asyncio.wait_for(self.runtime.kernel.until(SESSION, lambda now: bool(now.open_actions())), 20)
        return state.open_actions()[0].action_id

    async def until(self, condition: Callable[[State], bool]) -> State:
        """Wait until the session fulfils a condition."""
        return await asyncio.wait_for(self.runtime.kernel.until(SESSION, condition), 20)

    async def answer(self, decision: str, **more: Any) -> None:
        """Wait until a decision is open and make it."""
        await self.runtime.respond_action(session_id=SESSION, action_id=await self.asked(), decision=decision, **more)

    def talk(self, turn_id: str) -> list[Message]:
        """The conversation up to a turn's end, as the model would get it, from the record alone."""
        reader = Reader(self.runtime.texts, self.runtime.tools)
        return reader.read(self.state, THREAD, turn_id, "").messages[1:]

    def text(self, ref: str | None) -> str:
        """A stored text."""
        found = self.runtime.texts.get(ref)
        assert found is not None
        return found


@asynccontextmanager
async def stage(folder: Path, script: str, **more: Any) -> AsyncIterator[Stage]:
    """A runtime in a folder, with the workspace `ws` beside its own."""
    async with await Runtime.open(folder / "rt", options(folder / "ws", script, **more)) as runtime:
        yield Stage(runtime)


def run(play: Callable[[], Awaitable[T]]) -> T:
    """Play a scene to its end."""

    async def bounded() -> T:
        return await asyncio.wait_for(play(), 60)

    return asyncio.run(bounded())
