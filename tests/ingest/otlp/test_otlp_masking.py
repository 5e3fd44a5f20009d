"""Secrets are masked wherever they stand in a request, and nothing else changes."""

import base64
import random
from typing import Any

import orjson
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from ingest.otlp.check import check
from ingest.otlp.signals import SIGNALS, Encoding, SignalName
from models.redaction import Redactor
from tests.ingest.otlp.otlp_messages import field, from_json, generated, to_json

REDACTOR = Redactor(b"a key only for these tests")
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
MASKED = REDACTOR.mask_text(SECRET)[0]


def copies(request: Any, message: Any, name: str, texts: list[str]) -> list[Any]:
    """Copies of the request in which the field holds each of the texts."""
    made = []
    before = getattr(message, name)
    before = before if isinstance(before, str) else list(before)
    for text in [*texts, before]:
        if isinstance(before, str):
            setattr(message, name, text)
        else:
            getattr(message, name)[:] = text if isinstance(text, list) else [text]
        made.append(type(request)())
        made[-1].CopyFrom(request)
    return made[:-1]


def places() -> dict[str, tuple[SignalName, Any, Any]]:
    """For every place a text may stand in, a request with the secret there, and the same with the secret masked."""
    found: dict[str, tuple[SignalName, Any, Any]] = {}
    texts = [f"text {SECRET} text", f"text {MASKED} text"]

    def walk(signal: SignalName, request: Any, message: Any, path: str) -> None:
        for each, value in message.ListFields():
            here = f"{path}.{each.name}"
            if each.message_type is not None and here.count(".") < 11:
                for inner in list(value)[:1] if each.is_repeated else [value]:
                    walk(signal, request, inner, here)
            elif each.type == each.TYPE_STRING and here not in found:
                secret, masked = copies(request, message, each.name, texts)
                found[here] = (signal, secret, masked)

    for signal in SIGNALS:
        for seed in range(30):
            request = generated(signal, random.Random(seed))
            walk(signal, request, request, signal)
    return found


PLACES = places()


def encoded(request: Any, encoding: Encoding) -> bytes:
    return bytes(request.SerializeToString()) if encoding == "protobuf" else to_json(request)


def decoded(signal: SignalName, body: bytes, encoding: Encoding) -> Any:
    return SIGNALS[signal].request.FromString(body) if encoding == "protobuf" else from_json(signal, body)


def one_span(name: str = "") -> Any:
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.add(trace_id=b"t" * 16, span_id=b"s" * 8, name=name)
    return request


def test_the_places_include_every_level() -> None:
    names = " ".join(PLACES)
    parts = "resource. scope.name attributes.key array_value kvlist_value status.message events.name links.trace_state"
    more = "schema_url body. event_name severity_text exemplars metrics.unit entity_refs.id_keys"
    assert [part for part in f"{parts} {more}".split() if part not in names] == []


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
def test_a_secret_is_masked_wherever_it_stands_and_all_else_is_equal(encoding: Encoding) -> None:
    for place, (signal, secret, masked) in PLACES.items():
        checked = check(signal, encoded(secret, encoding), encoding, REDACTOR)
        assert SECRET.encode() not in checked.body, place
        assert decoded(signal, checked.body, encoding) == masked, place
        assert (sum(checked.redactions.values()), checked.rejected) == (1, 0), place


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
def test_the_name_of_an_attribute_tells_that_its_value_is_secret(encoding: Encoding) -> None:
    request = one_span()
    attributes = request.resource_spans[0].scope_spans[0].spans[0].attributes
    attributes.add(key="db.password").value.string_value = "correct horse"
    attributes.add(key="http.request.header.authorization").value.array_value.values.add(
        string_value="Basic YTpiY2RlZg"
    )
    nested = attributes.add(key="config").value.kvlist_value.values.add(key="api_key")
    nested.value.string_value = "correct battery"
    attributes.add(key="greeting").value.string_value = "correct horse"
    checked = check("traces", encoded(request, encoding), encoding, REDACTOR)
    kept = decoded("traces", checked.body, encoding).resource_spans[0].scope_spans[0].spans[0].attributes
    assert kept[0].value.string_value.startswith("[REDACTED:name:")
    assert "[REDACTED:name:" in kept[1].value.array_value.values[0].string_value
    assert kept[2].value.kvlist_value.values[0].value.string_value.startswith("[REDACTED:name:")
    assert kept[3].value.string_value == "correct horse"
    assert checked.redactions == {"name": 3}


@pytest.mark.parametrize("encoding", ["protobuf", "json"])
def test_bytes_that_are_text_are_masked_and_other_bytes_stay(encoding: Encoding) -> None:
    request = one_span(name=SECRET)
    attributes = request.resource_spans[0].scope_spans[0].spans[0].attributes
    attributes.add(key="text").value.bytes_value = f"token {SECRET}".encode()
    attributes.add(key="image").value.bytes_value = b"\xff\xd8" + bytes(range(64))
    checked = check("traces", encoded(request, encoding), encoding, REDACTOR)
    kept = decoded("traces", checked.body, encoding).resource_spans[0].scope_spans[0].spans[0].attributes
    assert kept[0].value.bytes_value == f"token {MASKED}".encode()
    assert kept[1].value.bytes_value == b"\xff\xd8" + bytes(range(64))
    assert base64.b64encode(SECRET.encode()) not in checked.body


def test_only_the_records_that_hold_a_secret_change() -> None:
    request = one_span(name="first")
    spans = request.resource_spans[0].scope_spans[0].spans
    spans.add(trace_id=b"t" * 16, span_id=b"r" * 8, name=SECRET)
    checked = check("traces", request.SerializeToString(), "protobuf", REDACTOR)
    spans[1].name = MASKED
    assert ExportTraceServiceRequest.FromString(checked.body) == request
    assert check("traces", checked.body, "protobuf", REDACTOR).body is checked.body


def test_a_secret_in_a_field_newer_than_we_know_takes_the_unknown_fields_with_it() -> None:
    body = one_span(name="kept").SerializeToString()
    harmless = body + b"\xa2\x06\x05later"
    assert check("traces", harmless, "protobuf", REDACTOR).body is harmless
    checked = check("traces", body + b"\xa2" + field(0x06, f"text {SECRET} text".encode()), "protobuf", REDACTOR)
    assert checked.body == body
    assert checked.redactions == REDACTOR.mask_text(SECRET)[1]


@pytest.mark.parametrize(
    "text",
    ["".join(f"\\u{ord(c):04x}" for c in SECRET), SECRET, SECRET.replace("_", "\\u005F"), f'\\"{SECRET}\\"'],
)
def test_escapes_and_unknown_fields_hide_no_secret_in_json(text: str) -> None:
    body = b'{"resourceSpans":[],"unheardOf":{"a":["%s"],"%s":1}}' % (text.encode(), text.encode())
    checked = check("traces", body, "json", REDACTOR)
    plain = orjson.dumps(orjson.loads(checked.body))
    assert SECRET.encode() not in plain
    assert plain.count(MASKED.encode()) == 2
