"""A list that can be extended, cut and read from its end at a cost that does not grow with its length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from immutables import Map

T = TypeVar("T")


@dataclass(frozen=True)
class Lane(Generic[T]):
    """Numbered entries, oldest first. A number is given once; an entry that was removed leaves a hole."""

    entries: Map[int, T] = field(default_factory=Map)
    end: int = 0
    """The number that the next entry gets, as long as nothing at the end was removed."""

    def append(self, value: T) -> Lane[T]:
        """The lane with one more entry, whose number is the `end` of this one."""
        return Lane(self.entries.set(self.end, value), self.end + 1)

    def put(self, number: int, value: T) -> Lane[T]:
        """The lane with another value at a number that it has."""
        return Lane(self.entries.set(number, value), self.end)

    def remove(self, numbers: Iterator[int]) -> Lane[T]:
        """The lane without these entries; holes at its end are closed, so that reading from the end stays cheap."""
        entries, end = self.entries.mutate(), self.end
        for number in numbers:
            entries.pop(number, None)
        left = entries.finish()
        while end and end - 1 not in left:
            end -= 1
        return Lane(left, end)

    def newest(self) -> Iterator[tuple[int, T]]:
        """Entries with their numbers, the newest first."""
        for number in range(self.end - 1, -1, -1):
            if number in self.entries:
                yield number, self.entries[number]

    def last(self, count: int | None = None) -> tuple[T, ...]:
        """The newest entries, oldest of them first; all if no count is given."""
        found: list[T] = []
        for _, value in self.newest():
            if count is not None and len(found) >= count:
                break
            found.append(value)
        return tuple(reversed(found))

    def __iter__(self) -> Iterator[T]:
        """All entries, the oldest first."""
        return (self.entries[number] for number in range(self.end) if number in self.entries)

    def __len__(self) -> int:
        return len(self.entries)
