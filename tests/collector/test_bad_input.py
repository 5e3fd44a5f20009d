"""Hostile and broken input: the right answer each time, no crash, bounded memory."""

import contextlib
import gzip
import json
import socket
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import grpc
import httpx
import pytest
import zstandard
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from tests.collector.test_receiving import JSON, PROTOBUF, call, export, journaled, one_span
from tests.running import Collector

MIB = 1024 * 1024
MEMORY_LIMIT_MB = 300


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    home = tmp_path_factory.mktemp("bad") / "home"
    with Collector(home, TACHOGRAPH_BODY_TIMEOUT_S="1", TACHOGRAPH_HEADER_TIMEOUT_S="1") as running:
        yield running
        assert running.peak_rss_mb() < MEMORY_LIMIT_MB
        with running.client() as client:
            assert client.post("/v1/traces", content=one_span(), headers=PROTOBUF).status_code == 200


def field(number: int, content: bytes) -> bytes:
    """A length-delimited protobuf field."""
    size, length = len(content), b""
    while size > 0x7F:
        length += bytes([size & 0x7F | 0x80])
        size >>= 7
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


def spans(content: bytes) -> bytes:
    return field(1, field(2, content))


def nested_value(depth: int) -> bytes:
    value = b"\x0a\x01x"
    for _ in range(depth):
        value = field(5, field(1, value))
    return value


def span_with(content: bytes) -> bytes:
    return spans(field(2, field(1, b"t" * 16) + field(2, b"s" * 8) + content))


EMPTY_SPANS = spans(b"\x12\x00" * (10 * MIB - 20))
BOMBS = {
    "ten million empty spans": EMPTY_SPANS,
    "ten million empty attributes": span_with(b"\x4a\x00" * (10 * MIB - 40)),
    "ten million empty span events": span_with(b"\x5a\x00" * (10 * MIB - 40)),
    "empty attributes spread over spans": spans(field(2, b"\x4a\x00" * 200) * 51_000),
    "ten million empty scopes": field(1, b"\x12\x00" * (10 * MIB - 10)),
    "ten million empty resources": b"\x0a\x00" * (10 * MIB),
    "256 MiB of zeros": bytes(256 * MIB),
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("fold", ["gzip", "zstd"])
def test_bombs_are_refused_as_too_large(collector: Collector, name: str, fold: str) -> None:
    body = gzip.compress(BOMBS[name], 6) if fold == "gzip" else zstandard.compress(BOMBS[name])
    with collector.client() as client:
        started = time.monotonic()
        answer = client.post("/v1/traces", content=body, headers=PROTOBUF | {"content-encoding": fold})
        assert answer.status_code == 413
        assert time.monotonic() - started < 30
    assert Status.FromString(answer.content).code == 8


def test_a_bomb_of_many_members_is_refused(collector: Collector) -> None:
    member = gzip.compress(bytes(MIB))
    with collector.client() as client:
        answer = client.post("/v1/traces", content=member * 64, headers=PROTOBUF | {"content-encoding": "gzip"})
    assert answer.status_code == 413


def test_a_zstd_frame_that_wants_a_huge_window_is_refused(collector: Collector) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, compression_level=1, write_content_size=0)
    body = zstandard.ZstdCompressor(compression_params=parameters).compress(bytes(200 * MIB))
    with collector.client() as client:
        answer = client.post("/v1/traces", content=body, headers=PROTOBUF | {"content-encoding": "zstd"})
    assert answer.status_code in (400, 413)


def test_json_bombs_are_refused(collector: Collector) -> None:
    many = b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"{}," * (6 * MIB) + b"{}]}]}]}"
    with collector.client() as client:
        assert client.post("/v1/traces", content=many, headers=JSON).status_code == 413
        deep = b'{"resourceSpans":' + b"[" * 5000 + b"]" * 5000 + b"}"
        assert client.post("/v1/traces", content=deep, headers=JSON).status_code == 400


def test_bombs_over_grpc_are_refused_without_asking_for_a_retry(collector: Collector) -> None:
    with grpc.insecure_channel(collector.grpc, compression=grpc.Compression.Gzip) as channel:
        for body in (EMPTY_SPANS, bytes(64 * MIB)):
            with pytest.raises(grpc.RpcError) as refusal:
                call(channel, "traces", body)
            assert refusal.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "grpc-status-details-bin" not in str(refusal.value.trailing_metadata())


BROKEN = {
    "noise": b"\xff\xfe\xfd" * 20,
    "truncated": one_span()[:-3],
    "invalid UTF-8 in a name": one_span("\x01").replace(b"\x2a\x01\x01", b"\x2a\x01\xff"),
    "nesting of 5000": span_with(field(9, field(1, b"k") + field(2, nested_value(5000)))),
    "a wrong wire type": b"\x08\x01\x0d",
    "JSON told as protobuf": b'{"resourceSpans":[]}',
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_protobuf_is_400_with_a_status_that_names_the_cause(collector: Collector, name: str) -> None:
    with collector.client() as client:
        answer = client.post("/v1/traces", content=BROKEN[name], headers=PROTOBUF)
    assert answer.status_code == 400
    status = Status.FromString(answer.content)
    assert status.code == 3
    assert status.message
    with pytest.raises(grpc.RpcError) as refusal:
        export(collector, "traces", BROKEN[name])
    assert refusal.value.code() == grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b'"x"', b'{"resourceSpans":{}}', b'{"resourceSpans":[1]}', b'{"resourceSpans":[{"a":"\xff"}]}'],
)
def test_broken_json_is_400_in_json(collector: Collector, body: bytes) -> None:
    with collector.client() as client:
        answer = client.post("/v1/traces", content=body, headers=JSON)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/json")
    assert answer.json()["code"] == 3


@pytest.mark.parametrize("kind", ["text/plain", "", "application/xml", "application/grpc"])
def test_other_content_types_are_415(collector: Collector, kind: str) -> None:
    with collector.client() as client:
        assert client.post("/v1/traces", content=b"x", headers={"content-type": kind}).status_code == 415


def test_broken_and_unknown_content_encodings(collector: Collector) -> None:
    with collector.client() as client:

        def status(content: bytes, encoding: str) -> int:
            return client.post(
                "/v1/traces", content=content, headers=PROTOBUF | {"content-encoding": encoding}
            ).status_code

        assert status(one_span(), "br") == 415
        assert status(one_span(), "gzip") == 400
        assert status(gzip.compress(one_span())[:-9], "gzip") == 400
        assert status(zstandard.compress(one_span())[:-3], "zstd") == 400
        assert status(zlib.compress(one_span()), "gzip") == 400


def test_nesting_of_50_is_kept(collector: Collector) -> None:
    body = span_with(field(9, field(1, b"k") + field(2, nested_value(40))))
    with collector.client() as client:
        assert client.post("/v1/traces", content=body, headers=PROTOBUF).status_code == 200


def test_large_but_honest_values_are_kept(collector: Collector) -> None:
    request = trace_service_pb2.ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(trace_id=b"L" * 16, span_id=b"L" * 8)
    span.attributes.add(key="large").value.string_value = "x" * (10 * MIB)
    for number in range(100_000):
        span.attributes.add(key=f"k{number}").value.int_value = number
    span.attributes.add(key="n" * MIB).value.bool_value = True
    body = request.SerializeToString()
    with collector.client() as client:
        assert client.post("/v1/traces", content=body, headers=PROTOBUF).status_code == 200
    assert body in [record.body for record in journaled(collector.home)]


def test_a_body_over_the_limit_is_413_whether_its_length_is_told_or_not(collector: Collector) -> None:
    large = bytes(21 * MIB)
    with collector.client() as client:
        assert client.post("/v1/traces", content=large, headers=PROTOBUF).status_code == 413
    pieces = iter([bytes(MIB)] * 21)
    with collector.client() as client, contextlib.suppress(httpx.WriteError):  # it may hang up while we are sending
        assert client.post("/v1/traces", content=pieces, headers=PROTOBUF).status_code == 413


def raw(collector: Collector) -> socket.socket:
    host, port = collector.http.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=20)


def everything(connection: socket.socket) -> bytes:
    found = b""
    while piece := connection.recv(65536):
        found += piece
    return found


HEAD = b"POST /v1/traces HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\n"


def test_a_length_that_promises_more_than_comes_is_timed_out(collector: Collector) -> None:
    with raw(collector) as connection:
        connection.sendall(HEAD + b"content-length: 1000\r\n\r\n" + one_span())
        assert everything(connection).startswith(b"HTTP/1.1 408")


def test_a_length_that_promises_less_than_comes_does_not_confuse_the_next_request(collector: Collector) -> None:
    with raw(collector) as connection:
        connection.sendall(HEAD + b"content-length: 5\r\n\r\n" + one_span())
        assert everything(connection).startswith(b"HTTP/1.1 400")


@pytest.mark.parametrize("length", [b"-1", b"abc", b"99999999999999999999", b"5\r\ncontent-length: 6"])
def test_impossible_lengths_are_refused(collector: Collector, length: bytes) -> None:
    with raw(collector) as connection:
        connection.sendall(HEAD + b"content-length: " + length + b"\r\n\r\n" + one_span())
        assert everything(connection)[9:12] in (b"400", b"413")


def test_slow_headers_and_endless_headers_are_let_go(collector: Collector) -> None:
    with raw(collector) as connection:
        connection.sendall(b"POST /v1/traces HTTP/1.1\r\nho")
        assert everything(connection).startswith(b"HTTP/1.1 408")
    with raw(collector) as connection:
        assert everything(connection) == b""  # said nothing at all
    with raw(collector) as connection:
        connection.sendall(b"POST /v1/traces HTTP/1.1\r\n" + b"x: " + b"y" * 70_000)
        assert everything(connection).startswith(b"HTTP/1.1 431")


def test_a_slow_body_is_let_go(collector: Collector) -> None:
    with raw(collector) as connection:
        connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n")
        answer = b""
        connection.settimeout(0.2)
        for _ in range(30):
            try:
                connection.sendall(b"1\r\nx\r\n")
                answer += connection.recv(65536)
            except TimeoutError:
                continue
            except OSError:
                break
            if answer:
                break
        assert answer.startswith(b"HTTP/1.1 408")


def test_bad_event_lines_cost_only_themselves(collector: Collector) -> None:
    good = {"type": "x.y", "event_id": "1", "timestamp": "2026-01-01T00:00:00Z"}
    lines = [b"\xff\xfe", b"[]", b"null", b"{}", b'{"type": 1}', json.dumps(good).encode()]
    with collector.client() as client:
        answer = client.post("/v1/events", content=b"\n".join(lines), headers={"content-type": "application/x-ndjson"})
    assert (answer.status_code, answer.json()["accepted"], answer.json()["rejected"]) == (200, 1, 5)


def test_too_much_at_once_is_503_with_retry_after_and_recovers(tmp_path: Path) -> None:
    with Collector(tmp_path / "home", TACHOGRAPH_IN_FLIGHT_BYTES="1000000") as collector, collector.client() as client:
        large = span_with(field(9, field(1, b"k") + field(2, field(1, b"x" * 1_100_000))))
        answer = client.post("/v1/traces", content=large, headers=PROTOBUF)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        with pytest.raises(grpc.RpcError) as refusal:
            export(collector, "traces", large)
        assert refusal.value.code() == grpc.StatusCode.UNAVAILABLE
        assert client.post("/v1/traces", content=one_span(), headers=PROTOBUF).status_code == 200
