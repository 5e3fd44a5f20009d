"""40 kinds of secrets in 10 places through the running receiver: masked before the journal, found nowhere later."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ingest.otlp.check import check
from ingest.otlp.otlp_json import json_to_protobuf
from ingest.otlp.signals import Encoding, SignalName
from models.redaction import Redactor
from tests.collector.test_receiving import JSON, PROTOBUF, export, journaled
from tests.collector.test_secrets_on_disk import bytes_on_disk
from tests.collector.test_spine import last_position, loaded
from tests.ingest.otlp.otlp_messages import to_json
from tests.running import Collector
from tests.secrets_corpus import PLACEMENTS, planted_secrets

ROUNDS = ("protobuf", "json", "grpc")
"""Each has its own secrets, so that what survives tells how it came."""


def span(request: ExportTraceServiceRequest, number: int) -> Any:
    resource = request.resource_spans[0] if request.resource_spans else request.resource_spans.add()
    scope = resource.scope_spans[0] if resource.scope_spans else resource.scope_spans.add()
    return scope.spans.add(trace_id=b"t" * 16, span_id=(number + 1).to_bytes(8, "big"), name="call")


def place_in_span(made: Any, place: str, text: str) -> None:
    """Put the text where the place says: beside the forms of text, every part of a span that holds text."""
    match place:
        case "span name":
            made.name = f"run {text}"
        case "status message":
            made.status.message = f"failed with {text}"
        case "span event":
            made.events.add(name="log").attributes.add(key="exception.message").value.string_value = f"bad: {text}"
        case "link":
            made.links.add(trace_id=b"l" * 16, span_id=b"l" * 8).attributes.add(key="from").value.string_value = text
        case "nested value":
            values = made.attributes.add(key="args").value.kvlist_value.values
            values.add(key="list").value.array_value.values.add().string_value = text
        case "bytes":
            made.attributes.add(key="raw").value.bytes_value = text.encode()
        case "attribute key":
            made.attributes.add(key=f"app.{text}.count").value.int_value = 1
        case "trace state":
            made.trace_state = f"vendor={text}"
        case _:
            made.attributes.add(key="note").value.string_value = PLACEMENTS[place](text)


PLACES = (*PLACEMENTS, "span name", "status message", "span event", "link", "nested value", "bytes", "trace state")


def request_of(kinds: dict[str, str]) -> ExportTraceServiceRequest:
    """Every kind in every place, one span each."""
    request = ExportTraceServiceRequest()
    pairs = [(text, place) for text in kinds.values() for place in PLACES]
    for number, (text, place) in enumerate(pairs):
        place_in_span(span(request, number), place, text)
    return request


def logs_of(kinds: dict[str, str]) -> ExportLogsServiceRequest:
    """Every kind in the bodies of log records, as text and as a map, and below names that tell of a secret."""
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    for kind, text in kinds.items():
        records.add(event_name=kind).body.string_value = f"found {text} here"
        nested = records.add().body.kvlist_value.values.add(key="headers").value.kvlist_value
        nested.values.add(key="x-custom").value.string_value = text
        records.add().attributes.add(key="http.request.header.authorization").value.string_value = text
    return request


def lines_of(secret: str) -> list[str]:
    """What must be found nowhere: the secret, or each line of a key."""
    return [line for line in secret.split("\n") if len(line) >= 8]


@pytest.fixture(scope="module")
def sent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    home = tmp_path_factory.mktemp("secrets") / "home"
    with Collector(home, everything=True) as collector, collector.client() as client:
        for way in ROUNDS:
            kinds = {kind: planted.text for kind, planted in planted_secrets(way).items()}
            messages: dict[SignalName, Message] = {"traces": request_of(kinds), "logs": logs_of(kinds)}
            for signal, message in messages.items():
                if way == "grpc":
                    export(collector, signal, message.SerializeToString())
                    continue
                body = to_json(message) if way == "json" else message.SerializeToString()
                answer = client.post(f"/v1/{signal}", content=body, headers=JSON if way == "json" else PROTOBUF)
                assert (answer.status_code, answer.content) == (200, b"{}" if way == "json" else b"")
            event = {"type": "tool.args", "event_id": way, "timestamp": "2026-01-01T00:00:00Z", "payload": kinds}
            assert client.post("/v1/events", content=json.dumps(event), headers=JSON).json()["accepted"] == 1
        loaded(home, last_position(home)).close()
        yield collector


def test_forty_kinds_in_ten_places_are_found_nowhere(sent: Collector) -> None:
    assert len(planted_secrets()) >= 40
    assert len(PLACES) >= 10
    if sent.process.poll() is None:
        assert sent.stop() == 0
    disk = bytes_on_disk(sent.home.parent)
    for record in journaled(sent.home):
        disk += record.body + orjson.dumps(record.meta)
    assert disk.count(b"[REDACTED:") > len(planted_secrets()) * len(PLACES)
    survived = [
        (way, kind)
        for way in ROUNDS
        for kind, planted in planted_secrets(way).items()
        if any(line.encode() in disk for line in lines_of(planted.secret))
    ]
    assert survived == []


def test_refusals_and_logs_do_not_repeat_a_secret(tmp_path: Path) -> None:
    kinds = planted_secrets("refused")
    texts = [planted.text for planted in kinds.values()]
    answers = b""
    with Collector(tmp_path / "home") as collector, collector.client() as client:
        for text in texts:
            spoiled = json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": [{"traceId": text, "name": text}]}]}]})
            for body in (spoiled, spoiled[:-5], json.dumps({"resourceSpans": text}), json.dumps(text)):
                answers += client.post("/v1/traces", content=body, headers=JSON).content
            answers += client.post("/v1/events", content=json.dumps({"type": text, text: 1}), headers=JSON).content
            answers += client.post("/v1/traces", content=b"\x0a\xff" + text.encode(), headers=PROTOBUF).content
    everything = answers + bytes_on_disk(tmp_path)
    assert [
        kind for kind, one in kinds.items() if any(line.encode() in everything for line in lines_of(one.secret))
    ] == []


@pytest.mark.parametrize("place", [*PLACES, "body"])
@pytest.mark.parametrize("encoding", ["protobuf", "json"])
def test_a_secret_alone_in_its_place_is_masked(place: str, encoding: Encoding) -> None:
    redactor = Redactor(b"a key for tests only, 32 bytes!!")
    for kind, planted in planted_secrets().items():
        signal: SignalName = "logs" if place == "body" else "traces"
        message: Any = ExportLogsServiceRequest() if place == "body" else ExportTraceServiceRequest()
        if place == "body":
            message.resource_logs.add().scope_logs.add().log_records.add().body.string_value = planted.text
        else:
            place_in_span(span(message, 1), place, planted.text)
        body = to_json(message) if encoding == "json" else message.SerializeToString()
        checked = check(signal, body, encoding, redactor)
        assert checked.redactions, kind
        kept = message_of(signal, encoding, checked.body)
        assert not any(line.encode() in kept for line in lines_of(planted.secret)), kind


def message_of(signal: SignalName, encoding: Encoding, body: bytes) -> bytes:
    """The kept body as protobuf, in which nothing is escaped or in base64."""
    return json_to_protobuf(signal, body) if encoding == "json" else body
