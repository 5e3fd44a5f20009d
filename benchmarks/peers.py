"""Stored and queryable spans per second, and disk per span, beside Arize Phoenix and MLflow, in one run.

Everybody gets the same bodies over OTLP/HTTP with four connections, one after the other, each alone on the machine. The
rate is spans over the time from the first byte sent until the last span can be asked for: in ours through the query
endpoint, in theirs in the `spans` table of their database. Theirs get fewer spans, because they are slower.
"""

import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx

from benchmarks.ingest import PER_REQUEST, SPANS
from benchmarks.peer_servers import MLFLOW, PHOENIX, Peer, environment_of, running, size_of
from benchmarks.sending import send_from_process
from tests.running import Collector

PEER_SPANS = 24 * PER_REQUEST
BARS = ((PHOENIX, 100), (MLFLOW, 35))
DISK_BAR = 0.4
MEMORY_BAR_MB = 300

SETTLE_SECONDS = 30.0
"""How long ours may be idle before its disk use is looked at: closed segments are compressed in quiet times."""


@dataclass(frozen=True)
class Measured:
    """One side of one round."""

    fresh: float
    """Spans per second from a fresh start, as the bars are meant."""

    warm: float | None
    """Spans per second of a second load; None where the first was no slower."""

    bytes_per_span: float
    receiver_mb: float | None = None

    def __str__(self) -> str:
        warm = "" if self.warm is None else f", warmed up {self.warm:,.0f}"
        memory = "" if self.receiver_mb is None else f"; receiver memory {self.receiver_mb:.0f} MB"
        return f"{self.fresh:,.0f} spans/s{warm}; {self.bytes_per_span:,.0f} B per span{memory}"


def ours(folder: Path, spans: int = SPANS) -> Measured:
    """Our collector as users run it, without the dashboard."""
    with Collector(folder / "home", everything=True) as collector, collector.client() as client:
        rates = []
        for number in (1, 2):
            sent = send_from_process(collector.http.removeprefix("http://"), (spans, PER_REQUEST, number))
            while queryable(client) < number * spans:
                time.sleep(0.02)
            rates.append(spans / (sent.seconds + time.monotonic() - sent.finished))
        memory = collector.peak_rss_mb()
        time.sleep(SETTLE_SECONDS)
    fresh, warm = rates
    return Measured(fresh, warm, size_of(folder / "home") / (2 * spans), memory)


def queryable(client: httpx.Client) -> int:
    """Events that a query finds; 0 while the index does not answer."""
    answer = client.post("/v1/query", json={"sql": "select count(*) from events", "format": "json"})
    return int(answer.json()["rows"][0][0]) if answer.status_code == httpx.codes.OK else 0


def theirs(peer: Peer, folder: Path, spans: int = PEER_SPANS) -> Measured:
    """A peer; the size that its folder has when empty is not counted."""
    home = folder / "peer"
    rates: list[float] = []
    with running(peer, home) as server:
        empty = size_of(home)
        for number in (1, 2) if peer.slow_start else (1,):
            sent = send_from_process(server.address, (spans, PER_REQUEST, number), headers=peer.headers)
            stored = server.await_stored(number * spans)
            rates.append(spans / (sent.seconds + stored - sent.finished))
    warm = rates[1] if peer.slow_start else None
    return Measured(rates[0], warm, (size_of(home) - empty) / (len(rates) * spans))


def one_round(number: int) -> dict[str, Measured]:
    """Every side once, each in a fresh folder."""
    sides: dict[str, Callable[[Path], Measured]] = {"ours": ours}
    sides |= {peer.name: partial(theirs, peer) for peer, _ in BARS}
    found = {}
    for name, measure in sides.items():
        folder = Path(tempfile.mkdtemp(prefix="tachograph-bench-"))
        try:
            found[name] = measure(folder)
        finally:
            shutil.rmtree(folder)
        print(f"round {number}: {name}: {found[name]}", flush=True)
    return found


def main(rounds: int = 3) -> None:
    """Print every figure, and the median ratios beside their bars."""
    for peer, _ in BARS:
        environment_of(peer)
    print(f"{PER_REQUEST} spans of 2.9 KB per request: {SPANS} to ours, {PEER_SPANS} to each peer, 4 connections")
    measured = [one_round(number) for number in range(1, rounds + 1)]
    for peer, bar in BARS:
        pairs = [(one["ours"], one[peer.name]) for one in measured]
        times = statistics.median(mine.fresh / its.fresh for mine, its in pairs)
        print(f"queryable spans/s, median of {rounds}: {times:.0f} x {peer.name} (bar: {bar} x)")
        warm = [mine.warm / its.warm for mine, its in pairs if mine.warm and its.warm]
        if warm:
            print(f"  both warmed up: {statistics.median(warm):.0f} x")
    share = statistics.median(one["ours"].bytes_per_span / one[PHOENIX.name].bytes_per_span for one in measured)
    print(f"disk per span, median of {rounds}: {share:.0%} of {PHOENIX.name} (bar: {DISK_BAR:.0%})")
    memory = max(one["ours"].receiver_mb or 0 for one in measured)
    print(f"receiver memory, largest of {rounds}: {memory:.0f} MB (bar: {MEMORY_BAR_MB} MB)")


if __name__ == "__main__":
    main()
