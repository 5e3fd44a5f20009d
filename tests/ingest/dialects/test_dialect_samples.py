"""What dialects make of captures of real clients; the totals are compared in tests/ingest/test_real_clients.py."""

import json
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


def expected(run: str) -> dict[str, Any]:
    truth: dict[str, Any] = json.loads((REAL / run / "expected.json").read_text())
    return truth


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
    failed = translate(captured.run(REAL / run)).events.filter(type="model.failed")
    payload = json.loads(failed["payload"][0])
    assert failed["status"].to_list() == ["failed"]
    assert failed["error"][0] is not None or "400" in payload["message"]


@pytest.mark.parametrize("run", RUNS)
def test_payloads_hold_no_prompt_and_are_valid_for_their_type(run: str) -> None:
    for event in translate(captured.run(REAL / run)).events.iter_rows(named=True):
        fields = json.loads(event["payload"])
        assert "[[scenario:" not in event["payload"]
        assert "status" not in fields or fields["status"] == event["status"]
        Payload.registry[event["type"]].model_validate(fields)
        if event["type"] == "model.completed" and event["output_tokens"] is not None:
            assert fields["usage"]["output_tokens"] == event["output_tokens"]
