"""Strategies that fill every field of every shape of the vocabulary, by looking at its type."""

import types
from collections.abc import Hashable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

from hypothesis import strategies as st
from pydantic import JsonValue
from pydantic.types import AwareDatetime

from models.event import Event
from models.payload import Payload
from models.shape import Known, Shape

# Keys that look like declared fields in either spelling, so that a projection that renames inside maps is caught.
KEYS = st.sampled_from(["session_id", "sessionId", "tool_name", "toolName", "x", ""]) | st.text(max_size=5)
TEXT = st.text(max_size=8)
NAME = st.text(min_size=1, max_size=8)
NAMES = {"session_id", "thread_id", "turn_id", "event_id", "output_ref"}  # fields that may not be empty everywhere
NUMBER = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=4,
)
UNKNOWN_FIELDS = st.dictionaries(
    st.sampled_from(["vendor_field", "vendorField", "X-Trace", "with space"]), JSON, max_size=3
)
TIMES = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1)).map(lambda moment: moment.replace(tzinfo=UTC))
PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: TEXT,
    int: st.integers(min_value=0, max_value=2**70),
    float: NUMBER,
    bool: st.booleans(),
    datetime: TIMES,
    JsonValue: JSON,
    type(None): st.none(),
    timedelta: st.nothing(),
}


@cache
def told(annotation: Hashable) -> st.SearchStrategy[Any]:
    """Values of a type, never None unless the type has nothing else."""
    if annotation in PLAIN:
        return PLAIN[annotation]
    if annotation is AwareDatetime:
        return TIMES
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        for part in parts[1:]:
            if isinstance(part, Known):
                return st.sampled_from(part.values)
        return told(parts[0])
    if origin in (Union, types.UnionType):
        return st.one_of([told(part) for part in parts if part is not type(None)])
    if origin is tuple:
        return st.lists(told(parts[0]), min_size=1, max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(KEYS, told(parts[1]), min_size=1, max_size=2)
    if isinstance(annotation, type) and issubclass(annotation, Shape):
        return filled(annotation)
    if hasattr(annotation, "__supertype__"):
        return NAME
    raise TypeError(f"no strategy for {annotation!r}")


def annotations(shape: type[Shape]) -> dict[str, Any]:
    """The type of each field."""
    return {name: field.annotation for name, field in shape.model_fields.items()}


@cache
def filled(shape: type[Shape]) -> st.SearchStrategy[Any]:
    """A shape with every declared field told, and some fields that nobody declared."""
    fields = {name: NAME if name in NAMES else told(annotation) for name, annotation in annotations(shape).items()}
    return st.builds(lambda known, extra: shape(**extra, **known), st.fixed_dictionaries(fields), UNKNOWN_FIELDS)


def partly_filled(shape: type[Shape]) -> st.SearchStrategy[Any]:
    """A shape with any part of its fields told."""
    fields = {name: told(annotation) for name, annotation in annotations(shape).items()}
    chosen = st.lists(st.sampled_from(sorted(fields)), max_size=4, unique=True) if fields else st.just([])
    return chosen.flatmap(lambda names: st.builds(shape, **{name: fields[name] for name in names}))


@cache
def envelope() -> st.SearchStrategy[dict[str, Any]]:
    """Every field of the envelope but type and payload, and some that nobody declared."""
    fields = {
        name: NAME if name in NAMES else told(annotation)
        for name, annotation in annotations(Event).items()
        if name not in ("type", "payload")
    }
    fields["sequence"] = st.integers(min_value=0, max_value=2**62)
    known = st.fixed_dictionaries(fields)
    return st.builds(lambda known, extra: {**extra, **known}, known, UNKNOWN_FIELDS)


def events(event_type: str, payloads: st.SearchStrategy[Payload] | None = None) -> st.SearchStrategy[Event]:
    """Events of one type with every field of envelope and payload told."""
    chosen = filled(Payload.registry[event_type]) if payloads is None else payloads
    return st.builds(lambda fields, payload: Event(type=event_type, payload=payload, **fields), envelope(), chosen)
