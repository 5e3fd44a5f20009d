"""What of an OTLP request is kept: bounds, decoding, single records."""

import random
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from google.rpc.status_pb2 import Status
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from ingest.otlp.answers import answer, status_body
from ingest.otlp.check import Checked, check
from ingest.otlp.otlp_json import json_to_message
from ingest.otlp.refusals import Limits, TooLarge, Undecodable
from ingest.otlp.signals import SIGNALS, SignalName
from models.redaction import Redactor
from tests.ingest.otlp.otlp_messages import captured, count_records, field, generated, mutated, to_json

REDACTOR = Redactor(b"a key only for these tests")
SIGNAL_NAMES: tuple[SignalName, ...] = ("logs", "traces", "metrics")
N = 10_000_000


def trace_request(*ids: tuple[bytes, bytes, bytes]) -> Any:
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for at, (trace_id, span_id, parent) in enumerate(ids):
        scope.spans.add(trace_id=trace_id, span_id=span_id, parent_span_id=parent, name=f"span {at}")
    return request


def test_every_captured_body_passes_unchanged_with_all_its_records(real_traces: Path) -> None:
    bodies = list(captured(real_traces))
    assert len(bodies) == 115
    for path, signal, encoding, body in bodies:
        checked = check(signal, body, encoding, REDACTOR)
        decoded = path if encoding == "json" else path.with_suffix(".decoded.json")
        assert checked.body is body, path
        assert checked == Checked(body, count_records(signal, orjson.loads(decoded.read_bytes())))
        assert checked.items > 0


@pytest.mark.parametrize("signal", SIGNAL_NAMES)
@pytest.mark.parametrize("encoding", ["protobuf", "json"])
def test_an_empty_request_is_fine(signal: SignalName, encoding: Any) -> None:
    empty = b"" if encoding == "protobuf" else b"{}"
    assert check(signal, empty, encoding, REDACTOR) == Checked(empty, 0)


BOMBS: dict[str, tuple[SignalName, Callable[[], bytes]]] = {
    "spans": ("traces", lambda: field(0x0A, field(0x12, b"\x12\0" * N))),
    "resources": ("traces", lambda: b"\x0a\0" * N),
    "scopes": ("traces", lambda: field(0x0A, b"\x12\0" * N)),
    "unread fields of a scope": ("traces", lambda: field(0x0A, field(0x12, b"\x1a\0" * N))),
    "attributes of one span": ("traces", lambda: field(0x0A, field(0x12, field(0x12, b"\x4a\0" * N)))),
    "attributes of 50,000 spans": ("traces", lambda: field(0x0A, field(0x12, field(0x12, b"\x4a\0" * 200) * 50_000))),
    "empty values": ("traces", lambda: field(0x0A, field(0x12, field(0x12, b"\x4a\2\x12\0" * (N // 2))))),
    "attributes with long tags": ("traces", lambda: field(0x0A, field(0x12, field(0x12, b"\xca\0\0" * (N // 2))))),
    "log records": ("logs", lambda: field(0x0A, field(0x12, b"\x12\0" * N))),
    "log attributes": ("logs", lambda: field(0x0A, field(0x12, field(0x12, b"\x32\0" * N)))),
    "resource attributes": ("logs", lambda: field(0x0A, field(0x0A, b"\x0a\0" * N))),
    "metrics": ("metrics", lambda: field(0x0A, field(0x12, b"\x12\0" * N))),
    "data points": ("metrics", lambda: field(0x0A, field(0x12, field(0x12, field(0x2A, b"\x0a\0" * N))))),
    "point attributes": (
        "metrics",
        lambda: field(0x0A, field(0x12, field(0x12, field(0x2A, field(0x0A, b"\x3a\0" * N))))),
    ),
    "packed bucket counts": (
        "metrics",
        lambda: field(
            0x0A, field(0x12, field(0x12, field(0x52, field(0x0A, field(0x42, field(0x12, b"\1" * 2 * N))))))
        ),
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_twenty_megabytes_of_empty_messages_are_refused_at_once(name: str) -> None:
    signal, make = BOMBS[name]
    body = make()
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    took_s = []
    for _ in range(3):  # the machine may be busy: processor time, and the best of three
        start = time.process_time()
        with pytest.raises(TooLarge):
            check(signal, body, "protobuf", REDACTOR)
        took_s.append(time.process_time() - start)
    assert min(took_s) < 0.1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 64 * 1024


@pytest.mark.parametrize("entry", [b"{},", b"[],", b'"ab",'])
def test_a_json_bomb_is_refused_before_parsing(entry: bytes) -> None:
    body = b'{"resourceSpans":[' + entry * (N // 2) + b"{}]}"
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TooLarge):
        check("traces", body, "json", REDACTOR)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 64 * 1024


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
def test_as_many_records_as_allowed_pass_and_one_more_does_not(encoding: Any) -> None:
    request = trace_request(*((b"t" * 16, at.to_bytes(8), b"") for at in range(1, 12)))
    body = request.SerializeToString() if encoding == "protobuf" else to_json(request)
    assert check("traces", body, encoding, None, Limits(max_items=11)).items == 11
    with pytest.raises(TooLarge):
        check("traces", body, encoding, None, Limits(max_items=10))


def test_a_large_honest_body_is_counted_and_kept() -> None:
    request = trace_request(*((b"t" * 16, at.to_bytes(8), b"") for at in range(1, 2001)))
    for span in request.resource_spans[0].scope_spans[0].spans:
        for at in range(22):
            span.attributes.add(key=f"key {at}").value.string_value = 'some "quoted" text, 2 x * z' * 4
    body = request.SerializeToString()
    assert len(body) > 4 * 1024 * 1024
    assert check("traces", body, "protobuf", None).body is body
    nested = 2000 * (22 * 2 + 1) + 3 - 1  # spans, attributes, values; one resource, one scope
    assert check("traces", body, "protobuf", None, Limits(max_nested=nested)).items == 2000
    with pytest.raises(TooLarge):
        check("traces", body, "protobuf", None, Limits(max_nested=nested - 1))


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        (lambda body: body.replace(b"span 0", b"spa\xff 0"), "UTF-8"),
        (lambda body: body[:-1], "ends within|longer than"),
        (lambda body: body + b"\x0a", "ends within"),
        (lambda body: body + b"\x0a\x05\x12", "longer than"),
        (lambda body: body + b"\x0b\x0c", "groups"),
        (lambda body: b"\xff" * 30, "varint"),
        (lambda body: b"\x0a" + b"\xff" * 9 + b"\x01", "longer than"),
        (lambda body: field(0x0A, field(0x12, field(0x12, b"\x0a\x7f"))), "truncated or corrupt"),
    ],
)
def test_broken_protobuf_is_refused_with_its_cause(damage: Any, cause: str) -> None:
    body = trace_request((b"t" * 16, b"s" * 8, b"")).SerializeToString()
    with pytest.raises(Undecodable, match=cause):
        check("traces", damage(body), "protobuf", REDACTOR)


@pytest.mark.parametrize("arrays", [60, 5000])
def test_values_nested_too_deeply_are_refused(arrays: int) -> None:
    value = b""
    for _ in range(arrays):
        value = field(0x2A, field(0x0A, value))
    span = field(0x0A, b"t" * 16) + field(0x12, b"s" * 8) + field(0x4A, field(0x12, value))
    with pytest.raises(Undecodable, match="nested"):
        check("traces", field(0x0A, field(0x12, field(0x12, span))), "protobuf", REDACTOR)


def test_bad_spans_are_dropped_and_counted_and_the_others_kept() -> None:
    trace, span = b"t" * 16, b"s" * 8
    good = [(trace, span, b""), (trace, b"r" * 8, span), (trace, b"q" * 8, bytes(8))]
    bad = [
        (b"", span, b""),
        (bytes(16), span, b""),
        (trace, b"short", b""),
        (trace, bytes(8), b""),
        (trace, span, b"p"),
    ]
    request = trace_request(good[0], *bad, good[1], good[2])
    unknown = field(0xA2, b"\x01")[:1] + b"\x06\x05later"  # field 100, from a newer protocol
    body = request.SerializeToString() + unknown
    checked = check("traces", body, "protobuf", REDACTOR)
    assert (checked.items, checked.rejected) == (3, 5)
    assert checked.message == (
        "span 1: trace_id must be 16 bytes, not all zero; span 2: trace_id must be 16 bytes, not all zero; "
        "span 3: span_id must be 8 bytes, not all zero; and 2 more"
    )
    kept = ExportTraceServiceRequest.FromString(checked.body)
    spans = request.resource_spans[0].scope_spans[0].spans
    assert list(kept.resource_spans[0].scope_spans[0].spans) == [spans[0], spans[6], spans[7]]
    assert checked.body.endswith(unknown)
    assert check("traces", checked.body, "protobuf", REDACTOR) == Checked(checked.body, 3)


def test_a_log_record_needs_no_ids_but_not_wrong_ones() -> None:
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    for trace_id, span_id in [(b"", b""), (b"t" * 16, b"s" * 8), (bytes(16), bytes(8)), (b"t" * 15, b""), (b"", b"s")]:
        records.add(trace_id=trace_id, span_id=span_id)
    checked = check("logs", request.SerializeToString(), "protobuf", None)
    assert (checked.items, checked.rejected) == (3, 2)
    kept = ExportLogsServiceRequest.FromString(checked.body).resource_logs[0].scope_logs[0].log_records
    assert list(kept) == list(records)[:3]


def test_links_with_odd_ids_are_kept_as_sent() -> None:
    request = trace_request((b"t" * 16, b"s" * 8, b""))
    request.resource_spans[0].scope_spans[0].spans[0].links.add(trace_id=b"odd", span_id=b"")
    body = request.SerializeToString()
    assert check("traces", body, "protobuf", None).body is body


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rng=st.randoms(use_true_random=False), signal=st.sampled_from(SIGNAL_NAMES))
def test_generated_requests_pass_unchanged_in_both_encodings(rng: random.Random, signal: SignalName) -> None:
    request = generated(signal, rng)
    body = request.SerializeToString()
    as_json = to_json(request)
    checked = check(signal, body, "protobuf", None)
    assert checked.body is body
    assert checked.items == count_records(signal, orjson.loads(as_json))
    assert check(signal, as_json, "json", None) == Checked(as_json, checked.items)


def test_mutated_bodies_raise_nothing_but_the_two_refusals(real_traces: Path) -> None:
    rng = random.Random(20261118)
    bodies = [(s, e, b) for _, s, e, b in captured(real_traces) if len(b) < 8_000]
    bodies += [("traces", "json", to_json(generated("traces", rng)))]
    outcomes = {"kept": 0, "refused": 0}
    for _ in range(20_000):
        signal, encoding, body = rng.choice(bodies)
        try:
            checked = check(signal, mutated(body, rng), encoding, REDACTOR)
        except (Undecodable, TooLarge):
            outcomes["refused"] += 1
            continue
        outcomes["kept"] += 1
        if encoding == "json":
            json_to_message(signal, checked.body)  # what was accepted can be decoded later
        if checked.rejected:
            again = check(signal, checked.body, encoding, None)
            assert (again.items, again.rejected) == (checked.items, 0)
    assert min(outcomes.values()) > 2_000


def test_the_answer_tells_refused_records_only_if_there_are_any() -> None:
    fine, partly = Checked(b"", 3), Checked(b"", 2, 1, "span 0: trace_id must be 16 bytes, not all zero")
    assert ExportTraceServiceResponse.FromString(answer("traces", "protobuf", fine)) == ExportTraceServiceResponse()
    assert not ExportTraceServiceResponse.FromString(answer("traces", "protobuf", fine)).HasField("partial_success")
    told = ExportTraceServiceResponse.FromString(answer("traces", "protobuf", partly)).partial_success
    assert (told.rejected_spans, told.error_message) == (1, partly.message)
    points = ExportMetricsServiceResponse.FromString(answer("metrics", "protobuf", partly))
    assert points.partial_success.rejected_data_points == 1
    assert answer("logs", "json", fine) == b"{}"
    assert orjson.loads(answer("logs", "json", partly)) == {
        "partialSuccess": {"rejectedLogRecords": "1", "errorMessage": partly.message}
    }


def test_a_refusal_has_a_status_body_in_the_encoding_of_the_request() -> None:
    status = Status.FromString(status_body("protobuf", 3, "not valid"))
    assert (status.code, status.message) == (3, "not valid")
    assert orjson.loads(status_body("json", 3, "not valid")) == {"code": 3, "message": "not valid"}


def test_paths_and_methods_are_those_of_the_protocol() -> None:
    assert [SIGNALS[name].path for name in SIGNAL_NAMES] == ["/v1/logs", "/v1/traces", "/v1/metrics"]
    assert SIGNALS["traces"].method == "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
