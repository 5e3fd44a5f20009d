"""OTLP/JSON in the dialects real clients send."""

import base64
import random
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from ingest.otlp.check import check
from ingest.otlp.json_fields import AttributeListEncoder, encoder
from ingest.otlp.otlp_json import json_to_message
from ingest.otlp.refusals import Undecodable
from ingest.otlp.signals import SIGNALS, SignalName
from tests.ingest.otlp.otlp_messages import captured, from_json, generated, to_json

TRACE_ID, SPAN_ID = "5b8efff798038103d269b633813fc60c", "eee19b7ec3c1b174"


def request_of(*spans: Any) -> bytes:
    return orjson.dumps({"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]})


def span(**fields: Any) -> dict[str, Any]:
    return {"traceId": TRACE_ID, "spanId": SPAN_ID, **fields}


def attribute(**value: Any) -> dict[str, Any]:
    return span(attributes=[{"key": "k", "value": value}])


def only_span(body: bytes) -> Any:
    return json_to_message("traces", body).resource_spans[0].scope_spans[0].spans[0]


def test_captured_json_becomes_what_protobufs_own_reader_makes_of_it(real_traces: Path) -> None:
    bodies = [(signal, body) for _, signal, encoding, body in captured(real_traces) if encoding == "json"]
    assert len(bodies) == 10
    for signal, body in bodies:
        assert json_to_message(signal, body) == from_json(signal, body)


def test_the_decoded_form_of_every_captured_body_becomes_the_message_that_was_sent(real_traces: Path) -> None:
    for path, signal, encoding, body in captured(real_traces):
        if encoding == "protobuf":
            decoded = path.with_suffix(".decoded.json").read_bytes()
            assert json_to_message(signal, decoded) == from_json(signal, decoded)
            assert json_to_message(signal, decoded) == SIGNALS[signal].request.FromString(body)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rng=st.randoms(use_true_random=False), signal=st.sampled_from(("logs", "traces", "metrics")))
def test_generated_requests_survive_json(rng: random.Random, signal: SignalName) -> None:
    request = generated(signal, rng)
    assert json_to_message(signal, to_json(request)) == request


@pytest.mark.parametrize(
    ("given_span", "expected"),
    [
        (attribute(intValue="42"), {"int_value": 42}),
        (attribute(intValue=42), {"int_value": 42}),
        (attribute(intValue=42.0), {"int_value": 42}),
        (attribute(intValue="-9223372036854775808"), {"int_value": -(2**63)}),
        (attribute(int_value=7), {"int_value": 7}),
        (attribute(doubleValue="1.5"), {"double_value": 1.5}),
        (attribute(doubleValue=2), {"double_value": 2.0}),
        (attribute(doubleValue="-Infinity"), {"double_value": float("-inf")}),
        (attribute(boolValue="true"), {"bool_value": True}),
        (attribute(stringValue=12), {"string_value": "12"}),
        (attribute(stringValue=True), {"string_value": "true"}),
        (attribute(bytesValue="aGk="), {"bytes_value": b"hi"}),
        (attribute(bytesValue="_-8"), {"bytes_value": b"\xff\xef"}),
        (attribute(stringValue="a", intValue=None), {"string_value": "a"}),
        (
            attribute(arrayValue={"values": [{"intValue": "1"}, {}]}),
            {"array_value": {"values": [{"int_value": 1}, {}]}},
        ),
        (attribute(arrayValue={}), {"array_value": {}}),
        (attribute(unheardOf={"a": [1]}), {}),
    ],
)
def test_values_are_read_in_every_spelling(given_span: dict[str, Any], expected: dict[str, Any]) -> None:
    body = request_of(given_span)
    assert check("traces", body, "json", None).body is body
    value = only_span(body).attributes[0].value
    assert value == type(value)(**expected)


def test_a_value_that_came_before_is_not_mistaken_for_one_that_is_written_like_it() -> None:
    values: list[dict[str, Any]] = [
        {"stringValue": "1"},
        {"intValue": "1"},
        {"intValue": 1},
        {"doubleValue": "1"},
        {"stringValue": 1},
        {"boolValue": True},
    ]
    first = [only_span(request_of(attribute(**value))).attributes[0].value for value in values]
    again = [only_span(request_of(attribute(**value))).attributes[0].value for value in values]
    told = [(value.WhichOneof("value"), getattr(value, value.WhichOneof("value"))) for value in first]
    assert again == first
    assert told == [
        ("string_value", "1"),
        ("int_value", 1),
        ("int_value", 1),
        ("double_value", 1.0),
        ("string_value", "1"),
        ("bool_value", True),
    ]
    for value in ({"intValue": True}, {"boolValue": 1}, {"boolValue": "1"}):
        assert check("traces", request_of(attribute(**value)), "json", None).rejected == 1
        assert check("traces", request_of(attribute(**value)), "json", None).rejected == 1


def test_no_more_short_values_are_remembered_than_fit() -> None:
    encode = encoder(Span.DESCRIPTOR).fields["attributes"]
    assert isinstance(encode, AttributeListEncoder)
    many = [{"key": "k", "value": {"stringValue": f"v{number}"}} for number in range(20_000)]
    message = only_span(request_of(span(attributes=many)))
    assert [each.value.string_value for each in message.attributes] == [f"v{number}" for number in range(20_000)]
    assert 0 < len(encode.known) <= 8192


@pytest.mark.parametrize(
    ("fields", "name", "expected"),
    [
        ({"startTimeUnixNano": "1794983313153000000"}, "start_time_unix_nano", 1794983313153000000),
        ({"startTimeUnixNano": 1794983313153000000}, "start_time_unix_nano", 1794983313153000000),
        ({"start_time_unix_nano": 5}, "start_time_unix_nano", 5),
        ({"kind": 3}, "kind", 3),
        ({"kind": "SPAN_KIND_CLIENT"}, "kind", 3),
        ({"kind": "2"}, "kind", 2),
        ({"kind": 99}, "kind", 99),
        ({"parentSpanId": ""}, "parent_span_id", b""),
        ({"parentSpanId": None}, "parent_span_id", b""),
        ({"parentSpanId": SPAN_ID.upper()}, "parent_span_id", bytes.fromhex(SPAN_ID)),
        ({"spanId": base64.b64encode(b"12345678").decode()}, "span_id", b"12345678"),
        ({"traceId": base64.b64encode(b"1234567812345678").decode()}, "trace_id", b"1234567812345678"),
        ({"name": None, "attributes": None, "links": None}, "name", ""),
    ],
)
def test_fields_are_read_in_every_spelling(fields: dict[str, Any], name: str, expected: Any) -> None:
    body = request_of(span(**fields))
    assert check("traces", body, "json", None).items == 1
    assert getattr(only_span(body), name) == expected


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("a text", "Span must be an object"),
        (None, "Span must be an object"),
        (span(attributes="x"), "attributes must be a list"),
        (span(attributes=["x"]), "KeyValue must be an object"),
        (span(attributes=[None]), "KeyValue must be an object"),
        (span(traceId="xyz"), "trace_id must be hexadecimal"),
        (span(traceId="ab" * 15), "trace_id must be 16 bytes"),
        (span(traceId="00" * 16), "trace_id must be 16 bytes, not all zero"),
        (span(traceId="5b 8efff798038103d269b633813fc60"), "trace_id must be hexadecimal"),
        (span(spanId=None), "span_id must be 8 bytes"),
        (span(parentSpanId="ab"), "parent_span_id must be empty or 8 bytes"),
        (span(startTimeUnixNano="abc"), "start_time_unix_nano must be a whole number"),
        (span(startTimeUnixNano=-1), "start_time_unix_nano must be a whole number"),
        (span(startTimeUnixNano=2**64 - 1.0), "start_time_unix_nano must be a whole number"),
        (span(startTimeUnixNano=True), "start_time_unix_nano must be a whole number"),
        (span(kind="NO_SUCH_KIND"), "kind must be a whole number"),
        (span(name={"a": 1}), "name must be a text"),
        (attribute(stringValue="a", intValue=1), "AnyValue has more than one value"),
        (attribute(intValue=2**63), "int_value must be a whole number"),
        (attribute(doubleValue="one"), "double_value must be a number"),
        (attribute(boolValue=1.5), "bool_value must be true or false"),
        (attribute(bytesValue="a"), "bytes_value must be base64"),
        (span(links=[{"traceId": 5}]), "trace_id must be hexadecimal"),
    ],
)
def test_a_record_with_a_wrong_value_is_refused_alone(bad: Any, why: str) -> None:
    first, last = span(name="first", unheardOf=1), span(name="last")
    checked = check("traces", request_of(first, bad, last), "json", None)
    assert (checked.items, checked.rejected) == (2, 1)
    assert checked.message.startswith(f"span 1: {why}")
    assert orjson.loads(checked.body) == orjson.loads(request_of(first, last))


def test_a_bad_data_point_is_refused_alone_and_a_bad_metric_with_all_its_points() -> None:
    good = {"asInt": "1"}
    metrics = [
        {"name": "a", "sum": {"dataPoints": [good, {"asInt": "x"}, {"asDouble": 1.5}]}},
        {"name": ["b"], "gauge": {"dataPoints": [good, good]}},
        {"name": "c", "gauge": {"dataPoints": [good]}, "sum": {"dataPoints": [good]}},
        "text",
        {"name": "d", "gauge": {"dataPoints": "text"}},
        {"name": "e", "summary": {"dataPoints": [{"count": 3, "quantileValues": [{"quantile": 0.5, "value": 2}]}]}},
    ]
    body = orjson.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": metrics}]}]})
    checked = check("metrics", body, "json", None)
    assert (checked.items, checked.rejected) == (3, 1 + 2 + 2 + 1 + 1)
    kept = orjson.loads(checked.body)["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
    assert [metric["name"] for metric in kept] == ["a", "e"]
    assert (
        len(json_to_message("metrics", checked.body).resource_metrics[0].scope_metrics[0].metrics[0].sum.data_points)
        == 2
    )


def test_records_under_a_bad_resource_are_refused_with_it() -> None:
    bad = {"resource": {"attributes": 5}, "scopeSpans": [{"spans": [span(), span()]}]}
    good = {"resource": {"attributes": []}, "scopeSpans": [{"spans": [span()]}]}
    checked = check("traces", orjson.dumps({"resourceSpans": [bad, good]}), "json", None)
    assert (checked.items, checked.rejected) == (1, 2)
    assert orjson.loads(checked.body) == {"resourceSpans": [good]}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b'{"resourceSpans": 5}',
        b'{"resourceSpans": ["x"]}',
        b'{"resourceSpans": [{"scopeSpans": "x"}]}',
        b'{"resourceSpans": [{"scopeSpans": [null]}]}',
        b'{"resourceSpans": [{"scopeSpans": [{"spans": {}}]}]}',
        b'{"resourceSpans": [], "resource_spans": []}',
        b'{"resourceLogs": []}',
        b'{"a": NaN}',
        b'{"a": "\\ud800"}',
        b'{"a": "\xff"}',
        b"\xef\xbb\xbf{}",
        b"[" * 5000 + b"]" * 5000,
        b'{"a":' * 800 + b"1" + b"}" * 800,
    ],
)
def test_what_is_not_the_request_it_claims_to_be_is_refused_whole(body: bytes) -> None:
    with pytest.raises(Undecodable):
        check("traces", body, "json", None)


@pytest.mark.parametrize(("arrays", "fits"), [(40, True), (60, False), (300, False)])
def test_nesting_that_fits_decodes_and_deeper_is_refused(arrays: int, fits: bool) -> None:
    value: dict[str, Any] = {"intValue": 1}
    for _ in range(arrays):
        value = {"arrayValue": {"values": [value]}}
    body = (
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%s","spanId":"%s","attributes":[{"value":%s}]}]}]}]}'
    )
    text = str(value).replace("'", '"').encode()
    filled = body % (TRACE_ID.encode(), SPAN_ID.encode(), text)
    if fits:
        assert check("traces", filled, "json", None).body is filled
        assert json_to_message("traces", filled) == from_json("traces", filled)
    else:
        with pytest.raises(Undecodable, match="nested"):
            check("traces", filled, "json", None)


def test_refusals_never_repeat_content() -> None:
    secret = "hunter2-is-a-secret"
    for bad in (span(traceId=secret), span(kind=secret), span(startTimeUnixNano=secret), attribute(doubleValue=secret)):
        assert secret not in check("traces", request_of(bad), "json", None).message
    with pytest.raises(Undecodable) as refusal:
        check("traces", b'{"a": ' + secret.encode(), "json", None)
    assert secret not in str(refusal.value)
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__
