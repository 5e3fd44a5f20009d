"""Which single records cannot be stored, and the note of them that goes back to the sender."""

from collections.abc import Sequence
from dataclasses import dataclass, field

_TOLD = 3
"""Only the first few reasons are told: the answer must stay small however many records are bad."""


@dataclass(slots=True)
class Rejections:
    """The records of one request that were refused, and why."""

    noun: str
    count: int = 0
    reasons: list[str] = field(default_factory=list)

    def add(self, at: int, why: str, count: int = 1) -> None:
        """Note that `count` records were refused; `at` is the place of the bad thing among its siblings."""
        self.count += count
        if len(self.reasons) < _TOLD:
            self.reasons.append(f"{self.noun} {at}: {why}")

    @property
    def message(self) -> str:
        """One line for the sender; empty when nothing was refused."""
        if not self.count:
            return ""
        more = self.count - len(self.reasons)
        return "; ".join(self.reasons) + (f"; and {more} more" if more > 0 else "")


@dataclass(frozen=True, slots=True)
class IdRule:
    """What the ids of a kind of record must be. Ids in links and exemplars are not looked at: they are kept as sent."""

    required: dict[str, int]
    """Fields that must be there, not all zero, with their length in bytes."""
    optional: dict[str, int]
    """Fields that may be empty."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The names, in the order in which ids are given."""
        return (*self.required, *self.optional)

    def all_sound(self, columns: Sequence[Sequence[bytes]]) -> bool:
        """Whether the ids of many records, one column per field, all fit; much faster than one by one."""
        needed, allowed = columns[: len(self.required)], columns[len(self.required) :]
        return all(
            set(map(len, column)) == {size} and bytes(size) not in column
            for column, size in zip(needed, self.required.values(), strict=True)
        ) and all(
            set(map(len, column)) <= {0, size} for column, size in zip(allowed, self.optional.values(), strict=True)
        )

    def fault(self, *ids: bytes) -> str | None:
        """Why a record with these ids cannot be stored."""
        for value, (name, size) in zip(ids, self.required.items(), strict=False):
            if len(value) != size or not any(value):
                return f"{name} must be {size} bytes, not all zero"
        for value, (name, size) in zip(ids[len(self.required) :], self.optional.items(), strict=True):
            if value and len(value) != size:
                return f"{name} must be empty or {size} bytes"
        return None


SPAN_IDS = IdRule(required={"trace_id": 16, "span_id": 8}, optional={"parent_span_id": 8})
LOG_IDS = IdRule(required={}, optional={"trace_id": 16, "span_id": 8})
"""A log record need not belong to a span."""
