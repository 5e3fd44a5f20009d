"""Posting one OTLP request, over HTTP or gRPC, and what the answer means for the sender."""

import gzip
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol
from urllib.parse import urlsplit

import grpc
import httpx
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from models.errors import UsageError
from runtime.telemetry.encoding import LOGS, TRACES
from runtime.telemetry.export_settings import Endpoint, ExportSettings

LONGEST_RETRY_AFTER_S = 3600.0
CONTENT_REFUSED = frozenset({400, 413, 422})
"""Statuses that are about the request's content. Any other failure is the receiver's or the way's: it may pass."""

METHODS = {
    LOGS: "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
    TRACES: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
}
GRPC_OPTIONS = (("grpc.initial_reconnect_backoff_ms", 200), ("grpc.max_reconnect_backoff_ms", 2000))
GRPC_REFUSED = (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.OUT_OF_RANGE)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The receiver has it; `rejected` records of it were refused for good, for the reason in `message`."""

    rejected: int = 0
    message: str = ""


@dataclass(frozen=True, slots=True)
class TryLater:
    """Nobody knows whether the receiver has it: it must be sent again, after `after_s` if the receiver said so."""

    reason: str
    after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The receiver will never take this request."""

    reason: str


Answer = Accepted | TryLater | Refused


class Transport(Protocol):
    """A way to one endpoint."""

    def send(self, kind: str, body: bytes) -> Answer:
        """Post a request of a kind of the journal and wait for what becomes of it; never raises for trouble there."""

    def close(self) -> None:
        """Let go of connections."""


def transports(settings: ExportSettings) -> dict[str, Transport]:
    """The way for each kind of record that is to be sent."""
    endpoints = {LOGS: settings.logs, TRACES: settings.traces}
    return {kind: _transport(endpoint) for kind, endpoint in endpoints.items() if endpoint is not None}


def _transport(endpoint: Endpoint) -> Transport:
    return GrpcTransport(endpoint) if endpoint.protocol == "grpc" else HttpTransport(endpoint)


class HttpTransport:
    """OTLP/HTTP with protobuf bodies."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._headers = {**endpoint.headers, "content-type": "application/x-protobuf"}
        if endpoint.compression == "gzip":
            self._headers["content-encoding"] = "gzip"
        self._client = httpx.Client(timeout=endpoint.timeout_s, verify=trust(endpoint))

    def send(self, kind: str, body: bytes) -> Answer:
        """See Transport."""
        content = gzip.compress(body, 1) if self._endpoint.compression == "gzip" else body
        try:
            answer = self._client.post(self._endpoint.url, content=content, headers=self._headers)
        except httpx.HTTPError as problem:
            return TryLater(f"{self._endpoint.url} cannot be reached: {problem or type(problem).__name__}")
        if answer.is_success:
            return _accepted(kind, answer.content)
        reason = f"{self._endpoint.url} answered {answer.status_code}{_told(answer)}"
        if answer.status_code in CONTENT_REFUSED:
            return Refused(reason)
        return TryLater(reason, retry_after(answer.headers))

    def close(self) -> None:
        """See Transport."""
        self._client.close()


def trust(endpoint: Endpoint) -> ssl.SSLContext:
    """Which certificates of a server are believed, and with which one we show ourselves."""
    try:
        context = ssl.create_default_context(cafile=endpoint.certificate)
        if endpoint.client_certificate is not None:
            context.load_cert_chain(endpoint.client_certificate, endpoint.client_key)
    except (OSError, ssl.SSLError) as problem:
        raise UsageError(f"the certificates for {endpoint.url} cannot be used: {problem}") from None
    return context


def _told(answer: httpx.Response) -> str:
    """What the receiver says about a refusal, in short."""
    if answer.headers.get("content-type", "").startswith("application/x-protobuf"):
        try:
            message = Status.FromString(answer.content).message
        except DecodeError:
            return ""
        return f": {message[:200]}" if message else ""
    return f": {answer.text.strip()[:200]}" if answer.content else ""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """How long the receiver asks to wait, in seconds; None if it does not say or nobody could understand it."""
    told = headers.get("retry-after", "").strip()
    if told.isdecimal():
        return min(float(told), LONGEST_RETRY_AFTER_S)
    try:
        moment = parsedate_to_datetime(told)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max((moment - datetime.now(UTC)).total_seconds(), 0.0), LONGEST_RETRY_AFTER_S)


def _accepted(kind: str, body: bytes) -> Answer:
    """A success, unless it is none of OTLP: a captive portal, for one, says 200 to everything."""
    try:
        if kind == LOGS:
            logs = ExportLogsServiceResponse.FromString(body).partial_success
            return Accepted(logs.rejected_log_records, logs.error_message)
        traces = ExportTraceServiceResponse.FromString(body).partial_success
    except DecodeError:
        return TryLater("the answer is 200 but not OTLP's")
    return Accepted(traces.rejected_spans, traces.error_message)


class GrpcTransport:
    """OTLP/gRPC."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._metadata = tuple((key.lower(), value) for key, value in endpoint.headers.items())
        self._compression = grpc.Compression.Gzip if endpoint.compression == "gzip" else grpc.Compression.NoCompression
        self._channel = _channel(endpoint)

    def send(self, kind: str, body: bytes) -> Answer:
        """See Transport."""
        call: Any = self._channel.unary_unary(METHODS[kind], bytes, bytes)  # bodies are encoded already
        try:
            answer = call(
                body, timeout=self._endpoint.timeout_s, metadata=self._metadata, compression=self._compression
            )
        except grpc.RpcError as problem:
            return _failure(self._endpoint.url, problem)
        return _accepted(kind, answer)

    def close(self) -> None:
        """See Transport."""
        self._channel.close()


def _channel(endpoint: Endpoint) -> grpc.Channel:
    parts = urlsplit(endpoint.url)
    if parts.scheme != "https":
        return grpc.insecure_channel(parts.netloc, options=GRPC_OPTIONS)
    try:
        certificate, own, key = (
            path.read_bytes() if path is not None else None
            for path in (endpoint.certificate, endpoint.client_certificate, endpoint.client_key)
        )
    except OSError as problem:
        raise UsageError(f"the certificates for {endpoint.url} cannot be used: {problem}") from None
    credentials = grpc.ssl_channel_credentials(certificate, key, own)
    return grpc.secure_channel(parts.netloc, credentials, options=GRPC_OPTIONS)


def _failure(url: str, problem: Any) -> Answer:
    code: grpc.StatusCode = problem.code()
    reason = f"{url} answered {code.name}: {(problem.details() or '')[:200]}"
    after_s = _retry_info(problem.trailing_metadata() or ())
    # Resources that will be there again come with a RetryInfo; without one, this request is too large for good.
    if code in GRPC_REFUSED and after_s is None:
        return Refused(reason)
    return TryLater(reason, after_s)


def _retry_info(metadata: Any) -> float | None:
    for key, value in metadata:
        if key == "grpc-status-details-bin":
            for detail in Status.FromString(value).details:
                info = RetryInfo()
                if detail.Unpack(info):
                    return min(float(info.retry_delay.ToNanoseconds()) / 1e9, LONGEST_RETRY_AFTER_S)
    return None
