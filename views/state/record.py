"""What all records of the state have in common."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

from models.shape import Shape

Key = str | int | tuple[str, ...]
"""What names a record inside its family: an id, the ordinal of the event that made it, or several names together."""


class Source(NamedTuple):
    """The event that set a leaf."""

    event_id: str
    sequence: int | None
    type: str


class Record(Shape):
    """One record of the state. `family` is the attribute of `State` that holds all records of its kind."""

    family: ClassVar[str]
    single: ClassVar[bool] = False
    """Whether there is one record per session instead of a map of them."""

    kinds: ClassVar[dict[str, type[Record]]] = {}

    def __init_subclass__(cls, *, family: str, single: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.family, cls.single = family, single
        Record.kinds[family] = cls
