"""Every dialect against captures of real clients, whose true totals are known."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import models.event  # noqa: F401 - declares every event type
from ingest.dialects import translate
from models.payload import Payload
from tests.ingest.dialects import captured

REAL = Path(__file__).resolve().parents[3] / "sample_traces" / "real"
RUNS = sorted(str(path.parent.relative_to(REAL)) for path in REAL.glob("*/*/traces"))
TOKENS = ("uncached_input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")

OWN_NAMES = {
    "claude_code": "its tokens and tools have names of its own",
    "claude_agent_sdk": "it runs Claude Code",
    "codex": "models and tools have names of its own; the usage follows the convention and is tested apart",
    "gemini_cli": "cached tokens have a name of its own",
}
NO_TOKENS = {"crewai": "has no spans of model calls", "llamaindex": "sends no token counts"}
NO_CACHE_COUNTS = {"openai_v2": "tells all input as one number", "openai_agents": "tells all input as one number"}
NO_TOOL_SPANS = {"openai_v2", "anthropic_oi", "litellm"}
"""Instrumentations of model SDKs: tools are run by the program itself, unseen."""

INSIDE_THE_CLIENT = {"langgraph/fakemodel", "pydantic_ai/testmodel"}
"""Runs on a model inside the client: the server that wrote down the truth saw nothing of them."""

SEEN_TWICE = {"anthropic_oi", "google_adk"}
"""Clients whose calls are told by two records: relations join them by span or by response id."""

COUNTED = [
    name
    for name in RUNS
    if name.split("/")[0] not in OWN_NAMES.keys() | NO_TOKENS.keys() and name not in INSIDE_THE_CLIENT
]


def expected(run: str) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((REAL / run / "expected.json").read_text())
    return truth


def model_calls(run: str) -> pl.DataFrame:
    """The calls of a run; sightings of one call, by the ids in them, counted once."""
    events = translate(captured.run(REAL / run)).events
    calls = events.filter(pl.col("type").is_in(["model.completed", "model.failed"]))
    calls = calls.unique(["trace_id", "span_id"], keep="first", maintain_order=True)
    return calls.unique(pl.coalesce("model_request_id", "record_id"), keep="first", maintain_order=True)


def tools(events: pl.DataFrame) -> Counter[str]:
    return Counter(events.filter(pl.col("type").is_in(["tool.result", "tool.failed"]))["tool_name"])


@pytest.mark.parametrize("run", COUNTED)
def test_calls_and_models_equal_the_truth(run: str) -> None:
    truth, calls = expected(run), model_calls(run)
    assert calls.filter(type="model.completed").height == truth["llm_calls_ok"]
    assert calls.filter(type="model.failed").height == len(truth["llm_calls_failed"])
    assert set(calls["model"]) == set(truth["models"])


@pytest.mark.parametrize("run", COUNTED)
def test_tokens_equal_the_truth(run: str) -> None:
    truth, calls = expected(run), model_calls(run)
    if run.split("/")[0] in NO_CACHE_COUNTS:
        assert calls["cache_read_tokens"].is_null().all()
        assert calls["uncached_input_tokens"].sum() == sum(truth[name] for name in TOKENS[:3])
        assert calls["output_tokens"].sum() == truth["output_tokens"]
    else:
        assert {name: calls[name].sum() for name in TOKENS} == {name: truth[name] for name in TOKENS}


@pytest.mark.parametrize("run", [run for run in COUNTED if run.split("/")[0] not in NO_TOOL_SPANS])
def test_executed_tools_are_the_requested_ones(run: str) -> None:
    assert tools(translate(captured.run(REAL / run)).events) == Counter(expected(run)["tool_calls_requested"])


@pytest.mark.parametrize("run", [run for run in COUNTED if run.split("/")[0] not in SEEN_TWICE])
def test_without_a_second_sighting_each_model_event_is_a_call_of_its_own(run: str) -> None:
    events = translate(captured.run(REAL / run)).events
    assert events.filter(pl.col("type").is_in(["model.completed", "model.failed"])).height == model_calls(run).height


@pytest.mark.parametrize("run", [run for run in RUNS if run.split("/")[0] == "codex"])
def test_usage_in_the_convention_is_read_from_a_client_whose_other_names_are_its_own(run: str) -> None:
    truth, calls = expected(run), model_calls(run)
    assert {name: calls[name].sum() for name in TOKENS} == {name: truth[name] for name in TOKENS}


@pytest.mark.parametrize("run", [run for run in RUNS if run.split("/")[0] in NO_TOKENS])
def test_tokens_that_are_not_told_are_unknown_and_not_zero(run: str) -> None:
    calls = model_calls(run)
    assert all(calls[name].is_null().all() for name in TOKENS)
    assert calls["cost_usd"].is_null().all()
    assert set(calls["cost_state"]) <= {"unknown"}


def test_a_model_span_that_only_prepares_a_call_is_not_a_completed_one() -> None:
    events = translate(captured.run(REAL / "llamaindex/react_llama")).events
    assert events.filter(type="model.completed").height == expected("llamaindex/react_llama")["llm_calls_ok"]
    assert set(events.filter(type="model.requested")["status"]) == {"unknown"}


@pytest.mark.parametrize("run", RUNS)
def test_spans_of_agents_never_carry_tokens_or_cost(run: str) -> None:
    others = translate(captured.run(REAL / run)).events.filter(~pl.col("type").str.starts_with("model."))
    assert all(others[name].is_null().all() for name in (*TOKENS, "cost_usd", "cost_state"))


@pytest.mark.parametrize("run", [run for run in RUNS if run.startswith("plain_otel/")])
def test_telemetry_without_a_meaning_to_us_is_claimed_by_nobody(run: str) -> None:
    translated = translate(captured.run(REAL / run))
    assert translated.dialect.is_null().all()
    assert translated.session_key.is_null().all()
    assert translated.events.is_empty()


@pytest.mark.parametrize("run", [run for run in RUNS if run.split("/")[0] in {"strands", "pydantic_ai", "langgraph"}])
def test_a_client_that_names_its_session_has_one(run: str) -> None:
    translated = translate(captured.run(REAL / run))
    assert translated.session_key.n_unique() == 1
    assert translated.events["session_id"].n_unique() == 1
    assert translated.events["session_id"].null_count() == 0


@pytest.mark.parametrize("run", [run for run in RUNS if expected(run)["llm_calls_failed"]])
def test_a_failed_call_tells_its_error(run: str) -> None:
    failed = model_calls(run).filter(type="model.failed")
    payload = json.loads(failed["payload"][0])
    assert failed["status"].to_list() == ["failed"]
    assert failed["error"][0] is not None or "400" in payload["message"]


@pytest.mark.parametrize("run", RUNS)
def test_payloads_hold_no_prompt_and_are_valid_for_their_type(run: str) -> None:
    for event in translate(captured.run(REAL / run)).events.iter_rows(named=True):
        fields = json.loads(event["payload"])
        assert "[[scenario:" not in event["payload"]
        assert fields["status"] == event["status"]
        Payload.registry[event["type"]].model_validate(fields)
        if event["type"] == "model.completed" and event["output_tokens"] is not None:
            assert fields["usage"]["output_tokens"] == event["output_tokens"]
