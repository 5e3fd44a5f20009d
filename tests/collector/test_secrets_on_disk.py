"""A planted secret is nowhere on disk; everything else is as it was sent."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from ingest.otlp.signals import SignalName
from tests.collector.test_receiving import JSON, PROTOBUF, export, journaled
from tests.running import Collector, tachograph
from tests.secrets_corpus import SECRETS

CANARY = "sk-ant-" + "api03-" + "Zx9" * 31 + "-AA"
WORD = "hunter" + "2-Correct-Horse"


def bytes_on_disk(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    with Collector(tmp_path / "home") as running:
        yield running


def traces() -> trace_service_pb2.ExportTraceServiceRequest:
    request = trace_service_pb2.ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="env").value.string_value = f"ANTHROPIC_API_KEY={CANARY}"
    scope = resource.scope_spans.add()
    span = scope.spans.add(name=f"call with {CANARY}", trace_id=b"t" * 16, span_id=b"s" * 8)
    span.attributes.add(key="prompt").value.string_value = f'use {CANARY} please, or {{"k": "{CANARY}"}}'
    span.attributes.add(key="password").value.string_value = WORD
    span.attributes.add(key="gen_ai.usage.input_tokens").value.int_value = 7
    nested = span.attributes.add(key="deep").value.kvlist_value.values.add(key="list").value.array_value
    nested.values.add().string_value = f"https://user:{WORD}@example.com/x"
    nested.values.add().double_value = 0.5
    span.events.add(name="log").attributes.add(key="line").value.string_value = f"Authorization: Bearer {CANARY}"
    span.status.message = f"401 for {CANARY}"
    scope.spans.add(name="clean", trace_id=b"t" * 16, span_id=b"2" * 8).attributes.add(key="n").value.int_value = 1
    return request


def logs() -> logs_service_pb2.ExportLogsServiceRequest:
    request = logs_service_pb2.ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add(event_name="e", time_unix_nano=5)
    record.body.string_value = json.dumps({"headers": {"x-api-key": CANARY}, "n": [1, 2]})
    other = request.resource_logs[0].scope_logs[0].log_records.add(time_unix_nano=6)
    other.body.kvlist_value.values.add(key="client_secret").value.string_value = WORD
    return request


def metrics() -> metrics_service_pb2.ExportMetricsServiceRequest:
    request = metrics_service_pb2.ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name="calls", unit="1")
    point = metric.sum.data_points.add(as_int=3)
    point.attributes.add(key="key").value.string_value = CANARY
    return request


MESSAGES: dict[SignalName, Callable[[], Message]] = {"traces": traces, "logs": logs, "metrics": metrics}


@pytest.mark.parametrize("signal", MESSAGES)
@pytest.mark.parametrize("transport", ["protobuf", "json", "grpc"])
def test_a_planted_secret_is_nowhere_on_disk(collector: Collector, signal: SignalName, transport: str) -> None:
    from google.protobuf.json_format import MessageToDict

    message = MESSAGES[signal]()
    with collector.client() as client:
        if transport == "protobuf":
            answer = client.post(f"/v1/{signal}", content=message.SerializeToString(), headers=PROTOBUF)
            assert answer.status_code == 200
        elif transport == "json":
            document = MessageToDict(message)
            for resource in document.get("resourceSpans", []):
                for span in resource["scopeSpans"][0]["spans"]:
                    span["traceId"], span["spanId"] = "74" * 16, "73" * 8
            answer = client.post(f"/v1/{signal}", content=json.dumps(document), headers=JSON)
            assert answer.status_code == 200
        else:
            export(collector, signal, message.SerializeToString())
    assert collector.stop() == 0
    disk = bytes_on_disk(collector.home.parent)
    assert b"REDACTED" in disk
    assert CANARY.encode() not in disk
    assert WORD.encode() not in disk
    (record,) = journaled(collector.home)
    assert sum(record.meta["redactions"].values()) >= 1


def test_everything_but_the_secrets_is_equal(collector: Collector) -> None:
    sent = traces()
    with collector.client() as client:
        client.post("/v1/traces", content=sent.SerializeToString(), headers=PROTOBUF)
    (record,) = journaled(collector.home)
    kept = trace_service_pb2.ExportTraceServiceRequest.FromString(record.body)
    span = kept.resource_spans[0].scope_spans[0].spans[0]
    assert span.attributes[2] == sent.resource_spans[0].scope_spans[0].spans[0].attributes[2]
    assert span.attributes[0].value.string_value.startswith("use [REDACTED:")
    assert span.attributes[1].value.string_value.startswith("[REDACTED:")
    array = span.attributes[3].value.kvlist_value.values[0].value.array_value
    assert array.values[1].double_value == 0.5
    assert array.values[0].string_value.endswith("@example.com/x")
    assert kept.resource_spans[0].scope_spans[0].spans[1] == sent.resource_spans[0].scope_spans[0].spans[1]
    digests = {part.split("]")[0] for part in record.body.decode("latin-1").split("[REDACTED:anthropic")[1:]}
    assert len(digests) == 1  # equal secrets stay comparable


def test_event_lines_are_masked(collector: Collector) -> None:
    line = {
        "type": "tool.args",
        "event_id": "1",
        "timestamp": "2026-01-01T00:00:00Z",
        "payload": {"preview": CANARY, "password": WORD},
    }
    with collector.client() as client:
        answer = client.post("/v1/events", content=json.dumps(line), headers=JSON)
        assert answer.json()["accepted"] == 1
    assert collector.stop() == 0
    disk = bytes_on_disk(collector.home.parent)
    assert CANARY.encode() not in disk
    assert WORD.encode() not in disk
    assert json.loads(journaled(collector.home)[0].body)["payload"]["preview"].startswith("[REDACTED:")


def test_refusals_do_not_repeat_a_secret(collector: Collector) -> None:
    with collector.client() as client:
        broken = client.post("/v1/logs", content=f'{{"resourceLogs": "{CANARY}"'.encode(), headers=JSON)
        wrong = client.post("/v1/logs", content=f'{{"resourceLogs": "{CANARY}"}}'.encode(), headers=JSON)
        line = client.post("/v1/events", content=f'{{"type": "{CANARY}", "x": }}'.encode(), headers=JSON)
    for answer in (broken, wrong, line):
        assert CANARY not in answer.text
    assert collector.stop() == 0
    assert CANARY.encode() not in bytes_on_disk(collector.home.parent)


def test_every_kind_of_secret_is_masked_before_the_journal(collector: Collector) -> None:
    with collector.client() as client:
        for secret in SECRETS.values():
            request = logs_service_pb2.ExportLogsServiceRequest()
            record = request.resource_logs.add().scope_logs.add().log_records.add()
            record.body.string_value = f"found {secret} in the log"
            assert client.post("/v1/logs", content=request.SerializeToString(), headers=PROTOBUF).status_code == 200
    assert collector.stop() == 0
    disk = bytes_on_disk(collector.home)
    assert [kind for kind, secret in SECRETS.items() if secret.encode() in disk] == []


def test_tokens_are_not_written_down_in_clear(tmp_path: Path) -> None:
    made = tachograph("token", "create", "--scope", "ingest", home=tmp_path / "home")
    token = made.stdout.strip()
    with Collector(tmp_path / "home") as collector, collector.client() as client:
        assert client.post("/v1/logs", content=b"{}", headers=JSON).status_code == 401
        bearer = {"authorization": f"Bearer {token}"}
        assert client.post("/v1/logs", content=b"{}", headers=JSON | bearer).status_code == 200
        assert client.post(f"/v1/logs?token={token}", content=b"{}", headers=JSON).status_code == 401
    assert token.encode() not in bytes_on_disk(tmp_path)
    assert token[-16:].encode() not in bytes_on_disk(tmp_path)
