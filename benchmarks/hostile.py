"""How much good senders feel of hostile ones: their latency alone, and among idle, slow and bomb-throwing clients."""

import contextlib
import gzip
import http.client
import multiprocessing
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.load import requests
from tests.hostile.attacks import IDLE, SLOW, rapid_reset, waiting_and_dawdling
from tests.running import Collector

PER_REQUEST, REQUESTS, CONNECTIONS = 50, 800, 2
ROUNDS = 5
RESETS_PER_SECOND = 1_000
BOMBS_PER_SECOND = 2
BOMB = gzip.compress(b"\x0a\x80\x80\x80\x0a\x12\xfb\xff\xff\x09" + b"\x12\x00" * 10_485_757)
TYPE = {"content-type": "application/x-protobuf"}


def latencies(address: str, seed: int) -> list[float]:
    """Milliseconds that good requests took, sent one after the other over a few connections from their own process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_good, args=(theirs, address, seed))
    process.start()
    taken: list[float] = ours.recv()
    process.join()
    return taken


def _good(pipe: Connection, address: str, seed: int) -> None:
    bodies = list(requests(PER_REQUEST * REQUESTS, PER_REQUEST, seed))
    taken: list[float] = []

    def work(mine: list[bytes]) -> None:
        connection = http.client.HTTPConnection(address, timeout=60)
        for body in mine:
            started = time.perf_counter()
            connection.request("POST", "/v1/traces", body, TYPE)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 200, answer.status
            taken.append((time.perf_counter() - started) * 1000)
            time.sleep(0.002)

    threads = [threading.Thread(target=work, args=(bodies[at::CONNECTIONS],)) for at in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pipe.send(taken)


@contextlib.contextmanager
def repeated(act: Callable[[], object], per_second: float) -> Iterator[None]:
    """Do something harmful again and again meanwhile."""
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(1 / per_second):
            act()

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def bomb(address: str) -> None:
    """Ten million empty spans in a few kilobytes."""
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("POST", "/v1/traces", BOMB, TYPE | {"content-encoding": "gzip"})
    assert connection.getresponse().status == 413
    connection.close()


def main(rounds: int = ROUNDS) -> None:
    """Print the latency of good requests without and with each attack, interleaved, and the ratios."""
    folder = Path(tempfile.mkdtemp(prefix="tachograph-bench-"))
    print(f"{REQUESTS} good requests of {PER_REQUEST} spans over {CONNECTIONS} connections, {rounds} rounds")
    try:
        with Collector(folder / "home") as collector:
            address = collector.http.removeprefix("http://")
            attacks: dict[str, Callable[[], contextlib.AbstractContextManager[None]]] = {
                "nobody": contextlib.nullcontext,
                f"{IDLE} idle, {SLOW} slow": lambda: waiting_and_dawdling(address),
                f"{RESETS_PER_SECOND} HTTP/2 resets/s": lambda: repeated(
                    lambda: rapid_reset(collector.grpc, RESETS_PER_SECOND // 10), 10
                ),
                f"{BOMBS_PER_SECOND} bombs/s": lambda: repeated(lambda: bomb(address), BOMBS_PER_SECOND),
            }
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in attacks}
            for number in range(rounds):
                for at, (name, attack) in enumerate(attacks.items()):
                    with attack():
                        taken = sorted(latencies(address, number * 10 + at + 1))
                    found[name].append((statistics.median(taken), taken[int(len(taken) * 0.99)]))
                told = "; ".join(f"{name} {figures[-1][1]:.1f} ms" for name, figures in found.items())
                print(f"round {number + 1}, p99 among: {told}", flush=True)
            _report(found)
            print(f"the receiver's peak memory: {collector.peak_rss_mb():.0f} MB")
    finally:
        shutil.rmtree(folder)


def _report(found: dict[str, list[tuple[float, float]]]) -> None:
    alone = [p99 for _, p99 in found["nobody"]]
    for name, figures in found.items():
        ratios = [p99 / before for (_, p99), before in zip(figures, alone, strict=True)]
        median, p99 = (statistics.median(column) for column in zip(*figures, strict=True))
        print(f"among {name}: median {median:.1f} ms, p99 {p99:.1f} ms, {statistics.median(ratios):.2f} x (bar: 2 x)")


if __name__ == "__main__":
    main()
