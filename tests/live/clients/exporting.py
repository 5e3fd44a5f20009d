"""OpenTelemetry as a program of its users sets it up: all three signals, everything else from the OTEL_* variables."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry import metrics, trace
from opentelemetry._logs import set_logger_provider
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetrics
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpans
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogs
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetrics
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpans
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


@contextmanager
def exported() -> Iterator[None]:
    """Within it, whatever is told to OpenTelemetry is exported; at its end everything has been sent."""
    grpc = os.environ["OTEL_EXPORTER_OTLP_PROTOCOL"] == "grpc"
    traces, logs = TracerProvider(), LoggerProvider()
    traces.add_span_processor(BatchSpanProcessor(GrpcSpans() if grpc else HttpSpans()))
    logs.add_log_record_processor(BatchLogRecordProcessor(GrpcLogs() if grpc else HttpLogs()))
    meters = MeterProvider([PeriodicExportingMetricReader(GrpcMetrics() if grpc else HttpMetrics())])
    trace.set_tracer_provider(traces)
    set_logger_provider(logs)
    metrics.set_meter_provider(meters)
    try:
        yield
    finally:
        for provider in (traces, logs, meters):
            provider.shutdown()
