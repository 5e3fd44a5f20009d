"""Whole inputs to start from: what real clients sent, generated requests, and a secret of every kind."""

import gzip
import random
from datetime import UTC, datetime
from pathlib import Path

import zstandard

from ingest.otlp.signals import SIGNALS
from models.event import Event
from models.payload import Payload
from tests.captures import captures
from tests.ingest.otlp.otlp_messages import generated, to_json
from tests.secrets_corpus import PLACEMENTS, planted_secrets

MAX_BYTES = 8 * 1024
GENERATED = 5


def seeds(target: str) -> list[bytes]:
    """Inputs of a target."""
    match target:
        case "protobuf" | "json":
            return _requests(target)
        case "folded":
            plain = [body[1:] for body in _requests("protobuf")]
            packed = [b"\x01" + gzip.compress(body) for body in plain]
            return packed + [b"\x00" + zstandard.compress(body) for body in plain]
        case "lines":
            moment = datetime(2026, 1, 1, tzinfo=UTC)
            return [Event(type=name, event_id=name, timestamp=moment).to_json() for name in sorted(Payload.registry)]
        case "masking":
            texts = planted_secrets().values()
            return [place(planted.text).encode() for planted in texts for place in PLACEMENTS.values()]
    raise ValueError(f"no target is called {target!r}")


def _requests(encoding: str) -> list[bytes]:
    rng = random.Random(1)
    found = []
    for number, signal in enumerate(SIGNALS):
        made = [generated(signal, rng) for _ in range(GENERATED)]
        bodies = [to_json(one) if encoding == "json" else one.SerializeToString() for one in made]
        bodies += [one.body for one in captures() if (one.signal, one.encoding) == (signal, encoding)]
        found += [bytes([number]) + body for body in bodies if len(body) <= MAX_BYTES]
    return found


def write_seeds(target: str, folder: Path) -> None:
    """Put the inputs where the fuzzer looks for them."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds(target)):
        (folder / f"seed-{number:04}").write_bytes(seed)
