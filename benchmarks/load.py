"""The load: OTLP requests of GenAI spans, about 2.9 KB and 22 attributes each, texts drawn from a vocabulary."""

import random
from collections.abc import Iterator
from typing import Any

import orjson
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

SPANS_PER_TRACE = 50
TRACES_PER_SESSION = 10
TEXT_CHARS = 1060
START_NS = 1_760_000_000_000_000_000
MODELS = ("gpt-4o", "gpt-4o-mini", "claude-sonnet-4-5", "gemini-2.5-pro")
VOCABULARY = """
agent build cache check code commit compile context cost create data debug delete deploy design diff
document edit error event example fail file find fix function gather graph handle history import index input
issue journal key label latency limit list load log loop memory merge method model module move name note
output parse path plan prompt query queue read reason record remove render replay request result retry
return review route run scan schema search select send session shell sort span start state step store stream
task test text token tool trace turn type update user value verify view wait write
"""
WORDS = tuple(VOCABULARY.split())


def requests(spans: int, per_request: int, seed: int = 1, start_ns: int = START_NS) -> Iterator[bytes]:
    """Encoded requests with `spans` spans in all, one a millisecond from `start_ns`, every id unique for the seed."""
    return (message.SerializeToString() for message in _messages(spans, per_request, seed, start_ns))


def json_requests(spans: int, per_request: int, seed: int = 1, start_ns: int = START_NS) -> Iterator[bytes]:
    """The same requests as OTLP/JSON, written as its specification and most clients do."""
    return (orjson.dumps(_request_json(message)) for message in _messages(spans, per_request, seed, start_ns))


def _messages(spans: int, per_request: int, seed: int, start_ns: int) -> Iterator[ExportTraceServiceRequest]:
    source = random.Random(seed)
    for first in range(0, spans, per_request):
        yield _request(source, seed, range(first, min(first + per_request, spans)), start_ns)


def _request(source: random.Random, seed: int, numbers: range, start_ns: int) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    for key, value in (("service.name", "bench"), ("service.version", "1.0"), ("telemetry.sdk.language", "python")):
        resource.resource.attributes.add(key=key).value.string_value = value
    scope = resource.scope_spans.add()
    scope.scope.name = "benchmarks.load"
    for number in numbers:
        _span(scope.spans.add(), source, seed, number, start_ns)
    return request


def _span(span: Any, source: random.Random, seed: int, number: int, start_ns: int) -> None:
    trace, place = divmod(number, SPANS_PER_TRACE)
    start = start_ns + number * 1_000_000
    span.trace_id = seed.to_bytes(8, "big") + (trace + 1).to_bytes(8, "big")
    span.span_id = seed.to_bytes(3, "big") + (number + 1).to_bytes(5, "big")
    if place:
        root = trace * SPANS_PER_TRACE + 1
        span.parent_span_id = seed.to_bytes(3, "big") + root.to_bytes(5, "big")
    model = source.choice(MODELS)
    operation = "chat" if place else "invoke_agent"  # a trace is one agent run with its model calls
    span.name, span.kind = f"{operation} {model}", 3
    span.start_time_unix_nano, span.end_time_unix_nano = start, start + source.randrange(10**7, 10**9)
    tokens = source.randrange(100, 4000)
    attributes: dict[str, str | int | float | bool] = {
        "gen_ai.operation.name": operation,
        "gen_ai.system": "openai",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": model,
        "gen_ai.response.model": model,
        "gen_ai.response.id": f"resp-{seed}-{number}",
        "gen_ai.conversation.id": f"session-{seed}-{trace // TRACES_PER_SESSION}",
        "gen_ai.request.temperature": 0.7,
        "gen_ai.request.max_tokens": 4096,
        "gen_ai.request.top_p": 0.9,
        "gen_ai.usage.input_tokens": tokens,
        "gen_ai.usage.output_tokens": source.randrange(10, 900),
        "gen_ai.usage.cache_read.input_tokens": tokens // 3,
        "gen_ai.response.finish_reasons": "stop",
        "gen_ai.input.messages": _text(source),
        "gen_ai.output.messages": _text(source),
        "server.address": "api.example.com",
        "server.port": 443,
        "gen_ai.agent.name": "bench-agent",
        "gen_ai.request.stream": True,
        "user.id": f"user-{number % 97}",
        "app.step": place,
    }
    for key, value in attributes.items():
        _set(span.attributes.add(key=key).value, value)


def _text(source: random.Random) -> str:
    """A text of its own for each span: repeated ones would compress as no real prompts do."""
    return " ".join(source.choices(WORDS, k=TEXT_CHARS // 5))[:TEXT_CHARS]


def _set(target: Any, value: str | int | float | bool) -> None:
    kinds = {str: "string_value", bool: "bool_value", int: "int_value", float: "double_value"}
    setattr(target, kinds[type(value)], value)


def _request_json(message: ExportTraceServiceRequest) -> dict[str, Any]:
    (resource,) = message.resource_spans
    (scope,) = resource.scope_spans
    spans = {"scope": {"name": scope.scope.name}, "spans": [_span_json(span) for span in scope.spans]}
    return {
        "resourceSpans": [
            {"resource": {"attributes": _attributes_json(resource.resource.attributes)}, "scopeSpans": [spans]}
        ]
    }


def _span_json(span: Any) -> dict[str, Any]:
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "parentSpanId": span.parent_span_id.hex(),
        "name": span.name,
        "kind": span.kind,
        "startTimeUnixNano": str(span.start_time_unix_nano),
        "endTimeUnixNano": str(span.end_time_unix_nano),
        "attributes": _attributes_json(span.attributes),
        "status": {},
    }


def _attributes_json(attributes: Any) -> list[dict[str, Any]]:
    return [{"key": each.key, "value": _value_json(each.value)} for each in attributes]


def _value_json(value: Any) -> dict[str, Any]:
    kind = value.WhichOneof("value")
    plain = getattr(value, kind)
    first, second = kind.split("_")
    return {first + second.capitalize(): str(plain) if kind == "int_value" else plain}
