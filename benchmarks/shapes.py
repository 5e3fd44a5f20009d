"""How the rate changes with the shape of the load: request size, transport, encoding, and what is stored already.

Each side runs alone, in turn, in every round; a rate is that of `benchmarks.ingest`: from the first byte sent until
every span is stored and queryable, and beside it until roll-ups and checkpoint are done and the collector has ended.
The load, with 22 attributes and 2.9 KB per span, is the same for all, so JSON carries the same spans in more bytes.
"""

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import httpx

from benchmarks import prefill
from benchmarks.sending import Wire, send_from_process
from tests.running import Collector

SPANS = 122_880
ROUNDS = 3
OVERLAP_NS = 5 * 86_400 * 10**9
"""So long before the youngest stored event the overlapping load lies: a busy time of the past."""


@dataclass(frozen=True, slots=True)
class Shape:
    """One way to send the load."""

    name: str
    per_request: int = 512
    wire: Wire = "protobuf"
    stored: Literal["nothing", "later", "overlapping"] = "nothing"
    """Whether ten million events are there already, and how the new ones lie in time to them."""

    against: str = "512"
    bar: float = 1.0
    """What share of the other shape's rate it must reach."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Spans per second."""

    queryable: float
    ended: float
    retries: int


SHAPES = (
    Shape("512"),
    Shape("100", per_request=100, bar=0.60),
    Shape("grpc", wire="grpc", bar=0.70),
    Shape("json", wire="json", bar=0.25),
    Shape("10M", stored="later", bar=0.85),
    Shape("10M-overlapping", stored="overlapping", bar=0.85),
)


def rate(shape: Shape, folder: Path, spans: int = SPANS) -> Rate:
    """Send the load in this shape to a collector of its own."""
    home = folder / "home" if shape.stored == "nothing" else prefill.prefilled(folder)
    start_ns = prefill.end_ns() - OVERLAP_NS if shape.stored == "overlapping" else time.time_ns()
    with Collector(home, everything=True) as collector, collector.client() as client:
        before = _stored(client)
        address = collector.grpc if shape.wire == "grpc" else collector.http.removeprefix("http://")
        sent = send_from_process(address, (spans, shape.per_request, 1), wire=shape.wire, start_ns=start_ns)
        while _stored(client) < before + spans:
            time.sleep(0.02)
        queryable = sent.seconds + time.monotonic() - sent.finished
        assert _asked(client, "select count(*) from events") == before + spans
    ended = sent.seconds + time.monotonic() - sent.finished
    return Rate(spans / queryable, spans / ended, sent.retries)


def _stored(client: httpx.Client) -> int:
    """How many events are in the tables: written in the transaction that stores them, and cheaper than counting."""
    return _asked(client, "select events from progress")


def _asked(client: httpx.Client, sql: str) -> int:
    answer = client.post("/v1/query", json={"sql": sql, "format": "json"})
    return int(answer.json()["rows"][0][0]) if answer.status_code == httpx.codes.OK else 0


def main(rounds: int = ROUNDS, names: Sequence[str] = ()) -> None:
    """Print every rate of every round, and for each shape the median share of the other's rate with its bar."""
    shapes = [shape for shape in SHAPES if not names or shape.name in names or shape.name == "512"]
    found: dict[str, list[Rate]] = {shape.name: [] for shape in shapes}
    print(f"{SPANS} spans, 22 attributes, 4 connections; the sender shares the machine")
    for number in range(rounds):
        for shape in shapes:
            folder = Path(tempfile.mkdtemp(prefix="tachograph-bench-"))
            try:
                found[shape.name].append(rate(shape, folder))
            finally:
                shutil.rmtree(folder)
            last = found[shape.name][-1]
            print(
                f"round {number + 1}: {shape.name:<16} queryable {last.queryable:>8,.0f} spans/s; "
                f"ended {last.ended:>8,.0f} spans/s; {last.retries} retries",
                flush=True,
            )
    print(f"{'shape':<16} {'queryable':>9} {'ended':>9} {'bar':>6}   (median of {rounds}, share of the rate of 512)")
    for shape in shapes:
        if shape.name != shape.against:
            print(f"{shape.name:<16} {_share(found, shape, 'queryable'):>9.0%} ", end="")
            print(f"{_share(found, shape, 'ended'):>9.0%} {shape.bar:>6.0%}")


def _share(found: dict[str, list[Rate]], shape: Shape, kind: Literal["queryable", "ended"]) -> float:
    own, other = ([getattr(rate, kind) for rate in found[name]] for name in (shape.name, shape.against))
    return float(statistics.median(mine / theirs for mine, theirs in zip(own, other, strict=True)))


if __name__ == "__main__":
    main(names=sys.argv[1:])
