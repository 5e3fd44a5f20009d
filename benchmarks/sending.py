"""A sender in its own process: several connections, bodies made beforehand, so that only sending is timed."""

import http.client
import multiprocessing
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Literal

import grpc

from benchmarks.load import START_NS, json_requests, requests

RETRY_SECONDS = 0.05
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

Wire = Literal["protobuf", "json", "grpc"]
"""OTLP/HTTP with either encoding, or OTLP/gRPC."""

CONTENT_TYPES: dict[Wire, str] = {"protobuf": "application/x-protobuf", "json": "application/json"}

Post = Callable[[bytes], bool]
"""Sends a body; whether it was acknowledged."""


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
    """Post all bodies over HTTP, each until it is acknowledged."""
    return _send_all([_http(address, headers, path) for _ in range(connections)], bodies)


def send_grpc(address: str, bodies: Sequence[bytes], connections: int) -> Sent:
    """Send all bodies over gRPC, each until it is acknowledged."""
    return _send_all([_grpc(address, number) for number in range(connections)], bodies)


def _http(address: str, headers: dict[str, str], path: str) -> Post:
    connection = http.client.HTTPConnection(address, timeout=60)

    def post(body: bytes) -> bool:
        try:
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            answer.read()
        except (OSError, http.client.HTTPException):
            connection.close()
            return False
        return answer.status == 200

    return post


def _grpc(address: str, number: int) -> Post:
    # Channels with equal options share one connection.
    channel = grpc.insecure_channel(address, options=[("benchmark.connection", number)])
    export = channel.unary_unary(EXPORT, request_serializer=None, response_deserializer=None)

    def post(body: bytes) -> bool:
        try:
            export(body, timeout=60)
        except grpc.RpcError:
            return False
        return True

    return post


def _send_all(posts: Sequence[Post], bodies: Sequence[bytes]) -> Sent:
    remaining = iter(range(len(bodies)))
    lock = threading.Lock()
    retries = [0] * len(posts)

    def work(number: int) -> None:
        while True:
            with lock:
                at = next(remaining, None)
            if at is None:
                return
            while not posts[number](bodies[at]):
                retries[number] += 1
                time.sleep(RETRY_SECONDS)

    started = time.monotonic()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(posts))]
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
    *,
    wire: Wire = "protobuf",
    start_ns: int = START_NS,
) -> Sent:
    """Make (spans, per_request, seed) bodies in a fresh process and send them from there."""
    context = multiprocessing.get_context("spawn")
    parent, child = context.Pipe()
    process = context.Process(
        target=_main, args=(child, address, make, connections, headers or {}, path, wire, start_ns)
    )
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
    wire: Wire,
    start_ns: int,
) -> None:
    spans, per_request, seed = make
    made = json_requests if wire == "json" else requests
    bodies = list(made(spans, per_request, seed, start_ns))
    if wire == "grpc":
        pipe.send(send_grpc(address, bodies, connections))
    else:
        pipe.send(send(address, bodies, connections, {"content-type": CONTENT_TYPES[wire]} | headers, path))
