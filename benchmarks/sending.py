"""A sender in its own process: several connections, bodies made beforehand, so that only sending is timed."""

import http.client
import multiprocessing
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

RETRY_SECONDS = 0.05


@dataclass(frozen=True)
class Sent:
    """What a sender did."""

    requests: int
    size_bytes: int
    seconds: float
    retries: int
    finished: float
    """When the last answer came, on the machine's monotonic clock."""


def send(address: str, bodies: Sequence[bytes], connections: int, headers: dict[str, str], path: str) -> Sent:
    """Post all bodies, each until it is acknowledged."""
    remaining = iter(range(len(bodies)))
    lock = threading.Lock()
    retries = [0] * connections

    def work(number: int) -> None:
        connection = http.client.HTTPConnection(address, timeout=60)
        while True:
            with lock:
                at = next(remaining, None)
            if at is None:
                return
            while True:
                try:
                    connection.request("POST", path, bodies[at], headers)
                    answer = connection.getresponse()
                    answer.read()
                except (OSError, http.client.HTTPException):
                    connection.close()
                    answer = None
                if answer is not None and answer.status == 200:
                    break
                retries[number] += 1
                time.sleep(RETRY_SECONDS)

    started = time.monotonic()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    finished = time.monotonic()
    return Sent(len(bodies), sum(map(len, bodies)), finished - started, sum(retries), finished)


def send_from_process(
    address: str,
    make: tuple[int, int, int],
    connections: int = 4,
    headers: dict[str, str] | None = None,
    path: str = "/v1/traces",
) -> Sent:
    """Make (spans, per_request, seed) bodies in a fresh process and send them from there."""
    context = multiprocessing.get_context("spawn")
    parent, child = context.Pipe()
    process = context.Process(target=_main, args=(child, address, make, connections, headers or {}, path))
    process.start()
    result = parent.recv()
    process.join()
    assert isinstance(result, Sent)
    return result


def _main(
    pipe: Connection,
    address: str,
    make: tuple[int, int, int],
    connections: int,
    headers: dict[str, str],
    path: str,
) -> None:
    from benchmarks.load import requests

    spans, per_request, seed = make
    bodies = list(requests(spans, per_request, seed))
    pipe.send(send(address, bodies, connections, {"content-type": "application/x-protobuf"} | headers, path))
