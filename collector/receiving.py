"""The receiver as a process: opens its ports, says when it is ready, and drains when told to stop."""

import asyncio
import resource
import signal
from collections.abc import Callable
from dataclasses import dataclass

import grpc

from collector import addresses
from collector.counters import Counters
from collector.grpc_server import create_grpc
from collector.home import Home
from collector.http_server import create_app, create_server
from collector.receiver import Receiver
from collector.tokens import TokenStore
from journal import Journal
from models.address import Address
from models.redaction import Redactor
from models.settings import Settings


@dataclass(frozen=True, slots=True)
class Listening:
    """The addresses that were opened."""

    http: Address
    grpc: Address


async def serve(settings: Settings, ready: Callable[[Listening], None]) -> None:
    """Receive until SIGTERM or SIGINT; then answer what is running, store it, and return."""
    home = Home(settings.home)
    home.make()
    tokens = TokenStore(home.tokens)
    http_address, grpc_address = Address.parse(settings.otlp_http), Address.parse(settings.otlp_grpc)
    for address in (http_address, grpc_address):
        addresses.require_tokens_beyond_loopback(address, tokens=tokens.configured())
    _raise_file_limit()
    receiver = Receiver(
        Journal(home.journal, segment_bytes=settings.segment_bytes),
        Redactor(home.redaction_key()),
        Counters(home.path),
        tokens,
        settings,
    )
    try:
        socket = addresses.bind(http_address)
        grpc_server = create_grpc(receiver)
        grpc_port = _bind_grpc(grpc_server, grpc_address)
        http_server = create_server(create_app(receiver), receiver)
        listening = Listening(
            Address(http_address.host, socket.getsockname()[1]), Address(grpc_address.host, grpc_port)
        )
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await grpc_server.start()
        running = asyncio.create_task(http_server.serve(sockets=[socket]))
        while not http_server.started and not running.done():
            await asyncio.sleep(0.005)
        with home.announced("receiver", http=str(listening.http), grpc=str(listening.grpc)):
            ready(listening)
            await stop.wait()
            receiver.draining = True
            http_server.should_exit = True
            await asyncio.gather(grpc_server.stop(settings.drain_timeout_s), running)
    finally:
        receiver.close()


def _bind_grpc(server: grpc.aio.Server, address: Address) -> int:
    try:
        return server.add_insecure_port(str(address))
    except RuntimeError as problem:
        raise addresses.in_use(address, problem) from None


def _raise_file_limit() -> None:
    """Many idle connections should not keep the journal from opening its files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65536) if hard > 0 else 65536, hard))
