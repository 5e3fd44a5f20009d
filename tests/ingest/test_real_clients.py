"""Every captured run of a real client against its truth: what our relations say, and what they say is unknown."""

import json
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from collector.loader import prepare
from ingest.dialects import Dialect
from journal import Record
from store import Store
from tests.captures import REAL, Capture, captures

RUNS: dict[str, list[Capture]] = {}
for _capture in captures():
    RUNS.setdefault(_capture.run, []).append(_capture)

INPUTS = ("uncached_input_tokens", "cache_read_tokens", "cache_write_tokens")
TOKENS = (*INPUTS, "output_tokens", "reasoning_tokens")

BLIND = {
    "crewai": "sends spans of agents and tasks only: no model call, model or token is in them",
    "llamaindex": "sends spans of model calls without token counts",
    "openai_v2": "tells all input as one number: what of it was cached is not in it",
    "openai_agents": "tells all input as one number: what of it was cached is not in it",
}
"""Clients that do not carry a number that is not zero, and why. There the answer must be unknown, never 0."""

NO_CALLS = {"crewai"}
"""Of these, clients that do not even show that a model was called."""

NAMES_A_SESSION = {"claude_code", "claude_agent_sdk", "codex", "gemini_cli", "google_adk", "langgraph", "pydantic_ai"}

CARRIED = {
    "uncached_input_tokens": r"(usage\.(input|prompt)_tokens|token_count\.prompt|input_tokens|input_token_count)$",
    "cache_read_tokens": r"cache_?read|cached_token|cached_content|input_tokens\.cached|cached_tokens",
    "cache_write_tokens": r"cache_?(write|creation)|input_tokens\.cache_write",
    "output_tokens": r"(usage\.(output|completion)_tokens|token_count\.completion|^output_tokens|output_token_count)$",
    "reasoning_tokens": r"reasoning([._]output)?_token|completion_details\.reasoning|thoughts_token",
}
"""How clients spell a number, by any convention; a run in which no attribute matches does not carry it."""


@dataclass(frozen=True)
class Answer:
    """What the relations say about a run."""

    calls: Counter[str]
    models: set[str | None]
    tokens: dict[str, int | None]
    tools: Counter[str]
    sessions: list[tuple[str, int, int | None, int]]
    costs: set[str]


@cache
def answer(run: str, without: str | None = None) -> Answer:
    """Load a run into a store of its own and ask; one dialect may be switched off."""
    kept = dict(Dialect.registry)
    if without is not None:
        del Dialect.registry[without]
    try:
        entries = [
            Record(at, f"otlp.{one.signal}", 1_794_990_000 * 10**9, 1, {"content": one.encoding}, one.body)
            for at, one in enumerate(RUNS[run], 1)
        ]
        prepared = prepare(entries, 0)
    finally:
        Dialect.registry.clear()
        Dialect.registry.update(kept)
    assert not prepared.undecoded
    with TemporaryDirectory() as folder, Store.open(Path(folder)) as store:
        store.append(prepared.records, prepared.events.to_arrow(), len(entries))
        store.refresh()
        return _ask(store)


def _ask(store: Store) -> Answer:
    with store.cursor() as cursor:
        calls = cursor.execute("select status, model, cost_state from model_calls").fetchall()
        sums = ", ".join(f"cast(sum({name}) as bigint)" for name in TOKENS)
        used = cursor.execute(f"select {sums} from model_calls where status = 'completed'").fetchall()[0]
        tools = cursor.execute("select tool_name from tool_calls").fetchall()
        told = "select session_id, model_calls, output_tokens, tool_calls from sessions"
        return Answer(
            Counter(status for status, _, _ in calls),
            {model for status, model, _ in calls if status != "unknown"},
            dict(zip(TOKENS, used, strict=True)),
            Counter(name for (name,) in tools),
            cursor.execute(told).fetchall(),
            {state for _, _, state in calls},
        )


@cache
def expected(run: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((REAL / run / "expected.json").read_text())
    return found


def client(run: str) -> str:
    return run.partition("/")[0]


@cache
def told_keys(run: str) -> frozenset[str]:
    """The attributes of a run's spans and logs but those of agents, whose totals are of the calls below."""
    keys: set[str] = set()
    for one in RUNS[run]:
        for around in one.decoded.get("resourceSpans", []) + one.decoded.get("resourceLogs", []):
            for scope in around.get("scopeSpans", []) + around.get("scopeLogs", []):
                for record in scope.get("spans", []) + scope.get("logRecords", []):
                    text = json.dumps(record.get("attributes", []))
                    if not re.search(r'"(invoke_agent|invoke_workflow|AGENT)"', text):
                        keys.update(re.findall(r'"key": "([^"]+)"', text))
                        # LiteLLM prints the provider's usage as a text
                        keys.update(re.findall(r"'(cached_tokens|reasoning_tokens)': \d", text))
    return frozenset(keys)


def carries(run: str, spelling: str) -> bool:
    """Whether any span or log of a call has such an attribute."""
    return any(re.search(spelling, key) for key in told_keys(run))


COMPARED = [run for run in RUNS if (REAL / run / "truth.jsonl").exists()]
"""Runs in which a model was asked outside the client, so that there is a truth to compare with."""

OWN = {
    run: prepared
    for run, prepared in ((run, {"claude_agent_sdk": "claude_code"}.get(client(run), client(run))) for run in COMPARED)
    if prepared in Dialect.registry
}
"""Runs of clients that have a dialect of their own, and which."""


@pytest.mark.parametrize("run", COMPARED)
def test_calls_and_models_equal_the_truth(run: str) -> None:
    truth, found = expected(run), answer(run)
    if client(run) in NO_CALLS:
        assert found.calls.total() == 0
        return
    assert found.calls["completed"] == truth["llm_calls_ok"]
    assert found.calls["failed"] == len(truth["llm_calls_failed"])
    assert found.models == set(truth["models"])


@pytest.mark.parametrize("run", COMPARED)
@pytest.mark.parametrize("name", TOKENS)
def test_each_number_of_tokens_equals_the_truth_or_is_unknown(run: str, name: str) -> None:
    truth, found = expected(run), answer(run).tokens
    if not truth["llm_calls_ok"] or not carries(run, CARRIED[name]):
        assert found[name] is None, "a number that nobody told is unknown, not 0"
        assert truth[name] == 0 or client(run) in BLIND
    elif name == "uncached_input_tokens" and found["cache_read_tokens"] is None and truth["cache_read_tokens"]:
        assert client(run) in BLIND
        assert found[name] == sum(truth[one] for one in INPUTS)
    else:
        assert found[name] == truth[name]


@pytest.mark.parametrize("run", COMPARED)
def test_requested_tool_calls_equal_the_truth(run: str) -> None:
    assert answer(run).tools == Counter(expected(run)["tool_calls_requested"])


@pytest.mark.parametrize("run", COMPARED)
def test_the_roll_up_of_sessions_says_the_same_as_the_calls(run: str) -> None:
    found = answer(run)
    assert sum(calls for _, calls, _, _ in found.sessions) == found.calls.total()
    assert sum(output or 0 for _, _, output, _ in found.sessions) == (found.tokens["output_tokens"] or 0)
    assert sum(tools for *_, tools in found.sessions) == found.tools.total()


@pytest.mark.parametrize("run", [run for run in RUNS if client(run) in NAMES_A_SESSION])
def test_one_run_of_a_client_that_names_its_session_is_one_session(run: str) -> None:
    assert [session_id.startswith("trace:") for session_id, *_ in answer(run).sessions] == [False]


@pytest.mark.parametrize("run", [run for run in COMPARED if client(run) not in NAMES_A_SESSION | {"strands"}])
def test_a_trace_that_names_no_session_is_its_own(run: str) -> None:
    assert all(session_id.startswith("trace:") for session_id, *_ in answer(run).sessions)


@pytest.mark.parametrize("run", [run for run in COMPARED if client(run) in BLIND])
def test_a_list_of_blind_clients_names_only_blind_ones(run: str) -> None:
    found, truth = answer(run).tokens, expected(run)
    if truth["llm_calls_ok"] and any(truth[name] for name in INPUTS[1:]):
        assert any(found[name] is None and truth[name] for name in INPUTS[1:])


@pytest.mark.parametrize("run", OWN)
def test_without_its_own_dialect_the_conventions_still_give_what_they_carry(run: str) -> None:
    truth, found = expected(run), answer(run, without=OWN[run])
    assert found.calls["completed"] == truth["llm_calls_ok"]
    assert found.calls["failed"] == len(truth["llm_calls_failed"])
    assert found.models <= {*truth["models"], None}
    assert found.tools <= Counter(truth["tool_calls_requested"])
    for name, spelling in CONVENTION.items():
        if truth["llm_calls_ok"] and carries(run, spelling):
            assert found.tokens[name] == truth[name]
        else:
            assert found.tokens[name] is None
    if carries(run, CONVENTION_INPUT):
        told = sum(found.tokens[name] or 0 for name in INPUTS)
        assert told == (sum(truth[name] for name in INPUTS) if truth["llm_calls_ok"] else 0)


CONVENTION_INPUT = r"gen_ai\.usage\.(input|prompt)_tokens"
CONVENTION = {
    "cache_read_tokens": r"gen_ai\.usage\.cache_read",
    "cache_write_tokens": r"gen_ai\.usage\.cache_(write|creation)",
    "output_tokens": r"gen_ai\.usage\.(output|completion)_tokens",
}
