"""Reading a segment so that damage costs only the records it touched."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

from journal import salvage, segment
from journal.record import Record, Sealed, body_digest
from journal.segment import Header, SegmentFile


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing wrong with the journal."""

    segment: int
    problem: str
    """`changed` (its hash is wrong), `missing` (its position is not there), `unreadable` (SQLite cannot walk it), `set
    aside` (a segment was damaged; what could be saved of it is in its place)."""

    first_position: int | None
    last_position: int | None
    detail: str

    def __str__(self) -> str:
        if self.first_position is None:
            return f"segment {self.segment}: {self.problem}: {self.detail}"
        span = (
            f"record {self.first_position}"
            if self.first_position == self.last_position
            else f"records {self.first_position} to {self.last_position}"
        )
        return f"segment {self.segment}: {span} {self.problem}: {self.detail}"

    @property
    def records(self) -> int:
        """How many records are lost by it."""
        if self.first_position is None or self.last_position is None:
            return 0
        return self.last_position - self.first_position + 1


def intact(sealed: Sealed) -> Record | None:
    """The record, if its body still has the digest it was stored with."""
    try:
        body = segment.plain_body(sealed)
        if body_digest(body) != sealed.body_digest:
            return None
        return sealed.opened(body)
    except ValueError:
        return None


def salvaged(file: SegmentFile) -> list[Sealed]:
    """Every record of a damaged segment whose hash is right, found page by page, in order."""
    versions: dict[int, dict[bytes, Sealed]] = {}
    for row in salvage.scan(file.path):
        if row.digest not in versions.get(row.position, {}) and intact(row) is not None:
            versions.setdefault(row.position, {})[row.digest] = row
    chosen: list[Sealed] = []
    for position in sorted(versions):
        # A log also holds what was taken back before its commit: the one that continues the chain is the record.
        rows = list(versions[position].values())
        before = chosen[-1].digest if chosen and chosen[-1].position == position - 1 else None
        continuing = [row for row in rows if before is not None and row.digest == row.chained(before)]
        chosen.append((continuing or rows)[-1])
    return chosen


@dataclass(frozen=True, slots=True)
class Followed:
    """A row with what following the hashes says of it."""

    row: Sealed
    record: Record | None
    """None where it is not as it was written."""

    problem: str


def follow(rows: Iterable[Sealed], before: set[bytes], position: int) -> Iterator[Followed]:
    """Check each row against its hash and against the row before it, given the digests the first may continue."""
    for row in rows:
        if row.position > position + 1:
            before = set()  # what it continues is gone
        right = {row.chained(digest) for digest in before}
        record = intact(row)
        problem = "its body does not have its hash"
        if record is not None and before and row.digest not in right:
            record, problem = None, "it does not continue the record before it"
        yield Followed(row, record, "" if record is not None else problem)
        # where a digest itself was changed, the next record may continue either what it says or what it should say
        before, position = right | {row.digest}, row.position


def check(file: SegmentFile, previous: tuple[int, bytes]) -> tuple[list[Finding], tuple[int, bytes]]:
    """What is wrong in a segment that should begin after the `previous` (position, digest), and where it ends."""
    try:
        with closing(segment.connect(file)) as connection:
            return _check(file.number, segment.header(connection), segment.rows(connection), previous)
    except (sqlite3.DatabaseError, OverflowError, TypeError) as problem:
        unreadable = Finding(file.number, "unreadable", None, None, str(problem))
        found, end = _check(file.number, None, salvaged(segment.found_again(file)), previous)
        return [unreadable, *found], end


def _check(
    number: int, head: Header | None, rows: Iterable[Sealed], previous: tuple[int, bytes]
) -> tuple[list[Finding], tuple[int, bytes]]:
    found: list[Finding] = []
    expected, digest = previous
    candidates = {digest}
    if head is not None and head.first_position > expected + 1:
        found.append(Finding(number - 1, "missing", expected + 1, head.first_position - 1, "not in the file"))
        expected, candidates = head.first_position - 1, {head.previous_digest}
    elif head is not None and head.previous_digest != digest:
        found.append(Finding(number, "changed", None, None, "its header does not continue the segment before it"))
        candidates.add(head.previous_digest)
    for one in follow(rows, candidates, expected):
        row = one.row
        if row.position > expected + 1:
            found.append(Finding(number, "missing", expected + 1, row.position - 1, "not in the file"))
        if one.record is None:
            found.append(Finding(number, "changed", row.position, row.position, one.problem))
        expected, digest = row.position, row.digest
    if head is not None and head.last_position is not None and head.last_position > expected:
        found.append(Finding(number, "missing", expected + 1, head.last_position, "not in the file"))
        expected, digest = head.last_position, head.last_digest or digest
    return found, (expected, digest)
