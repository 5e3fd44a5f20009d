"""The receiver against what real clients send, over its real ports."""

import gzip
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest
import zstandard
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpanExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpanExporter
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from ingest.otlp.otlp_json import json_to_message
from ingest.otlp.signals import SIGNALS, SignalName
from journal import Journal, Record
from tests.captures import Capture, captures
from tests.running import Collector

PROTOBUF = {"content-type": "application/x-protobuf"}
JSON = {"content-type": "application/json"}
REQUESTS = {
    "traces": trace_service_pb2.ExportTraceServiceRequest,
    "logs": logs_service_pb2.ExportLogsServiceRequest,
    "metrics": metrics_service_pb2.ExportMetricsServiceRequest,
}


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    with Collector(tmp_path / "home") as running:
        yield running


def journaled(home: Path) -> list[Record]:
    found: list[Record] = []
    with Journal(home / "journal", compress=False) as journal:
        while more := journal.read(after=found[-1].position if found else 0):
            found += more
        assert journal.verify() == []
    return found


def call(channel: grpc.Channel, signal: SignalName, body: bytes) -> bytes:
    answer: bytes = channel.unary_unary(SIGNALS[signal].method, None, None)(body, timeout=60)
    return answer


def export(collector: Collector, signal: SignalName, body: bytes) -> bytes:
    with grpc.insecure_channel(collector.grpc) as channel:
        return call(channel, signal, body)


def one_span(name: str = "work", trace_id: bytes = b"t" * 16, span_id: bytes = b"s" * 8) -> bytes:
    request = trace_service_pb2.ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(name=name, trace_id=trace_id, span_id=span_id)
    span.start_time_unix_nano = 1_700_000_000_000_000_000
    return request.SerializeToString()


def test_every_real_body_over_http_is_journaled_once_and_byte_for_byte(tmp_path: Path) -> None:
    sent = captures()
    with Collector(tmp_path / "home") as collector, collector.client() as client:
        for capture in sent:
            answer = client.post(
                f"/v1/{capture.signal}", content=capture.body, headers={"content-type": capture.content_type}
            )
            assert (answer.status_code, answer.headers["content-type"]) == (200, capture.content_type), capture.path
            assert answer.content == (b"" if capture.encoding == "protobuf" else b"{}")
    records = journaled(tmp_path / "home")
    assert [(r.kind, r.meta["content"], r.body) for r in records] == [
        (f"otlp.{c.signal}", c.encoding, c.body) for c in sent
    ]


def test_every_real_body_over_grpc_is_journaled_once_and_byte_for_byte(tmp_path: Path) -> None:
    def binary(capture: Capture) -> bytes:
        if capture.encoding == "protobuf":
            return capture.body
        return bytes(json_to_message(capture.signal, capture.body).SerializeToString())

    sent = [(capture.signal, binary(capture)) for capture in captures()]
    with Collector(tmp_path / "home") as collector, grpc.insecure_channel(collector.grpc) as channel:
        for signal, body in sent:
            assert call(channel, signal, body) == b""
    assert [(r.kind, r.body) for r in journaled(tmp_path / "home")] == [(f"otlp.{s}", body) for s, body in sent]


@pytest.mark.parametrize("transport", ["http", "grpc"])
@pytest.mark.parametrize("compressed", [True, False])
def test_the_python_exporters_work(collector: Collector, transport: str, compressed: bool) -> None:
    exporter: HttpSpanExporter | GrpcSpanExporter
    if transport == "http":
        compression = Compression.Gzip if compressed else Compression.NoCompression
        exporter = HttpSpanExporter(f"{collector.http}/v1/traces", compression=compression)
    else:
        exporter = GrpcSpanExporter(
            collector.grpc,
            insecure=True,
            compression=grpc.Compression.Gzip if compressed else grpc.Compression.NoCompression,
        )
    provider = TracerProvider(resource=Resource({"service.name": "tried"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("tests").start_as_current_span("outer"):
        trace.get_current_span().set_attribute("answer", 42)
        with provider.get_tracer("tests").start_as_current_span("inner"):
            pass
    provider.shutdown()
    names = [
        span.name
        for record in journaled(collector.home)
        for resource in trace_service_pb2.ExportTraceServiceRequest.FromString(record.body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]
    assert names == ["inner", "outer"]


NODE_PROGRAM = """
const { NodeTracerProvider, SimpleSpanProcessor } = require("@opentelemetry/sdk-trace-node");
const load = { json: "@opentelemetry/exporter-trace-otlp-http", protobuf: "@opentelemetry/exporter-trace-otlp-proto" };
const { OTLPTraceExporter } = require(load[process.argv[3]]);
const exporter = new OTLPTraceExporter({ url: process.argv[2] + "/v1/traces", compression: process.argv[4] });
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
const span = provider.getTracer("tests").startSpan("from node", { attributes: { answer: 42 } });
span.end();
provider.shutdown().then(() => console.log("sent"));
"""


@pytest.fixture(scope="session")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the npm OTLP exporters."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip("node and npm are not installed; scripts/system-packages installs them when run as root")
    folder = tmp_path_factory.mktemp("node")

    packages = [
        f"@opentelemetry/{name}" for name in ("sdk-trace-node", "exporter-trace-otlp-http", "exporter-trace-otlp-proto")
    ]
    done = subprocess.run(
        ["npm", "install", "--silent", "--no-audit", "--no-fund", *packages], cwd=folder, capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"npm could not install the OpenTelemetry exporters: {done.stderr.strip()[-300:]}")
    return folder


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_the_npm_exporters_work(collector: Collector, node_modules: Path, encoding: str, compression: str) -> None:
    done = subprocess.run(
        ["node", "-e", NODE_PROGRAM, "x", collector.http, encoding, compression],
        cwd=node_modules,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "sent\n", done.stderr
    (record,) = journaled(collector.home)
    request = (
        json_to_message("traces", record.body)
        if encoding == "json"
        else trace_service_pb2.ExportTraceServiceRequest.FromString(record.body)
    )
    assert request.resource_spans[0].scope_spans[0].spans[0].name == "from node"


@pytest.mark.parametrize("encoding", ["identity", "gzip", "zstd", "gzip members", "zstd frames"])
def test_content_encodings(collector: Collector, encoding: str) -> None:
    body = one_span()
    half = len(body) // 2
    folded = {
        "identity": body,
        "gzip": gzip.compress(body),
        "zstd": zstandard.compress(body),
        "gzip members": gzip.compress(body[:half]) + gzip.compress(body[half:]),
        "zstd frames": zstandard.compress(body[:half]) + zstandard.compress(body[half:]),
    }[encoding]
    with collector.client() as client:
        headers = PROTOBUF | {"content-encoding": encoding.split()[0]}
        assert client.post("/v1/traces", content=folded, headers=headers).status_code == 200
    assert [record.body for record in journaled(collector.home)] == [body]


def test_chunked_bodies_without_a_length(collector: Collector) -> None:
    body = one_span()
    with collector.client() as client:
        answer = client.post("/v1/traces", content=iter([body[:10], body[10:11], body[11:]]), headers=PROTOBUF)
        assert "content-length" not in answer.request.headers
        assert answer.status_code == 200
    assert [record.body for record in journaled(collector.home)] == [body]


def test_an_empty_request_is_accepted_and_leaves_nothing(collector: Collector) -> None:
    with collector.client() as client:
        assert client.post("/v1/logs", content=b"", headers=PROTOBUF).status_code == 200
        assert client.post("/v1/logs", content=b"{}", headers=JSON).json() == {}
    assert export(collector, "metrics", b"") == b""
    assert journaled(collector.home) == []


def test_one_bad_record_is_counted_and_the_others_are_kept(collector: Collector) -> None:
    request = trace_service_pb2.ExportTraceServiceRequest()
    spans = request.resource_spans.add().scope_spans.add().spans
    spans.add(name="good", trace_id=b"t" * 16, span_id=b"1" * 8)
    spans.add(name="short id", trace_id=b"t" * 3, span_id=b"2" * 8)
    spans.add(name="no id", trace_id=b"", span_id=b"")
    spans.add(name="also good", trace_id=b"t" * 16, span_id=b"3" * 8)
    with collector.client() as client:
        answer = client.post("/v1/traces", content=request.SerializeToString(), headers=PROTOBUF)
    told = trace_service_pb2.ExportTraceServiceResponse.FromString(answer.content).partial_success
    assert (answer.status_code, told.rejected_spans) == (200, 2)
    assert "trace_id" in told.error_message
    overgrpc = trace_service_pb2.ExportTraceServiceResponse.FromString(
        export(collector, "traces", request.SerializeToString())
    )
    assert overgrpc.partial_success.rejected_spans == 2
    for record in journaled(collector.home):
        kept = trace_service_pb2.ExportTraceServiceRequest.FromString(record.body)
        assert [span.name for span in kept.resource_spans[0].scope_spans[0].spans] == ["good", "also good"]
        assert (record.items, record.meta["rejected"]) == (2, 2)


EVENT = {"type": "tool.result", "event_id": "e1", "timestamp": "2026-11-18T08:00:00Z", "session_id": "s", "payload": {}}


def test_event_lines_are_taken_and_a_bad_line_is_named(collector: Collector) -> None:
    camel = {"type": "vendor.thing", "eventId": "e2", "timestamp": "2026-11-18T08:00:00Z", "payload": {"x": [1]}}
    lines = [json.dumps(EVENT), "{not json", json.dumps({"type": "tool.result"}), json.dumps(camel), ""]
    with collector.client() as client:
        answer = client.post("/v1/events", content="\n".join(lines), headers={"content-type": "application/x-ndjson"})
    told = answer.json()
    assert (answer.status_code, told["accepted"], told["rejected"]) == (200, 2, 2)
    assert "line 2" in told["message"]
    assert "line 3" in told["message"]
    (record,) = journaled(collector.home)
    assert [json.loads(line) for line in record.body.splitlines()] == [EVENT, camel]


def test_metadata_routes(collector: Collector) -> None:
    with collector.client() as client:
        assert client.get("/livez").status_code == 200
        assert client.get("/readyz").json() == {"state": "ready"}
        assert client.get("/v1/traces").status_code == 405
        assert client.get("/elsewhere").status_code == 404


def test_sigterm_answers_what_is_running_and_exits_0(tmp_path: Path) -> None:
    outcomes: list[str] = []

    def send(collector: Collector, number: int) -> None:
        with collector.client() as client:
            for step in range(10_000):
                name = f"{number}-{step}"
                try:
                    answer = client.post("/v1/traces", content=one_span(name), headers=PROTOBUF)
                except httpx.TransportError:
                    return
                if answer.status_code == 200:
                    outcomes.append(name)

    collector = Collector(tmp_path / "home")
    senders = [threading.Thread(target=send, args=(collector, number)) for number in range(4)]
    for sender in senders:
        sender.start()
    time.sleep(0.5)
    started = time.monotonic()
    assert collector.stop() == 0
    assert time.monotonic() - started < 10
    for sender in senders:
        sender.join()
    stored = {
        trace_service_pb2.ExportTraceServiceRequest.FromString(record.body)
        .resource_spans[0]
        .scope_spans[0]
        .spans[0]
        .name
        for record in journaled(tmp_path / "home")
    }
    assert outcomes
    assert set(outcomes) <= stored
