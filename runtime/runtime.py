"""The runtime: one folder, its sessions, and the commands that act on them."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

from opentelemetry.sdk.trace.id_generator import IdGenerator
from pydantic import BaseModel

import runtime.control.commands  # noqa: F401 - declares, and so enters, every command
from models.errors import InvalidCommand
from models.event import Correlation, Event
from models.payloads.runtime_fault import RuntimeWarned
from models.payloads.session import SessionCreated
from models.read_models import ToolInventorySnapshot
from models.shape import JsonMap
from runtime.account import Account
from runtime.checkpoints import CheckpointFiles
from runtime.contents import Contents, Uploader
from runtime.control.command import TABLE, Asked
from runtime.control.turn_commands import TurnOptions
from runtime.engine import Engine
from runtime.kernel import Kernel, Request
from runtime.loop.routes import Connections
from runtime.loop.texts import Texts
from runtime.loop.tools import Executor, Tools
from runtime.recovery import recover
from runtime.routing import Catalogue, configured, load
from runtime.tasks.watching import watch
from runtime.telemetry import ExportSettings, Telemetry
from runtime.telemetry.emitter import new_id, utc_now
from views.state import State, apply


@dataclass(frozen=True)
class RuntimeOptions:
    """What a runtime works with; everything that a test may want to replace."""

    workspace: Path = field(default_factory=Path.cwd)
    """The folder that tools may read and, when asked, write."""

    catalogue: Catalogue = field(default_factory=load)
    """The models to choose from."""

    environment: Mapping[str, str] = field(default_factory=dict)
    """Where credentials are looked up."""

    provider_settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Settings by the provider's name, such as the script of `scripted`."""

    runtime_id: str | None = None
    """The name of a new folder's runtime; None: one that nobody else has."""

    export: ExportSettings | None = None
    clock: Callable[[], datetime] = utc_now
    ids: Callable[[], str] = new_id
    span_ids: IdGenerator | None = None
    interactive: bool = True
    """Whether there may be a person who answers."""

    work: bool = True
    """Whether turns are carried out; if not, commands are recorded and left for the next runtime."""

    compact_at_tokens: int = 100_000
    """The context is compacted when it is larger than this."""


class Runtime:
    """Carries out commands: `await runtime.submit_turn(...)`, or `call` with a name and a JSON object.

    The same table serves Python, HTTP and the command line. Use as an async context; one process per folder.
    """

    def __init__(self, folder: Path, options: RuntimeOptions) -> None:
        self.folder = folder
        self.options = options
        self.address: str | None = None
        """Where the control plane can be reached, once it is served."""

        self.telemetry = Telemetry(
            folder,
            runtime_id=options.runtime_id,
            clock=options.clock,
            ids=options.ids,
            span_ids=options.span_ids,
            settings=options.export,
        )
        self.contents = Contents(folder)
        self.uploader = Uploader(self.contents, self.telemetry.settings)
        self.checkpoints = CheckpointFiles(folder / "states")
        self.kernel = Kernel(self.telemetry, self.contents, self.checkpoints)
        self.account = Account(self.kernel)
        self.tools = Tools(options.workspace, closed=(folder,))
        self.executors: dict[str, Executor] = {"tool": self.tools}
        """Who carries out Actions, by the executor's type."""

        self.texts = Texts(self.contents)
        self.connections = Connections(options)
        self.engine = Engine(self)
        self._watch: asyncio.Task[None] | None = None
        if not self.telemetry.settings.disabled:
            self.uploader.on_refused = self._content_refused
            self.uploader.start()

    @classmethod
    async def open(cls, folder: Path, options: RuntimeOptions | None = None) -> Self:
        """A runtime that goes on where the last one in this folder ended, however it ended."""
        opened = cls(folder, options or RuntimeOptions())
        if opened.options.work:
            await opened._set_configured_limits()
            await recover(opened)
            opened._watch = asyncio.create_task(watch(opened), name="task budgets")
        return opened

    async def _set_configured_limits(self) -> None:
        """Record the limits of `models.yaml` that are new or changed."""
        now = self.kernel.clock()
        for changed in configured(self.account.ledger, self.options.catalogue.limits, now):
            fact = Event(type="limit.changed", event_id=self.telemetry.new_id(), timestamp=now, payload=changed)
            await self.kernel.tell(fact)

    async def close(self) -> None:
        """Stop working; everything is on record, and the next start goes on."""
        if self._watch is not None:
            self._watch.cancel()
        await self.engine.stop()
        await self.connections.close()
        self.checkpoints.close()
        self.uploader.stop()
        self.contents.close()
        self.telemetry.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _content_refused(self, ref: str, reason: str) -> None:
        """The collector will never take a content; called in the thread that sends them."""
        warning = RuntimeWarned(
            code="contents.refused", message=f"the collector refused {ref}: {reason}; it stays here",
            component="contents", failure_category="refused", repaired=False,
        )  # fmt: skip
        self.telemetry.record(warning, Correlation())

    # --- commands ----------------------------------------------------------------------------------------------

    async def call(self, name: str, content: Any) -> BaseModel:
        """Carry out a command given as JSON; raises CommandRefused if it cannot be, and then nothing was written."""
        if name not in TABLE:
            raise InvalidCommand(name, ["there is no such command"])
        command = TABLE[name]
        return await command.handler(self, command.parse(content))

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        if name not in TABLE:
            raise AttributeError(name)

        async def call(**content: Any) -> BaseModel:
            return await self.call(name, content)

        return call

    def request(self, command: str, asked: Asked, *, key: str | None = None) -> Request:
        """The request as it is remembered; without a key of the caller's it is a new one each time."""
        key = key or getattr(asked, "idempotency_key", None) or self.kernel.new_id("request")
        content = asked.model_dump(mode="json")
        return Request.of(command, key, content)

    def session_of_request(self, key: str | None) -> str | None:
        """The session that an earlier request with this key began."""
        return self.kernel.beginners.get(key) if key is not None else None

    # --- what commands and the loop need to know ---------------------------------------------------------------

    async def state_at(self, session_id: str, number: int | None) -> State:
        """The state of a session after its fact of this number; now, if none is given."""
        state = self.kernel.state(session_id)
        if number is None or number >= (state.sequence or 0):
            return state
        state = self.checkpoints.load(session_id, number, whole=False) or State.empty(session_id)
        for event in self.kernel.events(session_id, state.sequence or 0, number):
            state = apply(state, event)
        return state

    def session_payload(self, title: str | None, source: str) -> SessionCreated:
        """What is told of a new session, the address of the control plane included, so that others can act on it."""
        return SessionCreated(
            title=title,
            source=source,
            client_name="tachograph",
            client_version=_version(),
            cwd=str(self.options.workspace),
            workspace_id=str(self.options.workspace),
            status="running",
            metadata={
                "control_address": self.address,
                "control_token_ref": str(self.folder / "control.token") if self.address else None,
                "platform": platform.platform(),
            },
        )

    def input_snapshot(self, options: TurnOptions) -> JsonMap:
        """The turn's options as they hold now, defaults filled in: what a later reader needs to understand it."""
        told: JsonMap = options.model_dump(mode="json", exclude_none=True)
        interactive = options.interactive and self.options.interactive
        return {
            **told,
            "workspace": str(self.options.workspace),
            "interactive": interactive,
            "approval_policy": options.approval_policy or ("ask" if interactive else "deny"),
            "sandbox_policy": options.sandbox_policy or "workspace_write",
            "provider_routing": {"requested": options.model, "catalogue": self.options.catalogue.version},
            "tool_policy": {"reading": "allowed", "writing": options.approval_policy or "ask"},
            "prompt_augmentation": {"instructions_chars": len(options.instructions or "")},
        }

    def inventory(
        self, *, caller: str | None = None, policy: str | None = None, mode: str | None = None
    ) -> ToolInventorySnapshot:
        """The tools for a caller, a policy and a mode."""
        entries = self.tools.entries(policy=policy or "ask", mode=mode or "interactive")
        return ToolInventorySnapshot(
            status="available", caller=caller, policy_ref=policy, mode=mode, tools=entries, updated_at=None
        )


def _version() -> str:
    try:
        return version("tachograph")
    except PackageNotFoundError:
        return "0"
