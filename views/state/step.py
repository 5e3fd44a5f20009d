"""One event on its way into the state: what it changes is gathered here and becomes the next state at once."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from immutables import Map
from pydantic import BaseModel

from models.event import Event
from models.states import State as WorkState
from models.values import Fault
from views.state.lane import Lane
from views.state.record import Key, Record, Source
from views.state.shape import EMPTY_LANE, State
from views.state.talk_records import Note

R = TypeVar("R", bound=Record)
S = TypeVar("S", bound=BaseModel)

NOTHING: Map[Any, Any] = Map()
VOCABULARY = frozenset({*WorkState, "idle"})
"""The words for states that we show as they are; any other is kept as `native_status`."""


@cache
def blank(kind: type[R]) -> R:
    """A record that was told nothing."""
    return kind()


@cache
def common_fields(kind: type[BaseModel], told: type[BaseModel]) -> tuple[str, ...]:
    """The fields that two shapes share."""
    return tuple(name for name in kind.model_fields if name in told.model_fields)


def evolved(record: R, changes: dict[str, Any]) -> R:
    """The record with some fields changed: `model_copy` without copying what never changes, at a third of the time."""
    made = object.__new__(type(record))
    object.__setattr__(made, "__dict__", {**record.__dict__, **changes})
    for slot in ("__pydantic_extra__", "__pydantic_fields_set__", "__pydantic_private__"):
        object.__setattr__(made, slot, getattr(record, slot))
    return made


def narrow(kind: type[S], told: BaseModel) -> S | None:
    """What a wider shape tells about a narrower one; None if that is nothing."""
    values = {name: value for name in common_fields(kind, type(told)) if (value := getattr(told, name)) is not None}
    return kind.model_construct(**values) if values else None


class Step:
    """Collects the changes of one event. Nothing it is told can make it raise: reading is by declared names only."""

    def __init__(self, state: State, event: Event) -> None:
        self.state, self.event = state, event
        self.readable = event.payload.event_type == event.type
        self._said: dict[str, Any] = event.payload.__dict__ if self.readable else {}
        self.at = event.timestamp
        self.number = state.event_count
        """The ordinal of the event."""
        self.doubted = False
        """Whether the event may not come now, by the rules of the states."""
        self._source = Source(event.event_id, event.sequence, event.type)
        self._records: dict[tuple[str, Key], Record] = {}
        self._told: dict[tuple[str, Key], dict[str, Source]] = {}
        self._lanes: dict[tuple[str, ...], Lane[Any]] = {}
        self._open: dict[str, dict[Key, bool]] = {}
        self._index: dict[tuple[str, ...], str] = {}
        self._counts: dict[tuple[str, str], int] = {}
        self._gone: list[tuple[str, Key]] = []
        self._notes = 0

    # --- what the event tells ----------------------------------------------------------------------------------

    def told(self, name: str) -> Any:
        """A field of the payload; None if the payload is not valid for its type."""
        return self._said[name] if self.readable else None

    def maybe(self, name: str) -> Any:
        """A field that only some of the types that come here have."""
        return self._said.get(name)

    def pick(self, *names: str) -> dict[str, Any]:
        """Several fields of the payload."""
        return {name: self._said[name] for name in names} if self.readable else {}

    def named(self, name: str) -> str | None:
        """An identity: of the envelope, else as the payload repeats it."""
        return getattr(self.event, name) or self.maybe(name) or None

    def told_status(self, default: str) -> tuple[str, str | None, str | None]:
        """The status that the event tells, its native word and its reason; `default` is what the type itself says."""
        told = self.maybe("status") or self.event.status
        native = self.maybe("native_status") or self.event.native_status
        reason = self.maybe("status_reason") or self.event.status_reason
        if told is None or told in VOCABULARY:
            return told or default, native, reason
        return default, native or told, reason

    def fault(self) -> Fault | None:
        """What went wrong, by an event of failure."""
        names = {"category": "failure_category", "message": "message", "code": "error_code"}
        names |= {"retryable": "retryable", "error_ref": "error_ref"}
        values = {name: value for name, field in names.items() if (value := self.maybe(field)) is not None}
        return Fault.model_construct(**values) if values else None

    def narrowed(self, kind: type[S]) -> S | None:
        """What the payload tells about a shape."""
        return narrow(kind, self.event.payload) if self.readable else None

    # --- records -----------------------------------------------------------------------------------------------

    def get(self, kind: type[R], key: Key | None = "") -> R | None:
        """A record as it is after what was told so far; None if there is none."""
        if key is None:
            return None
        found = self._records.get((kind.family, key))
        if found is None:
            held = getattr(self.state, kind.family)
            found = held if kind.single else held.get(key)
        return found  # type: ignore[return-value]  # a family holds records of one kind only

    def put(self, kind: type[R], key: Key = "", /, **told: Any) -> R:
        """Set the fields that were told; those that are None keep their value."""
        return self.assign(kind, key, **{name: value for name, value in told.items() if value is not None})

    def assign(self, kind: type[R], key: Key = "", /, **values: Any) -> R:
        """Set fields, to None as well. A leaf that keeps its value also keeps its source."""
        before = self.get(kind, key) or blank(kind)
        held = before.__dict__
        changed = {name: value for name, value in values.items() if held[name] != value}
        place = (kind.family, key)
        if not changed:
            self._records.setdefault(place, before)
            return before
        after = evolved(before, changed)
        self._records[place] = after
        self._told.setdefault(place, {}).update(dict.fromkeys(changed, self._source))
        return after

    def changed_records(self, kind: type[R]) -> list[tuple[R | None, R]]:
        """The records of a kind that the event changed: before it, and now."""
        held = getattr(self.state, kind.family)
        changed = [(key, record) for (family, key), record in self._records.items() if family == kind.family]
        return [(held.get(key), record) for key, record in changed]  # type: ignore[misc]  # one kind per family

    def put_part(self, kind: type[R], key: Key, name: str, part: BaseModel | None) -> None:
        """Set the told fields inside a leaf; each remembers its own event."""
        if part is None:
            return
        before = self.get(kind, key) or blank(kind)
        whole = getattr(before, name)
        values = {field: value for field, value in part.__dict__.items() if value is not None}
        merged = part if whole is None else whole.model_copy(update=values)
        if merged == whole:
            return
        self._records[kind.family, key] = evolved(before, {name: merged})
        sources = {name, *(f"{name}.{field}" for field in values)}
        self._told.setdefault((kind.family, key), {}).update(dict.fromkeys(sources, self._source))

    def put_map(self, kind: type[R], key: Key, name: str, told: dict[str, Any] | None) -> None:
        """Set the told keys of a map; each remembers its own event."""
        if not told:
            return
        before = self.get(kind, key) or blank(kind)
        whole = getattr(before, name)
        merged = {**(whole or {}), **told}
        if merged != whole:
            self._records[kind.family, key] = evolved(before, {name: merged})
            sources = {name, *(f"{name}.{field}" for field in told)}
            self._told.setdefault((kind.family, key), {}).update(dict.fromkeys(sources, self._source))

    def drop(self, kind: type[Record], key: Key) -> None:
        """Take a record away."""
        self._records.pop((kind.family, key), None)
        self._told.pop((kind.family, key), None)
        self._gone.append((kind.family, key))

    # --- orders and indices ------------------------------------------------------------------------------------

    def lane(self, *key: str) -> Lane[Any]:
        """An order as it is now."""
        found = self._lanes.get(key)
        return self.state.lanes.get(key, EMPTY_LANE) if found is None else found

    def append(self, key: tuple[str, ...], value: Any) -> int:
        """Add to the end of an order; gives the place."""
        lane = self.lane(*key)
        self._lanes[key] = lane.append(value)
        return lane.end

    def append_once(self, key: tuple[str, ...], value: str) -> None:
        """Add to the end of an order unless it is there already."""
        if self.look_up(*key, value) is None:
            self.append(key, value)
            self.name((*key, value), value)

    def set_lane(self, key: tuple[str, ...], lane: Lane[Any]) -> None:
        """Put another order in the place of one."""
        self._lanes[key] = lane

    def set_open(self, kind: type[Record], key: Key, is_open: bool) -> None:
        """Remember whether the work goes on."""
        self._open.setdefault(kind.family, {})[key] = is_open

    def is_open(self, kind: type[Record], key: Key | None) -> bool:
        """Whether the work goes on."""
        if key is None:
            return False
        changed = self._open.get(kind.family, {}).get(key)
        return changed if changed is not None else key in self.state.open.get(kind.family, NOTHING)

    def open_keys(self, kind: type[Record]) -> tuple[Key, ...]:
        """Work of a kind that goes on, in the order of its keys."""
        keys = set(self.state.open.get(kind.family, NOTHING)) | set(self._open.get(kind.family, ()))
        return tuple(sorted((key for key in keys if self.is_open(kind, key)), key=str))

    def look_up(self, *name: str) -> str | None:
        """What another name stands for."""
        return self._index.get(name) or self.state.index.get(name)

    def name(self, name: tuple[str, ...], value: str) -> None:
        """Give another name; the first one who had it keeps it."""
        if self.look_up(*name) is None:
            self._index[name] = value

    def count(self, family: str, name: str, by: int = 1) -> None:
        """Count."""
        self._counts[family, name] = self._counts.get((family, name), 0) + by

    def note(self, code: str, message: str) -> None:
        """Remember what could not be taken at face value."""
        event = self.event
        self.put(
            Note,
            f"{self.number}.{self._notes}",
            code=code,
            message=message,
            event_id=event.event_id,
            event_type=event.type,
            sequence=event.sequence,
            thread_id=event.thread_id,
            task_id=event.task_id,
            at=event.timestamp,
        )
        self.append(("notes",), f"{self.number}.{self._notes}")
        self._notes += 1

    # --- the next state ----------------------------------------------------------------------------------------

    def finish(self, *, taken: bool = True) -> State:
        """The state after the event; one that was not taken moves no cursor."""
        state, event = self.state, self.event
        changes: dict[str, Any] = {"event_count": self.number + 1}
        if taken:
            changes |= {"last_event_id": event.event_id, "updated_at": event.timestamp}
            if event.sequence is not None:
                changes["sequence"] = event.sequence
            if not state.session_id and event.session_id:
                changes["session_id"] = event.session_id
        changes |= self._families()
        if self._lanes:
            changes["lanes"] = state.lanes.update(self._lanes)
        if self._index:
            changes["index"] = state.index.update(self._index)
        if self._open:
            changes["open"] = self._still_open()
        if self._counts:
            totals = {name: state.counts.get(name, 0) + by for name, by in self._counts.items()}
            changes["counts"] = state.counts.update(totals)
        if self._told or self._gone:
            changes["sources"] = self._sources()
        return state.changed(changes)

    def _families(self) -> dict[str, Any]:
        changes: dict[str, Any] = {}
        by_family: dict[str, dict[Key, Record]] = {}
        for (family, key), record in self._records.items():
            by_family.setdefault(family, {})[key] = record
        for family, records in by_family.items():
            held = getattr(self.state, family)
            changes[family] = records[""] if Record.kinds[family].single else held.update(records)
        for family, key in self._gone:
            held = changes.get(family, getattr(self.state, family))
            if key in held:
                changes[family] = held.delete(key)
        if by_family:
            changes["touched"] = self.state.touched.update(dict.fromkeys(by_family, self.at))
        return changes

    def _still_open(self) -> Map[str, Map[Key, bool]]:
        whole = self.state.open
        for family, changed in self._open.items():
            part = whole.get(family, NOTHING).mutate()
            for key, is_open in changed.items():
                if is_open:
                    part[key] = True
                else:
                    part.pop(key, None)
            whole = whole.set(family, part.finish())
        return whole

    def _sources(self) -> Map[tuple[str, Key], Map[str, Source]]:
        sources = self.state.sources.mutate()
        for place, told in self._told.items():
            sources[place] = sources.get(place, NOTHING).update(told)
        for place in self._gone:
            sources.pop(place, None)
        return sources.finish()
