"""From accepted OTLP requests to rows of `records`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, cast

from ingest.batch import Batch, Part
from ingest.otlp.columnar import decode_columns
from ingest.otlp.columns import NotColumnar
from ingest.otlp.levels import Request
from ingest.otlp.otlp_json import json_to_protobuf
from ingest.otlp.plain import decode_plainly
from ingest.otlp.signals import SIGNALS, Encoding, SignalName

KIND_PREFIX = "otlp."
_CHUNK_BYTES = 64 * 1024 * 1024
"""Decoded together at most; escaped as JSON it may be six times as much, and an Arrow text column ends at 2 GiB."""


class JournalRecord(Protocol):
    """What the journal gives back of an accepted request."""

    @property
    def position(self) -> int: ...
    @property
    def kind(self) -> str:
        """`otlp.traces`, `otlp.logs` or `otlp.metrics`."""

    @property
    def received_ns(self) -> int: ...
    @property
    def meta(self) -> dict[str, object]:
        """`content` tells the encoding: `protobuf` or `json`."""

    @property
    def body(self) -> bytes: ...


def decode(entries: Sequence[JournalRecord]) -> Batch:
    """The records of accepted requests of any signals, grouped by signal, else in the order of the journal.

    Every entry must have passed `check`; one that did not raises Undecodable.
    """
    parts = []
    for signal in SIGNALS:
        requests = [_request(signal, entry) for entry in entries if entry.kind == KIND_PREFIX + signal]
        parts += [part for chunk in _chunks(requests) for part in _decode(signal, chunk)]
    return Batch(parts)


def _request(signal: SignalName, entry: JournalRecord) -> Request:
    encoding = cast(Encoding, entry.meta.get("content", "protobuf"))
    body = json_to_protobuf(signal, entry.body) if encoding == "json" else entry.body
    return Request(entry.position, entry.received_ns, body)


def _chunks(requests: Iterable[Request]) -> Iterator[list[Request]]:
    chunk: list[Request] = []
    size = 0
    for request in requests:
        if chunk and size + len(request.body) > _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
        chunk.append(request)
        size += len(request.body)
    if chunk:
        yield chunk


def _decode(signal: SignalName, requests: Sequence[Request]) -> list[Part]:
    """One part if all goes the fast way; a request ptars cannot read goes the plain way, alone."""
    if signal == "metrics":
        return [decode_plainly(signal, requests)]
    try:
        return [decode_columns(signal, requests)]
    except NotColumnar:
        if len(requests) == 1:
            return [decode_plainly(signal, requests)]
        half = len(requests) // 2
        return _decode(signal, requests[:half]) + _decode(signal, requests[half:])
