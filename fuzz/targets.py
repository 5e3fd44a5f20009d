"""What is fuzzed: each target takes any bytes, and only a broken property makes it raise."""

from collections.abc import Callable

from fuzz.properties import (
    accepted,
    all_decoded,
    lines_decoded,
    masked_for_good,
    settled,
    understood,
    unfolded,
)
from ingest.otlp.signals import SIGNALS, Encoding

NAMES = tuple(SIGNALS)


def _request(encoding: Encoding, data: bytes) -> None:
    """The first byte picks the signal, the rest is the body."""
    signal = NAMES[data[0] % len(NAMES)] if data else NAMES[0]
    record = accepted(signal, encoding, data[1:])
    if record is not None:
        settled(signal, record)
        all_decoded([record])


def protobuf(data: bytes) -> None:
    """An OTLP request in protobuf."""
    _request("protobuf", data)


def json(data: bytes) -> None:
    """An OTLP request in JSON."""
    _request("json", data)


def lines(data: bytes) -> None:
    """A request of event lines."""
    understood(lines_decoded(data))


def folded(data: bytes) -> None:
    """A compressed request; the first byte picks the compression."""
    if data:
        plain = unfolded("gzip" if data[0] % 2 else "zstd", data[1:])
        if plain is not None:
            accepted("traces", "protobuf", plain)


def masking(data: bytes) -> None:
    """Any text through the masking of secrets."""
    masked_for_good(data.decode("utf-8", "replace"))


TARGETS: dict[str, Callable[[bytes], None]] = {
    "protobuf": protobuf,
    "json": json,
    "lines": lines,
    "folded": folded,
    "masking": masking,
}
