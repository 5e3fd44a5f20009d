"""What the journal keeps: byte records, each bound to the one before it by a hash."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import orjson

GENESIS = bytes(32)
"""The digest before the first record."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a caller hands in."""

    kind: str
    """What the body is, for example `otlp.traces`."""

    body: bytes
    """Kept byte for byte."""

    meta: dict[str, Any] = field(default_factory=dict)
    """Small facts about the body, kept as JSON."""

    items: int = 1
    """How many things the body holds; for counting without decoding."""


@dataclass(frozen=True, slots=True)
class Record:
    """What a reader gets: an entry with its place."""

    position: int
    """Place in the journal, from 1, without holes."""

    kind: str
    received_ns: int
    """When it was handed in, in nanoseconds since 1970."""

    items: int
    meta: dict[str, Any]
    body: bytes


@dataclass(frozen=True, slots=True)
class Sealed:
    """A record as it lies on disk: header, digests and the body as stored."""

    position: int
    kind: str
    received_ns: int
    items: int
    size: int
    meta: str
    body_digest: bytes
    digest: bytes
    codec: str
    body: bytes

    def chained(self, previous: bytes) -> bytes:
        """The digest this record should carry after `previous`."""
        return chain(previous, self.position, self.kind, self.received_ns, self.items, self.meta, self.body_digest)

    def opened(self, body: bytes) -> Record:
        """The record for a reader, given its uncompressed body."""
        return Record(self.position, self.kind, self.received_ns, self.items, orjson.loads(self.meta), body)


def body_digest(body: bytes) -> bytes:
    """The digest of a body as handed in, whatever compression it gets later."""
    return hashlib.sha256(body).digest()


def chain(
    previous: bytes, position: int, kind: str, received_ns: int, items: int, meta: str, body_digest: bytes
) -> bytes:
    """The digest of a record: it covers the record and, through `previous`, everything before it."""
    header = orjson.dumps([position, kind, received_ns, items, meta])
    return hashlib.sha256(previous + header + body_digest).digest()
