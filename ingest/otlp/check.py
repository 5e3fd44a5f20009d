"""Decides before the answer what of an OTLP request is kept: bounds, decoding, each record, secrets."""

from collections import Counter
from dataclasses import dataclass, field

import orjson

from ingest.otlp import binary, otlp_json
from ingest.otlp.masking import Redactor, mask_json, mask_request
from ingest.otlp.refusals import Limits
from ingest.otlp.rejection import Rejections
from ingest.otlp.signals import SIGNALS, Encoding, SignalName


@dataclass(frozen=True, slots=True)
class Checked:
    """A request that may be stored and acknowledged."""

    body: bytes
    """The very bytes that came, unless records were refused or secrets masked; then the rest, encoded again."""
    items: int
    """Accepted spans, log records or data points."""
    rejected: int = 0
    message: str = ""
    """Why records were refused: the first reasons. Never holds content."""
    redactions: dict[str, int] = field(default_factory=dict)
    """How many secrets of each kind were masked."""


def check(
    signal: SignalName, body: bytes, encoding: Encoding, redactor: Redactor | None, limits: Limits | None = None
) -> Checked:
    """What may be stored of the body.

    Raises Undecodable or TooLarge when nothing may; no other error, whatever the bytes are.
    """
    limits = limits or Limits()
    rejections = Rejections(SIGNALS[signal].noun)
    if encoding == "protobuf":
        return _check_protobuf(signal, body, redactor, limits, rejections)
    with otlp_json.uncollected():
        return _check_json(signal, body, redactor, limits, rejections)


def _check_protobuf(
    signal: SignalName, body: bytes, redactor: Redactor | None, limits: Limits, rejections: Rejections
) -> Checked:
    request = binary.decode(signal, body, limits)
    items = binary.drop_bad_records(signal, request, rejections)
    redactions = mask_request(signal, request, redactor) if redactor and redactor.suspects(body) else {}
    if rejections.count or redactions:
        body = request.SerializeToString()
    return Checked(body, items, rejections.count, rejections.message, redactions)


def _check_json(
    signal: SignalName, body: bytes, redactor: Redactor | None, limits: Limits, rejections: Rejections
) -> Checked:
    document = otlp_json.parse(signal, body, limits)
    items = otlp_json.convert(signal, document, limits, rejections).items
    redactions: Counter[str] = Counter()
    if redactor and redactor.suspects(body):
        document = mask_json(document, redactor, redactions)
    if rejections.count or redactions:
        body = orjson.dumps(document)
    return Checked(body, items, rejections.count, rejections.message, dict(redactions))
