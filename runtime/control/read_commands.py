"""Commands that only read: snapshots of sessions, threads, tools and tasks, at any moment of their history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from models.errors import NotFound
from models.read_models import ReadModels, SessionSnapshot, ThreadReadModel, ToolInventorySnapshot
from runtime.control.command import Answer, Asked, command
from runtime.control.turn_commands import Id
from views.state import read_models, session_snapshot, thread_read, tool_inventory

if TYPE_CHECKING:
    from runtime.runtime import Runtime
    from views.state import State

WINDOW = 50
MAX_WINDOW = 1_000


class Moment(Asked):
    """A session, now or as it was."""

    session_id: Id
    at: int | None = Field(default=None, ge=0)
    """The number of the last fact to take into account; None: all."""


class GetSession(Moment):
    """A session and how much of its history."""

    window: int = Field(default=WINDOW, ge=0, le=MAX_WINDOW)
    """How many of the latest steps."""

    before: int | None = Field(default=None, ge=0)
    """Only steps before this one: the `history_cursor` of the window before."""


class GetThread(Moment):
    """A thread of a session."""

    thread_id: Id
    window: int = Field(default=WINDOW, ge=0, le=MAX_WINDOW)
    """How many of the latest turns."""


class GetTools(Asked):
    """For whom the tools are asked for."""

    session_id: Id | None = None
    """The tools as the session's last turn had them; None: as a new one would have them."""

    caller: str | None = Field(default=None, max_length=200)
    policy: str | None = Field(default=None, max_length=200)
    """`ask` or `deny`: what happens to writing tools."""

    mode: str | None = Field(default=None, max_length=200)
    """`interactive` or `non_interactive`."""


class ListSessions(Asked):
    """Which sessions."""

    limit: int = Field(default=WINDOW, ge=1, le=MAX_WINDOW)


class SessionLine(Answer):
    """A session in a list."""

    session_id: str
    title: str | None = None
    status: str
    sequence: int


class Sessions(Answer):
    """The sessions, the newest first."""

    sessions: tuple[SessionLine, ...]


class GetReadModels(Moment):
    """All read models of a session."""

    window: int = Field(default=WINDOW, ge=0, le=MAX_WINDOW)


async def _state(runtime: Runtime, asked: Moment) -> State:
    return await runtime.state_at(asked.session_id, asked.at)


@command(ListSessions, Sessions, effect="reads")
async def list_sessions(runtime: Runtime, asked: ListSessions) -> Sessions:
    """The sessions of this runtime, the newest first."""
    lines = []
    for session_id in reversed(runtime.kernel.session_ids()[-asked.limit :]):
        snapshot = session_snapshot(runtime.kernel.state(session_id), window=0)
        lines.append(
            SessionLine(
                session_id=session_id,
                title=snapshot.title,
                status=snapshot.status,
                sequence=snapshot.up_to_sequence or 0,
            )
        )
    return Sessions(sessions=tuple(lines))


@command(GetSession, SessionSnapshot, effect="reads")
async def get_session(runtime: Runtime, asked: GetSession) -> SessionSnapshot:
    """A session: its shell, its threads, its latest steps and the cursor into the history before them."""
    return session_snapshot(await _state(runtime, asked), window=asked.window, before=asked.before)


@command(GetThread, ThreadReadModel, effect="reads")
async def get_thread_read(runtime: Runtime, asked: GetThread) -> ThreadReadModel:
    """A thread: what runs, what waits, what is open, how the last turn ended and what went wrong."""
    state = await _state(runtime, asked)
    if asked.thread_id not in state.threads:
        raise NotFound("thread", asked.thread_id)
    return thread_read(state, asked.thread_id, window=asked.window)


@command(GetReadModels, ReadModels, effect="reads")
async def get_read_models(runtime: Runtime, asked: GetReadModels) -> ReadModels:
    """Every read model of a session at once."""
    return read_models(await _state(runtime, asked), window=asked.window)


@command(GetTools, ToolInventorySnapshot, effect="reads")
async def get_tool_inventory(runtime: Runtime, asked: GetTools) -> ToolInventorySnapshot:
    """The tools for a caller, a policy and a mode, each with what happens when it is called."""
    if asked.session_id is not None:
        state = runtime.kernel.state(asked.session_id)
        if (found := tool_inventory(state)) is not None and not (asked.caller or asked.policy or asked.mode):
            return found
    return runtime.inventory(caller=asked.caller, policy=asked.policy, mode=asked.mode)
