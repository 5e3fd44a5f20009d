"""The gRPC port: the three OTLP services, over the same way as HTTP."""

from collections.abc import Awaitable, Callable

import grpc
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from collector.http_server import RETRY_AFTER_SECONDS, status_of
from collector.receiver import Arrival, Receiver
from ingest.otlp.answers import answer
from ingest.otlp.signals import SIGNALS, SignalName
from models.errors import TachographError

CODES = {code.value[0]: code for code in grpc.StatusCode}


def create_grpc(receiver: Receiver) -> grpc.aio.Server:
    """A gRPC server around a receiver; bodies stay bytes until they are checked."""
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", receiver.settings.max_body_bytes),
            ("grpc.max_concurrent_streams", 64),
            ("grpc.so_reuseport", 0),
            ("grpc.max_metadata_size", 64 * 1024),
        ]
    )
    for name, signal in SIGNALS.items():
        handler = grpc.unary_unary_rpc_method_handler(_export(receiver, name))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(signal.service, {"Export": handler}),))
    return server


def _export(receiver: Receiver, signal: SignalName) -> Callable[..., Awaitable[bytes]]:
    async def export(body: bytes, context: "grpc.aio.ServicerContext[bytes, bytes]") -> bytes:
        metadata = {key: value for key, value in context.invocation_metadata() or () if isinstance(value, str)}
        try:
            receiver.authorise(metadata.get("authorization"), "ingest")
            with receiver.budget.hold() as share:
                share.grow(len(body))
                checked = await receiver.take(Arrival(signal, "protobuf", body, transport="grpc"), share)
        except TachographError as refusal:
            receiver.refused(signal, refusal, len(body))
            await _refuse(context, refusal)
        return answer(signal, "protobuf", checked)

    return export


async def _refuse(context: "grpc.aio.ServicerContext[bytes, bytes]", refusal: TachographError) -> None:
    _, code = status_of(refusal)
    if code == grpc.StatusCode.UNAVAILABLE.value[0]:
        status = Status(code=code, message=refusal.message)
        status.details.add().Pack(RetryInfo(retry_delay=Duration(seconds=RETRY_AFTER_SECONDS)))
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    await context.abort(CODES[code], refusal.message)
