"""Spans of the runtime's work, as any OpenTelemetry backend would read them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from models.values import Usage
from runtime.telemetry import ExportSettings, Telemetry
from runtime.telemetry.encoding import merge
from runtime.telemetry.spans import answered, failed
from tests.runtime.runtimes import IDS, records

CALL = IDS.model_copy(update={"step_id": "st-1", "tool_call_id": "tc-1", "model_request_id": "mr-1"})


@pytest.fixture
def telemetry(tmp_path: Path) -> Iterator[Telemetry]:
    with Telemetry(tmp_path, settings=ExportSettings(logs=None, traces=None)) as running:
        yield running


def spans(telemetry: Telemetry) -> dict[str, SpanMessage]:
    telemetry.close()
    bodies = [record.body for record in records(telemetry.journal.folder)]
    request = ExportTraceServiceRequest.FromString(merge("otlp.traces", bodies))
    assert len(request.resource_spans) == 1  # merged under one resource and one scope
    (scope,) = request.resource_spans[0].scope_spans
    assert scope.scope.name == "tachograph.runtime"
    return {span.name: span for span in scope.spans}


def told(span: SpanMessage) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value") or "") for one in span.attributes}


def test_all_nine_kinds_of_work_nest_and_name_the_conversation(telemetry: Telemetry) -> None:
    work = telemetry.spans
    with work.turn(IDS, agent_name="coder"), work.task_run(IDS, attempt_index=2):
        with work.context_resolve(IDS):
            pass
        with work.model_request(CALL, provider="anthropic", model="claude-sonnet-4-5"):
            pass
        with work.tool_call(CALL, tool_name="shell"), work.process(CALL, executable="pytest", cwd="/src"):
            pass
        with work.hook_run(IDS, point="stop", hook_name="notify"):
            pass
        with work.artifact_write(IDS, path="a.py"), work.evidence_export(IDS, evidence_kind="pack"):
            pass
    found = spans(telemetry)
    parents = {span.span_id: span.name for span in found.values()}
    assert {name: parents.get(span.parent_span_id) for name, span in found.items()} == {
        "invoke_agent coder": None,
        "task.run": "invoke_agent coder",
        "context.resolve": "task.run",
        "chat claude-sonnet-4-5": "task.run",
        "execute_tool shell": "task.run",
        "process pytest": "execute_tool shell",
        "hook notify": "task.run",
        "artifact.write": "task.run",
        "evidence.export": "artifact.write",
    }
    assert {told(span)["gen_ai.conversation.id"] for span in found.values()} == {"s-1"}
    assert {told(span)["agent_runtime.turn_id"] for span in found.values()} == {"tu-1"}
    operations = {told(span).get("gen_ai.operation.name") for span in found.values()}
    assert operations == {"invoke_agent", "chat", "execute_tool", None}
    assert told(found["execute_tool shell"])["gen_ai.tool.call.id"] == "tc-1"
    assert found["chat claude-sonnet-4-5"].kind == SpanMessage.SPAN_KIND_CLIENT


def test_an_answer_is_told_with_cached_input_as_part_of_the_input(telemetry: Telemetry) -> None:
    usage = Usage(uncached_input_tokens=10, cache_read_tokens=20, cache_write_tokens=5, output_tokens=7)
    with telemetry.spans.model_request(CALL, provider="anthropic", model="m") as span:
        answered(span, model="m-1", response_id="r", stop_reason="end_turn", usage=usage)
    found = told(spans(telemetry)["chat m"])
    assert found["gen_ai.usage.input_tokens"] == 35
    assert found["gen_ai.usage.cache_read.input_tokens"] == 20
    assert found["gen_ai.usage.output_tokens"] == 7
    assert "gen_ai.usage.reasoning.output_tokens" not in found
    assert found["gen_ai.response.model"] == "m-1"


def test_failures_show_in_the_span_raised_or_told(telemetry: Telemetry) -> None:
    with pytest.raises(ZeroDivisionError), telemetry.spans.tool_call(CALL, tool_name="divide"):
        raise ZeroDivisionError("by zero")
    with telemetry.spans.hook_run(IDS, point="stop", hook_name="slow") as span:
        failed(span, "timeout", "took too long")
    found = spans(telemetry)
    assert {span.status.code for span in found.values()} == {Status.STATUS_CODE_ERROR}
    assert found["execute_tool divide"].events[0].name == "exception"
    assert told(found["hook slow"])["error.type"] == "timeout"


def test_a_span_that_cannot_be_written_is_counted_and_harms_no_work(telemetry: Telemetry) -> None:
    telemetry.journal.close()
    with telemetry.spans.turn(IDS):
        pass
    assert telemetry.backlog().unwritten_spans == 1
