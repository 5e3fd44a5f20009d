"""200,000 broken requests: only the typed refusals, and whatever is accepted can be decoded later."""

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from fuzz.properties import accepted, all_decoded, lines_decoded, settled, understood
from ingest.batch import Batch
from ingest.otlp.signals import SIGNALS, Encoding, SignalName
from journal.record import Record
from models.event import Event
from models.payload import Payload
from tests.captures import captures
from tests.ingest.otlp.otlp_messages import generated, mutated, to_json

MUTATIONS = 200_000
LINE_MUTATIONS = 1_000
DECODED_TOGETHER = 256
CAPTURE_MAX_BYTES = 16 * 1024
"""Larger captures are left to other tests: what breaks them breaks the small ones."""

GENERATED = 12
SHARES: dict[tuple[SignalName, Encoding], float] = {
    ("traces", "protobuf"): 0.35,
    ("logs", "protobuf"): 0.25,
    ("metrics", "protobuf"): 0.25,
    ("traces", "json"): 0.05,
    ("logs", "json"): 0.05,
    ("metrics", "json"): 0.05,
}


def bodies(signal: SignalName, encoding: Encoding, rng: random.Random) -> list[bytes]:
    """Whole requests to break: small captured ones and generated ones with every kind of field."""
    messages = [generated(signal, rng) for _ in range(GENERATED)]
    made = [to_json(message) if encoding == "json" else message.SerializeToString() for message in messages]
    sent = [one.body for one in captures() if (one.signal, one.encoding) == (signal, encoding)]
    return [body for body in (*made, *sent) if len(body) <= CAPTURE_MAX_BYTES]


def broken(whole: list[bytes], count: int, rng: random.Random) -> Iterator[bytes]:
    """So many requests, cut off, changed, or two glued together."""
    for _ in range(count):
        body = rng.choice(whole)
        match rng.randrange(8):
            case 0 | 1:
                yield body[: rng.randrange(len(body))]
            case 2:
                yield mutated(body[: rng.randrange(len(body))] + rng.choice(whole), rng)
            case 3 | 4 | 5 if body[:1] == b"{":
                yield bent(body, rng)
            case _:
                yield mutated(body, rng)


ODDITIES: tuple[Any, ...] = (
    None, True, 0, -1, 2**63, 2**64, -(2**63), 1e308, 0.5, "", "0", "-1", "1e3", "NaN", "Infinity", str(2**64),
    "\u0000", "\ud7ff\uffff", "x" * 3000, [], [[]], {}, {"key": "k"}, {"key": None, "value": {}}, [None], "00" * 16,
    {"stringValue": 1}, {"intValue": "x"}, {"bytesValue": "%"}, {"arrayValue": {"values": [{}]}},
    {"kvlistValue": {"values": [{"key": "api_key", "value": {"stringValue": "hunter22x"}}]}},
    {"stringValue": "a", "intValue": 1},
)  # fmt: skip
"""Values that fit hardly anywhere."""


def bent(body: bytes, rng: random.Random) -> bytes:
    """Valid JSON with some values replaced by odd ones, moved elsewhere, or left out."""
    document = orjson.loads(body)
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key in list(node) if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                walk(node[key])

    walk(document)
    for node, key in rng.sample(places, min(len(places), rng.randint(1, 3))):
        if isinstance(node, dict) and rng.random() < 0.2:
            node.pop(key, None)
        elif isinstance(node, list) or key in node:
            node[key] = rng.choice(ODDITIES)
    return json.dumps(document).encode()


def decode_in_batches(records: Iterator[Record]) -> int:
    """Decode everything, many at a time; how much it was."""
    total, waiting = 0, []
    for record in records:
        total += 1
        waiting.append(record)
        if len(waiting) == DECODED_TOGETHER:
            all_decoded(waiting)
            waiting = []
    all_decoded(waiting)
    return total


@pytest.mark.parametrize(("signal", "encoding"), SHARES)
def test_a_broken_request_is_refused_in_words_or_decodes(signal: SignalName, encoding: Encoding) -> None:
    rng = random.Random(f"{signal} {encoding}")
    count = round(MUTATIONS * SHARES[signal, encoding])
    whole = bodies(signal, encoding, rng)

    def kept() -> Iterator[Record]:
        for body in broken(whole, count, rng):
            record = accepted(signal, encoding, body)
            if record is not None:
                if rng.random() < 0.1:
                    settled(signal, record)
                if record.items:
                    yield record

    decoded = decode_in_batches(kept())
    assert count // 100 < decoded < count * 0.9, "both ways should be taken"


def test_the_shares_are_all_of_the_mutations_and_all_signals() -> None:
    assert sum(SHARES.values()) == pytest.approx(1)
    assert {signal for signal, _ in SHARES} == set(SIGNALS)


def event_lines(rng: random.Random) -> list[bytes]:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    types = enumerate(rng.sample(sorted(Payload.registry), 40), 1)
    return [
        Event(type=name, event_id=f"e{number}", timestamp=moment, session_id="s", sequence=number).to_json()
        for number, name in types
    ]


def test_a_broken_line_is_refused_and_the_others_are_kept() -> None:
    rng = random.Random("lines")
    lines = event_lines(rng)
    kept = []
    for _ in range(LINE_MUTATIONS):
        body = b"\n".join([bent(rng.choice(lines), rng), *rng.sample(lines, 2)])
        kept.append(lines_decoded(mutated(body, rng)))
    understood(Batch.concat(kept))
    assert LINE_MUTATIONS < sum(map(len, kept)) < 3 * LINE_MUTATIONS
