"""The GenAI and OpenInference conventions in all their spellings."""

import json
from typing import Any

import polars as pl
import pytest

from ingest.dialects import Dialect, translate
from ingest.dialects.dialect import event_schema
from ingest.dialects.gen_ai import CACHE_READ, CACHE_WRITE, INPUT, MODEL_OPERATIONS, OUTPUT, REASONING, RUN_OPERATIONS
from tests.ingest.dialects import captured

CALL = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "gpt-4o-mini"}


def events(*attributes: dict[str, Any], **columns: Any) -> pl.DataFrame:
    given = {"time_ns": 1_000_000_000, "end_ns": 1_250_000_000, "status": "unset"} | columns
    return translate(captured.batch(given | {"attributes": one} for one in attributes)).events


def one(attributes: dict[str, Any], **columns: Any) -> dict[str, Any]:
    (row,) = events(attributes, **columns).to_dicts()
    return row


def test_an_empty_batch_has_the_columns_of_the_table() -> None:
    translated = translate(captured.batch([]))
    assert dict(translated.events.schema) == event_schema()
    assert translated.dialect.to_list() == translated.session_key.to_list() == []


def test_a_dialect_needs_a_name_of_its_own_and_a_place_in_the_order() -> None:
    with pytest.raises(TypeError, match="twice"):
        type("Again", (Dialect,), {}, name="gen_ai")
    with pytest.raises(TypeError, match="PRIORITY"):
        type("Unplaced", (Dialect,), {}, name="unplaced")


@pytest.mark.parametrize("key", INPUT)
def test_input_is_read_in_every_spelling(key: str) -> None:
    assert one(CALL | {key: 7})["uncached_input_tokens"] == 7


@pytest.mark.parametrize("key", OUTPUT)
def test_output_is_read_in_every_spelling(key: str) -> None:
    assert one(CALL | {key: 7})["output_tokens"] == 7


@pytest.mark.parametrize("key", CACHE_READ)
def test_cache_reads_are_read_in_every_spelling_and_taken_out_of_the_input(key: str) -> None:
    call = one(CALL | {"gen_ai.usage.input_tokens": 10, key: 4})
    assert (call["uncached_input_tokens"], call["cache_read_tokens"]) == (6, 4)


@pytest.mark.parametrize("key", CACHE_WRITE)
def test_cache_writes_are_read_in_every_spelling_and_taken_out_of_the_input(key: str) -> None:
    call = one(CALL | {"gen_ai.usage.input_tokens": 10, key: 4})
    assert (call["uncached_input_tokens"], call["cache_write_tokens"]) == (6, 4)


@pytest.mark.parametrize("key", REASONING)
def test_reasoning_is_part_of_the_output(key: str) -> None:
    call = one(CALL | {"gen_ai.usage.output_tokens": 10, key: 4})
    assert (call["output_tokens"], call["reasoning_tokens"]) == (10, 4)


@pytest.mark.parametrize(
    ("usage", "uncached", "includes"),
    [
        ({"input_tokens": 10, "cache_read_tokens": 4}, 6, "true"),
        ({"input_tokens": 10, "cache_read_tokens": 4, "output_tokens": 3, "total_tokens": 13}, 6, "true"),
        ({"input_tokens": 10, "cache_read_tokens": 4, "output_tokens": 3, "total_tokens": 17}, 10, "false"),
        ({"input_tokens": 3, "cache_read_tokens": 900}, 3, "false"),
        ({"input_tokens": 10, "cache_read_tokens": 4, "output_tokens": 3, "total_tokens": 99}, 6, "unknown"),
        ({"input_tokens": 10}, 10, "unknown"),
    ],
)
def test_whether_the_input_includes_the_cache_is_decided_by_evidence(
    usage: dict[str, int], uncached: int, includes: str
) -> None:
    call = one(CALL | {f"gen_ai.usage.{name}": value for name, value in usage.items()})
    assert call["uncached_input_tokens"] == uncached
    assert json.loads(call["payload"])["input_includes_cache"] == includes


def test_numbers_may_arrive_as_texts_and_nonsense_is_not_a_number() -> None:
    calls = events(
        CALL | {"gen_ai.usage.input_tokens": "12", "gen_ai.usage.output_tokens": 3.0},
        CALL | {"gen_ai.usage.input_tokens": "many", "gen_ai.usage.output_tokens": -1, "gen_ai.response.id": "r"},
    )
    assert calls["uncached_input_tokens"].to_list() == [12, None]
    assert calls["output_tokens"].to_list() == [3, None]


@pytest.mark.parametrize("operation", sorted(MODEL_OPERATIONS))
def test_each_model_operation_is_a_model_call(operation: str) -> None:
    assert one(CALL | {"gen_ai.operation.name": operation, "gen_ai.response.id": "r"})["type"] == "model.completed"


@pytest.mark.parametrize("operation", [*sorted(RUN_OPERATIONS), "an_operation_of_the_future"])
def test_each_other_operation_is_a_step_of_a_run_whose_usage_is_only_reported(operation: str) -> None:
    run = one({"gen_ai.operation.name": operation, "gen_ai.agent.name": "a", "gen_ai.usage.input_tokens": 5})
    assert (run["type"], run["status"], run["agent_name"]) == ("run.status", "completed", "a")
    assert run["uncached_input_tokens"] is None
    assert json.loads(run["payload"])["reported_usage"] == {"uncached_input_tokens": 5}


def test_a_call_is_dated_at_its_end_and_one_without_an_answer_at_its_start() -> None:
    answered, silent = events(CALL | {"gen_ai.response.id": "r"}, CALL).to_dicts()
    assert (answered["type"], answered["status"], answered["time_ns"]) == (
        "model.completed",
        "completed",
        1_250_000_000,
    )
    assert (silent["type"], silent["status"], silent["time_ns"]) == ("model.requested", "unknown", 1_000_000_000)
    assert (answered["duration_ms"], silent["duration_ms"]) == (250.0, None)
    assert silent["cost_state"] == "unknown"


def test_a_span_that_ends_before_it_starts_has_no_duration() -> None:
    assert one(CALL | {"gen_ai.response.id": "r"}, end_ns=1)["duration_ms"] is None


@pytest.mark.parametrize(("attributes", "columns"), [({"error.type": "timeout"}, {}), ({}, {"status": "error"})])
def test_a_failure_is_told_by_the_status_or_by_the_error_type(
    attributes: dict[str, str], columns: dict[str, str]
) -> None:
    exception = {"name": "exception", "attributes": {"exception.type": "timeout"}}
    call = one(CALL | attributes, span_events=[exception], status_message='it said "no"', **columns)
    assert (call["type"], call["status"], call["error"]) == ("model.failed", "failed", "timeout")
    assert json.loads(call["payload"])["message"] == 'it said "no"'


def test_tools_are_read_with_either_call_id() -> None:
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "grep"}
    calls = events(tool | {"gen_ai.tool.call.id": "c"}, tool | {"gen_ai.tool.call_id": "c"}, {"gen_ai.tool.name": "ls"})
    assert calls["type"].to_list() == ["tool.result"] * 3
    assert calls["tool_name"].to_list() == ["grep", "grep", "ls"]
    assert calls["tool_call_id"].to_list() == ["c", "c", None]


def test_finish_reasons_may_be_a_list_or_a_word() -> None:
    calls = events(
        CALL | {"gen_ai.response.finish_reasons": ["tool_calls", "stop"]},
        CALL | {"gen_ai.response.finish_reasons": "end_turn"},
    )
    assert [json.loads(text)["stop_reason"] for text in calls["payload"]] == ["tool_calls", "end_turn"]


def test_the_newer_spelling_wins_and_an_empty_one_says_nothing() -> None:
    call = one(CALL | {"gen_ai.provider.name": "", "gen_ai.system": "anthropic", "gen_ai.response.model": "gpt-4o"})
    assert (call["provider"], call["model"]) == ("anthropic", "gpt-4o")


def test_the_details_event_is_a_sighting_of_its_call_and_messages_are_not() -> None:
    names = (
        "gen_ai.client.inference.operation.details",
        "gen_ai.choice",
        "gen_ai.user.message",
        "gen_ai.system.message",
    )
    ids = {"trace_id": "a" * 32, "span_id": "b" * 16, "signal": "log"}
    attributes = CALL | {"gen_ai.usage.output_tokens": 5}
    translated = translate(captured.batch(ids | {"name": name, "attributes": attributes} for name in names))
    assert translated.dialect.to_list() == ["gen_ai"] * 4
    assert translated.events["type"].to_list() == ["model.completed"]
    assert translated.events["span_id"].to_list() == ["b" * 16]


def test_a_details_event_without_an_answer_announces_a_request() -> None:
    call = one(CALL, signal="log", name="gen_ai.client.inference.operation.details", end_ns=None)
    assert (call["type"], call["status"], call["cost_state"]) == ("model.requested", "running", None)


def test_an_exception_event_is_a_failed_call() -> None:
    call = one({"exception.type": "Boom"}, signal="log", name="gen_ai.client.operation.exception", status=None)
    assert (call["type"], call["error"]) == ("model.failed", "Boom")


@pytest.mark.parametrize("key", ["gen_ai.conversation.id", "session.id", "conversation.id"])
def test_a_session_is_read_in_every_spelling_even_where_nobody_claims_the_record(key: str) -> None:
    translated = translate(captured.batch([{"attributes": {key: "s"}}, {"attributes": {}}]))
    assert translated.session_key.to_list() == ["s", None]
    assert translated.dialect.to_list() == [None, None]


def test_openinference_wins_over_the_genai_attributes_beside_it() -> None:
    both = CALL | {"openinference.span.kind": "LLM", "llm.model_name": "m", "llm.token_count.prompt": 3}
    translated = translate(captured.batch([{"attributes": both | {"gen_ai.usage.input_tokens": 99}}]))
    assert translated.events.select("dialect", "model", "uncached_input_tokens").rows() == [("openinference", "m", 3)]


@pytest.mark.parametrize(
    ("kind", "made"),
    [("LLM", "model.completed"), ("EMBEDDING", "model.completed"), ("TOOL", "tool.result"), ("AGENT", "run.status")]
    + [(kind, "run.status") for kind in ("CHAIN", "RETRIEVER", "RERANKER", "GUARDRAIL", "EVALUATOR", "PROMPT", "NEW")],
)
def test_each_kind_of_openinference_has_its_event(kind: str, made: str) -> None:
    span = one({"openinference.span.kind": kind, "llm.token_count.prompt": 3}, name="n")
    assert span["type"] == made
    assert span["uncached_input_tokens"] == (3 if made == "model.completed" else None)


def test_openinference_tells_cost_reasoning_and_cache_writes() -> None:
    tokens = {"prompt": 10, "completion": 8, "prompt_details.cache_write": 4, "completion_details.reasoning": 2}
    counts = {f"llm.token_count.{name}": value for name, value in tokens.items()}
    call = one({"openinference.span.kind": "LLM", "llm.cost.total": 0.25} | counts)
    assert (call["uncached_input_tokens"], call["cache_write_tokens"], call["reasoning_tokens"]) == (6, 4, 2)
    assert (call["cost_usd"], call["cost_state"], call["price_entry"]) == (0.25, "reported", None)


@pytest.mark.parametrize(
    ("printed", "call"),
    [
        (
            '{"type": "tool", "data": {"content": "21", "name": "f", "tool_call_id": "call_1", "status": "success"}}',
            "call_1",
        ),
        (
            '{"type": "tool", "data": {"content": "a\\nb: \\"tool_call_id\\": \\"x\\"", "tool_call_id": "call_1"}}',
            "call_1",
        ),
        ("content='21' name='f' tool_call_id='call_1'", "call_1"),
        ('{"tool_call_id": "of somebody else", "rows": 3}', None),
        ("21", None),
    ],
)
def test_a_tool_of_langchain_names_the_call_it_answers_in_what_it_returns(printed: str, call: str | None) -> None:
    assert one({"openinference.span.kind": "TOOL", "tool.name": "f", "output.value": printed})["tool_call_id"] == call
