"""The kernel: facts are appended to the runtime's journal, and state is what the one reducer makes of them."""

from __future__ import annotations

import asyncio
import hashlib
from array import array
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

import orjson

from models.errors import Conflict, NotFound
from models.event import Correlation, Event
from models.payload import Payload
from models.shape import JsonMap
from runtime.checkpoints import CheckpointFiles
from runtime.contents import Contents
from runtime.telemetry import Telemetry
from runtime.telemetry.encoding import LOGS, decode_fact
from runtime.telemetry.numbering import SEQUENCE, SESSION
from views.state import State, apply

READ_RECORDS = 500
"""So many records of the journal are read at a time when facts are read back."""


OPENING = {
    **{"turn.submitted": 1, "turn.completed": -1, "turn.failed": -1},
    **{"action.required": 1, "action.resolved": -1},
    "task.created": 10**9,  # a task may be begun again after any end, so a session with tasks is always looked at
}
"""How facts add to the open work of a session."""


class Draft(NamedTuple):
    """A fact before it is stored; session, request and event ids are added when it is."""

    payload: Payload
    ids: Correlation = Correlation()
    refs: JsonMap | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """A command as it is remembered: the same key twice is the same request."""

    command: str
    key: str
    sha256: str

    @classmethod
    def of(cls, command: str, key: str, content: JsonMap) -> Request:
        """The request that a command with this content is."""
        told = {name: value for name, value in content.items() if name != "idempotency_key"}
        digest = hashlib.sha256(orjson.dumps(told, option=orjson.OPT_SORT_KEYS)).hexdigest()
        return cls(command, key, digest)


@dataclass(slots=True)
class Session:
    """What the kernel holds of one session: its state, where its facts are, and who may write."""

    state: State
    positions: array[int]
    """The journal position of each fact; the first has number 1."""

    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: list[asyncio.Future[None]] = field(default_factory=list)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds, looking after each change."""
        while not condition():
            change = asyncio.get_running_loop().create_future()
            self.waiting.append(change)
            await change

    def changed(self) -> None:
        """Let all who wait look again."""
        for change in self.waiting:
            if not change.done():
                change.set_result(None)
        self.waiting.clear()


class Kernel:
    """Holds the state of every session of one runtime.

    Durable: `commit` returns when its facts are on disk, all of them or none. Live state equals the fold of the
    journal: every fact, also one that the telemetry records about itself, goes through `apply` in its order.
    Everything runs in one event loop.
    """

    def __init__(self, telemetry: Telemetry, contents: Contents, checkpoints: CheckpointFiles) -> None:
        self.telemetry = telemetry
        self.contents = contents
        self._checkpoints = checkpoints
        self._sessions: dict[str, Session] = {}
        self._resting: dict[str, array[int]] = {}
        """Sessions of which only the places of their facts are known; they are folded when somebody asks."""

        self.beginners: dict[str, str] = {}
        """The session that a request began, by the request's key."""

        self.unfinished: set[str] = set()
        """Sessions that may have had work under way when the runtime ended."""

        self._loop = asyncio.get_running_loop()
        self.on_facts: list[Callable[[Sequence[Event]], None]] = []
        """Told of every fact after it was applied, in order."""

        self._find_facts()
        telemetry.listener = self._stored

    @property
    def clock(self) -> Callable[[], datetime]:
        """The time, as it was passed in."""
        return self.telemetry.clock

    def new_id(self, kind: str) -> str:
        """A name for a new thing, from the source that was passed in."""
        return f"{kind}_{self.telemetry.new_id()}"

    # --- reading -----------------------------------------------------------------------------------------------

    def session_ids(self) -> list[str]:
        """Every session there is."""
        return [*self._resting, *self._sessions]

    def loaded(self) -> list[str]:
        """The sessions whose state is in memory."""
        return list(self._sessions)

    def known(self, session_id: str) -> bool:
        """Whether there is such a session."""
        return session_id in self._sessions or session_id in self._resting

    def state(self, session_id: str) -> State:
        """The state of a session as of its last fact."""
        return self._session(session_id).state

    def events(self, session_id: str, after: int = 0, up_to: int | None = None) -> Iterator[Event]:
        """The facts of a session from the journal, in order, after a number."""
        positions = self._positions(session_id)
        end = len(positions) if up_to is None else min(up_to, len(positions))
        at = max(after, 0)
        while at < end:
            for record in self.telemetry.journal.read(positions[at] - 1, READ_RECORDS):
                if at >= end:
                    return
                if record.meta.get(SESSION) == session_id and record.meta.get(SEQUENCE) == at + 1:
                    yield decode_fact(record.body)
                    at += 1

    def facts_of(self, types: frozenset[str]) -> Iterator[Event]:
        """Every fact of these types in the journal, of any session or none, in order."""
        after = 0
        while records := self.telemetry.journal.read(after):
            for record in records:
                if record.meta.get("type") in types:
                    yield decode_fact(record.body)
            after = records[-1].position

    async def follow(self, session_id: str, after: int = 0) -> AsyncGenerator[Event, None]:
        """The facts of a session after a number: those there are, then each as it comes."""
        session = self._session(session_id)
        while True:
            seen = after
            await session.until(lambda: len(session.positions) > seen)  # noqa: B023 - it is awaited here
            for event in self.events(session_id, after):
                yield event
                after = event.sequence or after

    async def until(self, session_id: str, condition: Callable[[State], bool]) -> State:
        """Wait until the state of a session fulfils a condition."""
        session = self._session(session_id)
        await session.until(lambda: condition(session.state))
        return session.state

    # --- writing -----------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def writing(self, session_id: str) -> AsyncIterator[State]:
        """Nobody else writes to the session inside; gives its state, an empty one for a session that is to begin."""
        if not self.known(session_id):
            self._sessions[session_id] = Session(State.empty(session_id), array("Q"))
        session = self._session(session_id)
        try:
            async with session.writing:
                yield session.state
        finally:
            if not session.positions and not session.writing.locked():
                self._sessions.pop(session_id, None)  # it did not begin

    async def record(self, session_id: str, *drafts: Draft) -> list[Event]:
        """Store facts that no other writer's facts can make wrong."""
        async with self.writing(session_id):
            return await self.commit(session_id, drafts)

    async def tell(self, event: Event) -> Event:
        """Store a fact about the runtime itself, which belongs to no session."""
        return await asyncio.to_thread(self.telemetry.emit, event)

    async def commit(self, session_id: str, drafts: Sequence[Draft], *, request: Request | None = None) -> list[Event]:
        """Store facts together, durably, and apply them; to be called inside `writing`."""
        if not drafts:
            return []
        session = self._session(session_id)
        moment = self.clock()
        events = [self._event(session_id, draft, moment, request, first=at == 0) for at, draft in enumerate(drafts)]
        await self.contents.settle()  # what the facts refer to is on disk before they are
        stored = await asyncio.to_thread(self.telemetry.emit_all, events)
        last = stored[-1].sequence or 0
        if len(session.positions) < last:
            # The listener's word is on its way to the loop: facts are applied in their order, by that way alone.
            await session.until(lambda: len(session.positions) >= last)
        return stored

    def _event(self, session_id: str, draft: Draft, moment: datetime, request: Request | None, *, first: bool) -> Event:
        told = {name: value for name, value in draft.ids if value is not None}
        refs = dict(draft.refs or {})
        if request is not None:
            told["request_id"] = request.key
            if first:
                refs |= {"command": request.command, "command_sha256": request.sha256}
        told["session_id"] = session_id
        return Event(
            type=draft.payload.event_type,
            event_id=self.telemetry.new_id(),
            timestamp=moment,
            payload=draft.payload,
            refs=refs or None,
            **told,
        )

    @staticmethod
    def repeated(state: State, request: Request) -> bool:
        """Whether a request with this key was carried out before; raises Conflict if it was another one."""
        before = state.requests.get(request.key)
        if before is None:
            return False
        if (before.command, before.command_sha256) != (request.command, request.sha256):
            raise Conflict(
                f"the key {request.key!r} was used for another {before.command}",
                next_step="use a new key for a new request",
            )
        return True

    # --- facts become state ------------------------------------------------------------------------------------

    def _stored(self, positions: list[int], events: Sequence[Event]) -> None:
        """Called in the thread that recorded the facts, in their order."""
        self._loop.call_soon_threadsafe(self._take, positions, events)

    def _take(self, positions: list[int], events: Sequence[Event]) -> None:
        session_id = events[0].session_id
        if session_id is not None and self.known(session_id):
            session = self._session(session_id)
            # A session that was just read from the journal has these facts already.
            known = len(session.positions)
            for position, event in zip(positions, events, strict=True):
                if event.type == "session.created":
                    self._note_beginning(event)
                if (event.sequence or 0) > known:
                    session.state = apply(session.state, event)
                    session.positions.append(position)
            self._checkpoints.offer(session.state)
            session.changed()
        for listener in self.on_facts:
            listener(events)

    def _note_beginning(self, event: Event) -> None:
        if event.request_id is not None and event.session_id is not None:
            self.beginners[event.request_id] = event.session_id

    def _session(self, session_id: str) -> Session:
        if session_id in self._resting:
            positions = self._resting[session_id]
            state = self._checkpoints.load(session_id, len(positions)) or State.empty(session_id)
            for event in self.events(session_id, state.sequence or 0):
                state = apply(state, event)
            self._sessions[session_id] = Session(state, self._resting.pop(session_id))
        if session_id not in self._sessions:
            raise NotFound("session", session_id)
        return self._sessions[session_id]

    def _positions(self, session_id: str) -> array[int]:
        if session_id in self._resting:
            return self._resting[session_id]
        if session_id not in self._sessions:
            raise NotFound("session", session_id)
        return self._sessions[session_id].positions

    def _find_facts(self) -> None:
        """Where the facts of each session are, and which sessions may have open work, from the journal."""
        after = 0
        open_work: Counter[str] = Counter()
        while records := self.telemetry.journal.read(after):
            for record in records:
                session = record.meta.get(SESSION)
                if record.kind == LOGS and session is not None:
                    self._resting.setdefault(session, array("Q")).append(record.position)
                    open_work[session] += OPENING.get(record.meta.get("type", ""), 0)
                if record.meta.get("type") == "session.created":
                    self._note_beginning(decode_fact(record.body))
            after = records[-1].position
        self.unfinished = {session for session, count in open_work.items() if count > 0}
