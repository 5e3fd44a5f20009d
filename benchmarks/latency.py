"""How long after its acknowledgement a span can be asked for, at half of the rate that the whole way can take.

The sender keeps to a timetable: four connections, each request at its moment, for a quarter of a minute. Then the time
from the last answer until a query finds every span.
"""

import http.client
import multiprocessing
import shutil
import statistics
import tempfile
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.ingest import PER_REQUEST, whole
from benchmarks.ingest import SPANS as FULL_SPANS
from benchmarks.load import requests
from benchmarks.peers import queryable
from tests.running import Collector

CONNECTIONS = 4
SECONDS = 15.0
BAR_SECONDS = 1.0
TYPE = {"content-type": "application/x-protobuf"}


@dataclass(frozen=True)
class Paced:
    """What a sender that keeps to a timetable did."""

    seconds: float
    finished: float
    """When the last answer came, on the machine's monotonic clock."""

    slowest_ms: float


def send_paced(address: str, spans: int, per_second: float) -> Paced:
    """Send so many spans at so many per second from a process of its own."""
    context = multiprocessing.get_context("spawn")
    parent, child = context.Pipe()
    process = context.Process(target=_send, args=(child, address, spans, PER_REQUEST / per_second))
    process.start()
    paced = parent.recv()
    process.join()
    assert isinstance(paced, Paced)
    return paced


def _send(pipe: Connection, address: str, spans: int, interval_s: float) -> None:
    bodies = list(requests(spans, PER_REQUEST, 1))
    slowest = [0.0] * CONNECTIONS
    started = time.monotonic()

    def work(number: int) -> None:
        connection = http.client.HTTPConnection(address, timeout=60)
        for at in range(number, len(bodies), CONNECTIONS):
            time.sleep(max(0.0, started + at * interval_s - time.monotonic()))
            asked = time.monotonic()
            connection.request("POST", "/v1/traces", bodies[at], TYPE)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
            slowest[number] = max(slowest[number], time.monotonic() - asked)
        connection.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    finished = time.monotonic()
    pipe.send(Paced(finished - started, finished, max(slowest) * 1000))


def full_rate(folder: Path) -> float:
    """Queryable spans per second when the sender does not hold back."""
    folder.mkdir()
    took, _, _ = whole(folder)
    return FULL_SPANS / took


def lag(folder: Path, per_second: float) -> tuple[float, Paced]:
    """Seconds from the last answer until a query finds everything."""
    folder.mkdir()
    spans = round(per_second * SECONDS / PER_REQUEST) * PER_REQUEST
    with Collector(folder / "home", everything=True) as collector, collector.client() as client:
        paced = send_paced(collector.http.removeprefix("http://"), spans, per_second)
        while queryable(client) < spans:
            time.sleep(0.01)
        return time.monotonic() - paced.finished, paced


def main(rounds: int = 3) -> None:
    """Print the lag of each round and the median."""
    lags = []
    for number in range(1, rounds + 1):
        folder = Path(tempfile.mkdtemp(prefix="tachograph-bench-"))
        try:
            rate = full_rate(folder / "full")
            waited, paced = lag(folder / "half", rate / 2)
        finally:
            shutil.rmtree(folder)
        lags.append(waited)
        print(
            f"round {number}: whole way {rate:,.0f} spans/s; at {rate / 2:,.0f} spans/s for {paced.seconds:.0f} s: "
            f"queryable {waited:.2f} s after the last answer; slowest answer {paced.slowest_ms:.0f} ms",
            flush=True,
        )
    print(
        f"queryable after the last answer at half load, median of {rounds}: "
        f"{statistics.median(lags):.2f} s (bar: {BAR_SECONDS:.0f} s)"
    )


if __name__ == "__main__":
    main()
