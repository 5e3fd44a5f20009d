"""Why an OTLP body is refused as a whole, and the bounds it is held to."""

from dataclasses import dataclass

from models.errors import LimitHit, MalformedInput


class Undecodable(MalformedInput):
    """The body is not the OTLP request it claims to be; nothing of it is kept. HTTP 400, gRPC INVALID_ARGUMENT.

    The reason names the place and the cause but never repeats content, which may be a secret.
    """


class TooLarge(LimitHit):
    """The body would decode into more objects than we hold at once. HTTP 413, gRPC RESOURCE_EXHAUSTED, no retry."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on one request; its size in bytes is bounded by whoever reads it from the network."""

    max_items: int = 50_000
    """Spans, log records or data points."""

    max_nested: int = 1_000_000
    """Messages below them (attributes, values, events, links ...), each about 80 bytes of memory once decoded."""

    deep_scan_bytes: int = 4 * 1024 * 1024
    """Smaller bodies cannot hold enough nested messages to hurt, so theirs are not counted."""
