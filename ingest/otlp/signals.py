"""The three OTLP signals: their message classes, paths and the names of their parts."""

from dataclasses import dataclass
from typing import Literal, cast

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs_service
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics_service
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_service

SignalName = Literal["logs", "traces", "metrics"]
Encoding = Literal["protobuf", "json"]


@dataclass(frozen=True, slots=True)
class Signal:
    """One signal: how it is asked for, how it is answered and what its records are called."""

    name: SignalName
    request: type[Message]
    response: type[Message]
    service: str
    """Full gRPC service name; the method is always `Export`."""
    noun: str
    """One record, in words for people."""
    rejected_field: str
    """The field of `partial_success` that counts refused records."""
    nesting: tuple[tuple[str, ...], ...]
    """Field names from the request down to the records; a level with several names is a choice of one."""

    @property
    def descriptor(self) -> Descriptor:
        """The request's message type."""
        return cast(Descriptor, self.request.DESCRIPTOR)

    @property
    def path(self) -> str:
        """The HTTP path."""
        return f"/v1/{self.name}"

    @property
    def method(self) -> str:
        """The gRPC path."""
        return f"/{self.service}/Export"


METRIC_KINDS = ("gauge", "sum", "histogram", "exponential_histogram", "summary")
_PACKAGE = "opentelemetry.proto.collector"

SIGNALS: dict[SignalName, Signal] = {
    "logs": Signal(
        name="logs",
        request=logs_service.ExportLogsServiceRequest,
        response=logs_service.ExportLogsServiceResponse,
        service=f"{_PACKAGE}.logs.v1.LogsService",
        noun="log record",
        rejected_field="rejected_log_records",
        nesting=(("resource_logs",), ("scope_logs",), ("log_records",)),
    ),
    "traces": Signal(
        name="traces",
        request=trace_service.ExportTraceServiceRequest,
        response=trace_service.ExportTraceServiceResponse,
        service=f"{_PACKAGE}.trace.v1.TraceService",
        noun="span",
        rejected_field="rejected_spans",
        nesting=(("resource_spans",), ("scope_spans",), ("spans",)),
    ),
    "metrics": Signal(
        name="metrics",
        request=metrics_service.ExportMetricsServiceRequest,
        response=metrics_service.ExportMetricsServiceResponse,
        service=f"{_PACKAGE}.metrics.v1.MetricsService",
        noun="data point",
        rejected_field="rejected_data_points",
        nesting=(("resource_metrics",), ("scope_metrics",), ("metrics",), METRIC_KINDS, ("data_points",)),
    ),
}
