"""From OTLP requests to rows of `records`: both decoders agree, nothing is lost, ids are stable."""

import json
import random
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import SEVERITY_NUMBER_ERROR, SEVERITY_NUMBER_INFO2

from ingest.batch import Batch, Part
from ingest.otlp.check import check
from ingest.otlp.columnar import decode_columns
from ingest.otlp.levels import Request
from ingest.otlp.otlp_json import json_to_protobuf
from ingest.otlp.plain import decode_plainly
from ingest.otlp.records import decode
from ingest.otlp.refusals import Undecodable
from ingest.otlp.signals import SignalName
from journal.record import Record
from store.schema import RECORDS, arrow_schema
from tests.ingest.otlp.otlp_messages import captured, count_records, generated, mutated, to_json

JSON_COLUMNS = [column.name for column in RECORDS if column.sql.startswith("JSON")]
RECEIVED_NS = 1_794_983_400_123_456_789
KEYS: dict[str, Any] = {
    "event.name": pl.String,
    "session.id": pl.String,
    "gen_ai.request.model": pl.String,
    "gen_ai.usage.input_tokens": pl.Int64,
    "gen_ai.response.finish_reasons": pl.String,
    "input_tokens": pl.Int64,
    "duration_ms": pl.Float64,
    "success": pl.Boolean,
    "": pl.String,
    "a": pl.Int64,
    'quoted "text" \\ back': pl.Boolean,
    "naïve ☃ 😀": pl.Float64,
}


def requests_of(bodies: list[bytes]) -> list[Request]:
    return [Request(at + 7, RECEIVED_NS + at, body) for at, body in enumerate(bodies)]


def entry(signal: SignalName, body: bytes, position: int = 1, content: str = "protobuf") -> Record:
    return Record(position, f"otlp.{signal}", RECEIVED_NS, 1, {"content": content}, body)


def parsed_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Rows with their JSON parsed; members as pairs, so that repeated keys and the order count."""
    for row in table.to_pylist():
        for name in JSON_COLUMNS:
            row[name] = row[name] and _pairs(row[name])
        yield row


def _pairs(text: str) -> Any:
    return json.loads(text, object_pairs_hook=lambda pairs: ("object", sorted(pairs, key=lambda pair: pair[0])))


def assert_equal_parts(one: Part, other: Part) -> None:
    assert one.records.schema == other.records.schema == arrow_schema(RECORDS)
    for mine, theirs in zip(parsed_rows(one.records), parsed_rows(other.records), strict=True):
        assert mine == theirs
    assert_equal_frames(Batch([one]).frame(KEYS), Batch([other]).frame(KEYS))


def assert_equal_frames(one: pl.DataFrame, other: pl.DataFrame) -> None:
    mine, theirs = (frame.select(key for key in KEYS if key in frame.columns) for frame in (one, other))
    assert mine.schema == pl.Schema({key: KEYS[key] for key in mine.columns})
    assert mine.equals(theirs)


@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_both_decoders_agree_on_every_captured_body(real_traces: Path, signal: SignalName) -> None:
    bodies = [
        body if encoding == "protobuf" else json_to_protobuf(signal, body)
        for _, each, encoding, body in captured(real_traces)
        if each == signal
    ]
    requests = requests_of(bodies)
    assert_equal_parts(decode_columns(signal, requests), decode_plainly(signal, requests))
    for request in requests:
        assert_equal_parts(decode_columns(signal, [request]), decode_plainly(signal, [request]))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rng=st.randoms(use_true_random=False), signal=st.sampled_from(("traces", "logs")), count=st.integers(1, 3))
def test_both_decoders_agree_on_generated_requests(rng: random.Random, signal: SignalName, count: int) -> None:
    requests = requests_of([generated(signal, rng).SerializeToString() for _ in range(count)])
    assert_equal_parts(decode_columns(signal, requests), decode_plainly(signal, requests))


def test_both_decoders_agree_on_mutated_bodies_that_are_accepted(real_traces: Path) -> None:
    rng = random.Random(20261118)
    for signal in ("traces", "logs"):
        bodies = [b for _, s, e, b in captured(real_traces) if s == signal and e == "protobuf" and len(b) < 8_000]
        kept: list[bytes] = []
        while len(kept) < 400:
            try:
                kept.append(check(signal, mutated(rng.choice(bodies), rng), "protobuf", None).body)
            except Undecodable:
                continue
        for at in range(0, len(kept), 40):
            requests = requests_of(kept[at : at + 40])
            entries = [Record(r.position, f"otlp.{signal}", r.received_ns, 1, {}, r.body) for r in requests]
            plain = decode_plainly(signal, requests)
            assert list(parsed_rows(decode(entries).records)) == list(parsed_rows(plain.records))


def plain_value(value: dict[str, Any]) -> Any:
    """An OTLP/JSON value as we store it, written down apart from the code under test."""
    if not value:
        return None
    ((kind, inner),) = value.items()
    match kind:
        case "intValue":
            return int(inner)
        case "arrayValue":
            return [plain_value(each) for each in inner.get("values", [])]
        case "kvlistValue":
            return plain_object(inner.get("values", []))
        case "bytesValue":
            return {"base64": inner}
    return inner


def plain_object(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    return {each["key"]: plain_value(each.get("value", {})) for each in attributes}


def test_records_hold_what_an_independent_program_decoded(real_traces: Path) -> None:
    compared = 0
    for path, signal, encoding, body in captured(real_traces):
        decoded = orjson.loads(body if encoding == "json" else path.with_suffix(".decoded.json").read_bytes())
        rows = decode([entry(signal, body, content=encoding)]).records.to_pylist()
        assert len(rows) == count_records(signal, decoded)
        if signal == "metrics":
            continue
        names = (
            ("resourceSpans", "scopeSpans", "spans")
            if signal == "traces"
            else ("resourceLogs", "scopeLogs", "logRecords")
        )
        sent = [
            (around, scope, record)
            for around in decoded[names[0]]
            for scope in around[names[1]]
            for record in scope[names[2]]
        ]
        for row, (around, scope, record) in zip(rows, sent, strict=True):
            assert orjson.loads(row["resource"]) == plain_object(around["resource"].get("attributes", []))
            assert (row["scope_name"] or "") == scope.get("scope", {}).get("name", "")
            assert orjson.loads(row["attributes"]) == plain_object(record.get("attributes", []))
            assert (row["trace_id"] or "") == record.get("traceId", "").lower()
            assert (row["parent_span_id"] or "") == record.get("parentSpanId", "")
            told = record.get("startTimeUnixNano" if signal == "traces" else "timeUnixNano", 0)
            assert (row["time_ns"] or 0) == int(told)
            if signal == "traces":
                assert row["record_id"] == f"{record['traceId']}-{record['spanId']}"
                assert (row["name"], row["end_ns"]) == (record["name"], int(record["endTimeUnixNano"]))
                events = orjson.loads(row["span_events"] or b"[]")
                expected = [plain_object(each.get("attributes", [])) for each in record.get("events", [])]
                assert [each["attributes"] for each in events] == expected
            elif record.get("body"):
                assert orjson.loads(row["body"]) == plain_value(record["body"])
            compared += 1
    assert compared > 1_900


def test_everything_delivered_twice_has_the_same_ids_and_no_two_records_share_one(real_traces: Path) -> None:
    runs: dict[Path, list[Record]] = {}
    for at, (path, signal, encoding, body) in enumerate(captured(real_traces)):
        runs.setdefault(path.parent.parent, []).append(entry(signal, body, at, encoding))
    for run, entries in runs.items():
        first, again = decode(entries).records, decode([*entries[::-1]]).records
        ids = first["record_id"].to_pylist()
        assert sorted(ids) == sorted(again["record_id"].to_pylist())
        assert len(set(ids)) == len(ids), run


def log_request(*bodies: str, service: str = "s", scope: str = "c") -> ExportLogsServiceRequest:
    request = ExportLogsServiceRequest()
    around = request.resource_logs.add()
    around.resource.attributes.add(key="service.name").value.string_value = service
    inside = around.scope_logs.add()
    inside.scope.name = scope
    for body in bodies:
        inside.log_records.add(time_unix_nano=5).body.string_value = body
    return request


def ids_of(signal: SignalName, body: bytes, content: str = "protobuf") -> list[str]:
    ids: list[str] = decode([entry(signal, body, content=content)]).records["record_id"].to_pylist()
    return ids


def test_equal_log_records_of_a_request_stay_apart_and_ids_do_not_depend_on_batching_or_encoding() -> None:
    request = log_request("a", "b", "a", "a")
    ids = ids_of("logs", request.SerializeToString())
    assert len(set(ids)) == 4
    assert all(len(each) == 32 and set(each) <= set("0123456789abcdef") for each in ids)
    assert ids_of("logs", request.SerializeToString()) == ids
    assert ids_of("logs", to_json(request), "json") == ids
    assert ids_of("logs", log_request("a", "a").SerializeToString()) == [ids[0], ids[2]]
    assert ids_of("logs", log_request("b").SerializeToString()) == [ids[1]]
    assert ids_of("logs", log_request("a", service="t").SerializeToString()) != ids[:1]
    assert ids_of("logs", log_request("a", scope="d").SerializeToString()) != ids[:1]


def test_equal_data_points_of_a_request_stay_apart() -> None:
    request = ExportMetricsServiceRequest()
    metrics = request.resource_metrics.add().scope_metrics.add().metrics
    for name, unit in (("m", "1"), ("m", "s"), ("n", "1")):
        metric = metrics.add(name=name, unit=unit)
        metric.gauge.data_points.add(as_int=1)
        metric.gauge.data_points.add(as_int=1)
    ids = ids_of("metrics", request.SerializeToString())
    assert len(set(ids)) == 6
    assert ids_of("metrics", to_json(request), "json") == ids


def one_span(**fields: Any) -> tuple[ExportTraceServiceRequest, Any]:
    request = ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(trace_id=b"t" * 16, span_id=b"s" * 8, **fields)
    return request, span


def test_a_span_is_kept_whole() -> None:
    request, span = one_span(name="chat", kind=3, start_time_unix_nano=1_500, end_time_unix_nano=2_500)
    span.parent_span_id = b"p" * 8
    span.trace_state, span.flags = "a=b", 257
    span.dropped_attributes_count, span.dropped_events_count, span.dropped_links_count = 1, 2, 3
    span.status.code, span.status.message = 2, "it broke"
    event = span.events.add(name="exception", time_unix_nano=2_000, dropped_attributes_count=4)
    event.attributes.add(key="exception.type").value.string_value = 'Value"Error'
    link = span.links.add(trace_id=b"l" * 16, span_id=b"m" * 8, trace_state="c=d", flags=1, dropped_attributes_count=5)
    link.attributes.add(key="n").value.int_value = -1
    around, scope = request.resource_spans[0], request.resource_spans[0].scope_spans[0]
    around.schema_url, around.resource.dropped_attributes_count = "https://example.org/r", 6
    around.resource.attributes.add(key="service.name").value.string_value = "agent"
    around.resource.entity_refs.add(type="host", id_keys=["host.id"])
    scope.schema_url, scope.scope.name, scope.scope.version = "https://example.org/s", "lib", "1.2"
    scope.scope.attributes.add(key="x").value.bool_value = True
    (row,) = decode([entry("traces", request.SerializeToString(), position=42)]).records.to_pylist()
    texts = {name: orjson.loads(row[name]) for name in ("resource", "attributes", "span_events", "links", "extra")}
    assert texts == {
        "resource": {"service.name": "agent"},
        "attributes": {},
        "span_events": [
            {
                "name": "exception",
                "time_ns": 2000,
                "attributes": {"exception.type": 'Value"Error'},
                "dropped_attributes_count": 4,
            }
        ],
        "links": [
            {
                "trace_id": b"l".hex() * 16,
                "span_id": b"m".hex() * 8,
                "attributes": {"n": -1},
                "trace_state": "c=d",
                "flags": 1,
                "dropped_attributes_count": 5,
            }
        ],
        "extra": {
            "trace_state": "a=b",
            "flags": 257,
            "dropped_attributes_count": 1,
            "dropped_events_count": 2,
            "dropped_links_count": 3,
            "scope_schema_url": "https://example.org/s",
            "scope_attributes": {"x": True},
            "resource_schema_url": "https://example.org/r",
            "resource_dropped_attributes_count": 6,
            "entity_refs": [{"type": "host", "schema_url": "", "id_keys": ["host.id"], "description_keys": []}],
        },
    }
    names = "signal name kind status status_message service_name scope_name scope_version time_ns end_ns"
    told = {name: row[name] for name in [*names.split(), "journal_position", "ordinal"]}
    assert told == {
        "signal": "span",
        "name": "chat",
        "kind": "client",
        "status": "error",
        "status_message": "it broke",
        "service_name": "agent",
        "scope_name": "lib",
        "scope_version": "1.2",
        "time_ns": 1500,
        "end_ns": 2500,
        "journal_position": 42,
        "ordinal": 0,
    }
    assert row["parent_span_id"] == b"p".hex() * 8
    assert row["time"].microsecond == 1


def test_times_fall_back_and_survive_the_ends_of_the_calendar() -> None:
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    records.add(time_unix_nano=1)
    records.add(observed_time_unix_nano=1_000_000_000)
    records.add()
    records.add(time_unix_nano=2**64 - 1)
    rows = decode([entry("logs", request.SerializeToString())]).records.to_pylist()
    assert [row["time_ns"] for row in rows] == [1, None, None, 2**64 - 1]
    assert [row["observed_ns"] for row in rows] == [None, 1_000_000_000, None, None]
    assert [row["time"].isoformat()[:19] for row in rows] == [
        "1970-01-01T00:00:00",
        "1970-01-01T00:00:01",
        rows[0]["received"].isoformat()[:19],
        "2554-07-21T23:34:33",
    ]


def test_a_log_is_named_by_its_field_or_its_attribute_and_severe_by_text_or_number() -> None:
    request = log_request("a", "b", "c")
    records = request.resource_logs[0].scope_logs[0].log_records
    records[0].event_name = "by.field"
    records[0].attributes.add(key="event.name").value.string_value = "by.attribute"
    records[1].attributes.add(key="event.name").value.string_value = "by.attribute"
    records[0].severity_number = SEVERITY_NUMBER_INFO2
    records[1].severity_number, records[1].severity_text = SEVERITY_NUMBER_ERROR, "fehler"
    rows = decode([entry("logs", request.SerializeToString())]).records.to_pylist()
    assert [row["name"] for row in rows] == ["by.field", "by.attribute", None]
    assert [row["severity"] for row in rows] == ["INFO2", "fehler", None]
    assert [row["body"] for row in rows] == ['"a"', '"b"', '"c"']


def test_an_attribute_written_twice_in_one_value_has_the_last_as_protobuf_prescribes() -> None:
    request, span = one_span()
    span.attributes.add(key="k").value.string_value = "x"
    body = request.SerializeToString().replace(b"\x12\x03\x0a\x01x", b"\x12\x05\x0a\x01x\x18\x05")
    lengths = {at: body[at] + 2 for at in (1, 3, 5)}  # the messages around it grew by two bytes
    fixed = bytearray(body)
    for at, length in lengths.items():
        fixed[at] = length
    at = fixed.index(b"\x4a") + 1
    fixed[at] += 2
    good, _ = one_span(name="beside it")
    rows = decode([entry("traces", bytes(fixed)), entry("traces", good.SerializeToString())]).records.to_pylist()
    assert [row["attributes"] for row in rows] == ['{"k":5}', "{}"]


def test_attributes_are_converted_to_the_wanted_type() -> None:
    request, _ = one_span()
    for kind, value in [("string_value", "12"), ("int_value", 12), ("double_value", 12.0), ("double_value", 1.5),
                        ("bool_value", True), ("string_value", "true"), ("string_value", "many")]:  # fmt: skip
        other = request.resource_spans[0].scope_spans[0].spans.add(trace_id=b"t" * 16, span_id=b"s" * 8)
        setattr(other.attributes.add(key="k").value, kind, value)
        setattr(other.attributes.add(key="k").value, kind, type(value)())  # the first of equal keys counts
    other.attributes.add(key="list").value.array_value.values.add(int_value=1)
    body = request.SerializeToString()
    for part in (decode_columns("traces", requests_of([body])), decode_plainly("traces", requests_of([body]))):

        def column(dtype: Any, key: str = "k", part: Part = part) -> list[Any]:
            series = part.attributes.column(key, dtype)
            assert series is not None
            assert series.dtype == dtype
            return series.to_list()

        assert column(pl.String) == [None, "12", "12", "12.0", "1.5", "true", "true", "many"]
        assert column(pl.Int64) == [None, 12, 12, 12, None, None, None, None]
        assert column(pl.Float64) == [None, 12.0, 12.0, 12.0, 1.5, None, None, None]
        assert column(pl.Boolean) == [None, None, None, None, None, True, True, None]
        assert column(pl.String, "list") == [None] * 7 + ["[1]"]
        assert part.attributes.column("absent", pl.String) is None


def test_a_batch_of_several_origins_is_one_frame() -> None:
    spans, span = one_span(name="chat")
    span.attributes.add(key="tokens").value.string_value = "3"
    decoded = decode([entry("traces", spans.SerializeToString()), entry("logs", log_request("a").SerializeToString())])
    lines = Batch.of_table(decoded.records.slice(1, 1))
    frame = Batch.concat([decoded, lines]).frame({"tokens": pl.Int64, "absent": pl.Float64})
    assert frame["signal"].to_list() == ["log", "span", "span"]
    assert frame["tokens"].to_list() == [None, 3, 3]
    assert frame.columns == [*(column.name for column in RECORDS), "tokens"]
    assert Batch([]).frame({"tokens": pl.Int64}).height == 0
    assert len(decode([])) == 0


def test_a_huge_resource_is_not_copied_to_every_span() -> None:
    request, _ = one_span()
    around = request.resource_spans[0]
    around.resource.attributes.add(key="huge").value.string_value = "x" * 1_000_000
    around.scope_spans[0].scope.name = "y" * 1_000_000
    around.scope_spans[0].schema_url = "z" * 1_000_000
    for _ in range(999):
        around.scope_spans[0].spans.add(trace_id=b"t" * 16, span_id=b"s" * 8)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    table = decode([entry("traces", request.SerializeToString())]).records
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 200 * 1024
    first, second = table.slice(0, 2).to_pylist()
    assert orjson.loads(first["resource"]) == {"huge": "x" * 1_000_000}
    assert orjson.loads(second["resource"])["truncated"] is True
    assert len(first["scope_name"]) == 1_000_000
    assert second["scope_name"].startswith("yyy")
    assert orjson.loads(second["extra"])["around"]["size_bytes"] > 1_000_000


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rng=st.randoms(use_true_random=False))
def test_a_data_point_is_kept_whole(rng: random.Random) -> None:
    request = generated("metrics", rng)
    rows = decode([entry("metrics", request.SerializeToString())]).records.to_pylist()
    sent = [
        (metric, metric.WhichOneof("data"), point)
        for around in request.resource_metrics
        for scope in around.scope_metrics
        for metric in scope.metrics
        for point in getattr(getattr(metric, metric.WhichOneof("data")), "data_points", ())
    ]
    for row, (metric, kind, point) in zip(rows, sent, strict=True):
        kept = orjson.loads(row["point"])
        assert (row["name"], row["kind"], row["time_ns"] or 0) == (metric.name, kind, point.time_unix_nano)
        assert (kept.get("unit", ""), kept.get("description", "")) == (metric.unit, metric.description)
        assert len(kept.get("exemplars", [])) == len(getattr(point, "exemplars", ()))
        assert kept.get("start_ns", 0) == point.start_time_unix_nano
        if kind in ("gauge", "sum"):
            which = point.WhichOneof("value")
            assert row["value"] == (None if which is None else float(getattr(point, which)))
            assert kept.get("int_value", 0) == point.as_int
        else:
            assert kept["count"] == point.count
        if kind == "histogram":
            assert kept["bucket_counts"] == list(point.bucket_counts)
            assert [float(bound) for bound in kept["explicit_bounds"]] == list(point.explicit_bounds)
            assert {name for name in ("sum", "min", "max") if name in kept} == {
                name for name in ("sum", "min", "max") if point.HasField(name)
            }
        if kind == "exponential_histogram":
            assert (kept["scale"], kept["zero_count"]) == (point.scale, point.zero_count)
            assert kept.get("positive", {}).get("bucket_counts", []) == list(point.positive.bucket_counts)
        if kind == "summary":
            assert len(kept["quantiles"]) == len(point.quantile_values)
