"""Reading a segment so that damage costs only the records it touched."""

import sqlite3
from collections.abc import Iterable
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
    """`changed` (its hash is wrong), `missing` (its position is not there), `unreadable` (SQLite cannot walk it)."""

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
    unique = {row.position: row for row in salvage.scan(file.path) if intact(row) is not None}
    return [unique[position] for position in sorted(unique)]


def check(file: SegmentFile, previous: tuple[int, bytes]) -> tuple[list[Finding], tuple[int, bytes]]:
    """What is wrong in a segment that should begin after the `previous` (position, digest), and where it ends."""
    try:
        with closing(segment.connect(file)) as connection:
            return _check(file.number, segment.header(connection), segment.rows(connection), previous)
    except (sqlite3.DatabaseError, OverflowError, TypeError) as problem:
        unreadable = Finding(file.number, "unreadable", None, None, str(problem))
        found, end = _check(file.number, None, salvaged(file), previous)
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
    for row in rows:
        if row.position > expected + 1:
            found.append(Finding(number, "missing", expected + 1, row.position - 1, "not in the file"))
            candidates = set()
        right = {row.chained(candidate) for candidate in candidates}
        if intact(row) is None:
            found.append(Finding(number, "changed", row.position, row.position, "its body does not have its hash"))
        elif candidates and row.digest not in right:
            found.append(
                Finding(number, "changed", row.position, row.position, "it does not continue the record before it")
            )
        # where a digest itself was changed, the next record may continue either what it says or what it should say
        candidates = right | {row.digest}
        expected, digest = row.position, row.digest
    if head is not None and head.last_position is not None and head.last_position > expected:
        found.append(Finding(number, "missing", expected + 1, head.last_position, "not in the file"))
        expected, digest = head.last_position, head.last_digest or digest
    return found, (expected, digest)
