"""A state as bytes and back, the state at any cursor, and states kept on the way so that a step back is cheap."""

from __future__ import annotations

import gc
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin
from zlib import crc32

from immutables import Map
from pydantic import TypeAdapter
from pydantic_core import from_json, to_json

from models.event import Event
from models.shape import JsonMap, Timestamp
from views.state.lane import Lane
from views.state.record import Record, Source
from views.state.reducer import apply
from views.state.shape import State
from views.state.step import blank, evolved

VERSION = 2
"""To be raised when the reducer makes something else of the same events; old checkpoints are refused then."""

Cursor = int | datetime | str
"""A place in a session: an event's sequence, a moment (all that happened up to it), or an event's id."""

PLAIN = ("session_id", "sequence", "last_event_id", "event_count")
PAIRS = ("index", "counts")
PIECE = 1_000
"""So many entries make a line; between two lines other threads get their turn."""


def dump(state: State) -> bytes:
    """The state as lines of JSON; sources are written once each and referred to by their number."""
    body = b"\n".join(to_json(line, by_alias=False) for line in _lines(state))
    return to_json({"layout": _layout(), "crc32": crc32(body)}) + b"\n" + body


def load(data: bytes) -> State:
    """The state that `dump` wrote; raise ValueError if it is damaged, of another version or not one at all."""
    first, _, rest = data.partition(b"\n")
    if from_json(first) != {"layout": _layout(), "crc32": crc32(rest)}:
        raise ValueError("not a whole checkpoint of this version")
    collects = gc.isenabled()
    gc.disable()  # nothing of the many small things made here can be garbage yet, and looking for it takes most time
    try:
        return _state(rest.splitlines())
    finally:
        if collects:
            gc.enable()


def _state(lines: list[bytes]) -> State:
    body = from_json(lines[0])
    parts: dict[str, list[Any]] = {}
    for line in lines[1:]:
        name, entries = from_json(line)
        parts.setdefault(name, []).extend(entries)
    values: dict[str, Any] = {name: body[name] for name in PLAIN}
    values["updated_at"] = _moment(body["updated_at"])
    values["touched"] = Map({family: _moment(at) for family, at in body["touched"].items()})
    for family in _families():
        values[family] = _load_family(family, parts.get(family, []))
    lanes = {
        _key(key): Lane(Map({n: _key(v) for n, v in entries}), end) for key, end, entries in parts.get("lanes", ())
    }
    values["lanes"] = Map(lanes)
    values["open"] = Map({family: Map({_key(key): True for key in keys}) for family, keys in body["open"].items()})
    values |= {name: Map({_key(key): value for key, value in parts.get(name, ())}) for name in PAIRS}
    events = [Source(*told) for told in parts.get("events", ())]
    told = parts.get("sources", ())
    values["sources"] = Map(
        {
            (family, _key(key)): Map({name: events[at] for at, *names in groups for name in names})
            for family, key, groups in told
        }
    )
    return State(**values)


def _lines(state: State) -> Iterator[Any]:
    head = {name: getattr(state, name) for name in PLAIN} | {"updated_at": state.updated_at}
    yield head | {
        "touched": dict(state.touched.items()),
        "open": {family: list(keys) for family, keys in state.open.items()},
    }
    sources: dict[Source, int] = {}
    parts: list[tuple[str, list[Any]]] = [(family, list(_records(state, family))) for family in _families()]
    parts.append(("lanes", [[key, lane.end, list(lane.entries.items())] for key, lane in state.lanes.items()]))
    parts += [(name, list(getattr(state, name).items())) for name in PAIRS]
    where = [[family, key, _grouped(told, sources)] for (family, key), told in state.sources.items()]
    parts += [("sources", where), ("events", list(sources))]
    for name, entries in parts:
        yield from ((name, entries[at : at + PIECE]) for at in range(0, len(entries), PIECE))


def _grouped(told: Map[str, Source], numbers: dict[Source, int]) -> list[list[Any]]:
    """The names of leaves by the event that set them: its number first."""
    groups: dict[Source, list[Any]] = {}
    for name, source in told.items():
        groups.setdefault(source, [numbers.setdefault(source, len(numbers))]).append(name)
    return list(groups.values())


@cache
def _layout() -> str:
    """The version, and a digest of all fields: a checkpoint of other records is not read."""
    names = [f"{family}.{name}" for family, kind in Record.kinds.items() for name in kind.model_fields]
    return f"{VERSION}-{crc32(' '.join(sorted(names)).encode()):08x}"


@cache
def _families() -> tuple[str, ...]:
    return tuple(one.name for one in fields(State) if one.name in Record.kinds)


def _records(state: State, family: str) -> Iterator[list[Any]]:
    held = getattr(state, family)
    entries = [("", held)] if Record.kinds[family].single else held.items()
    for key, record in entries:
        start = blank(Record.kinds[family]).__dict__
        yield [key, {name: value for name, value in record.__dict__.items() if value != start[name]}]


def _load_family(family: str, entries: list[Any]) -> Any:
    kind = Record.kinds[family]
    start, readers = blank(kind), _readers(kind)
    found = {}
    for key, told in entries:
        for name in told.keys() & readers.keys():
            if told[name] is not None:
                told[name] = readers[name](told[name])
        found[_key(key)] = evolved(start, told)
    return found[""] if kind.single else Map(found)


@cache
def _readers(kind: type[Record]) -> dict[str, Callable[[Any], Any]]:
    """How fields are read that JSON cannot tell as they are; validating whole records would take far longer."""
    readers: dict[str, Callable[[Any], Any]] = {}
    for name, field in kind.model_fields.items():
        wanted = set(_plain_types(field.annotation))
        if wanted == {datetime}:
            readers[name] = datetime.fromisoformat
        elif not wanted <= AS_THEY_ARE:
            shape: Any = field.annotation
            readers[name] = TypeAdapter(shape).validate_python
    return readers


AS_THEY_ARE = frozenset({str, int, float, bool, dict, Any})
"""Types whose values are the same after JSON."""


def _plain_types(annotation: Any) -> Iterator[Any]:
    """The types that a field may have, None left out."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield datetime if annotation == Timestamp else parts[0]
    elif origin in (Union, UnionType):
        for part in parts:
            yield from _plain_types(part)
    elif annotation is not NoneType:
        yield dict if annotation == JsonMap else annotation


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone(UTC)


def _key(key: Any) -> Any:
    return tuple(key) if isinstance(key, list) else key


def at(events: Iterable[Event], cursor: Cursor, start: State | None = None) -> State:
    """The state at a cursor. Events are in their order; a cursor past the end gives the state at the end."""
    state = start if start is not None else State()
    for event in _up_to(events, cursor):
        state = apply(state, event)
    return state


def _up_to(events: Iterable[Event], cursor: Cursor) -> Iterator[Event]:
    for event in events:
        if isinstance(cursor, datetime) and event.timestamp > cursor:
            return
        if isinstance(cursor, int) and event.sequence is not None and event.sequence > cursor:
            return
        yield event
        if isinstance(cursor, str) and event.event_id == cursor:
            return


class Checkpoints:
    """The events of a session with a state kept every so many, so that any cursor costs at most that many steps.

    States share what they have in common, so keeping one costs about what its events changed.
    """

    def __init__(self, events: Iterable[Event] = (), *, every: int = 100, start: State | None = None) -> None:
        self._every = every
        self._events: list[Event] = []
        self._places: dict[str, int] = {}
        self._kept: list[tuple[int, State]] = [(0, start if start is not None else State())]
        self._state = self._kept[0][1]
        self.extend(events)

    def extend(self, events: Iterable[Event]) -> None:
        """Take more events, in their order."""
        for event in events:
            self._events.append(event)
            self._places.setdefault(event.event_id, len(self._events))
            self._state = apply(self._state, event)
            if len(self._events) % self._every == 0:
                self._kept.append((len(self._events), self._state))

    def __len__(self) -> int:
        return len(self._events)

    @property
    def events(self) -> Sequence[Event]:
        """The events so far."""
        return self._events

    @property
    def last(self) -> State:
        """The state after all events."""
        return self._state

    def after(self, count: int) -> State:
        """The state after so many events."""
        count = max(0, min(count, len(self._events)))
        done, state = self._kept[bisect_right(self._kept, count, key=lambda one: one[0]) - 1]
        for event in self._events[done:count]:
            state = apply(state, event)
        return state

    def at(self, cursor: Cursor) -> State:
        """The state at a cursor; raise LookupError for the id of an event that is not here."""
        return self.after(self.place(cursor))

    def place(self, cursor: Cursor) -> int:
        """How many events a cursor takes into account."""
        if isinstance(cursor, str):
            if cursor not in self._places:
                raise LookupError(f"no event {cursor}")
            return self._places[cursor]
        return sum(1 for _ in _up_to(self._events, cursor))
