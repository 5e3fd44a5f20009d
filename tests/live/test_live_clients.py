"""Real frameworks that export to a running collector: our relations against what each framework says happened."""

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.collector.asking import answered, loaded, rows
from tests.live import environment
from tests.model_server import Call, ModelServer, Raw, Refusal, Said, Tokens
from tests.running import Collector

CLIENTS_FOLDER = Path(__file__).parent / "clients"
GRPC, HTTP = "grpc", "http/protobuf"
TOKENS = ("uncached_input_tokens", "cache_read_tokens", "output_tokens", "reasoning_tokens")


@dataclass(frozen=True)
class Client:
    """A program of `clients/`, and what is known of its instrumentation."""

    program: str
    arguments: tuple[str, ...]
    protocol: str
    tells_cache: bool = True
    """Otherwise all its input is one number, and cached and reasoning tokens are unknown."""
    tells_streamed_cache: bool = True
    """The same of streamed answers."""
    sightings: int = 1
    """How many instrumentations tell of each model call."""

    def tells_cache_of(self, call: dict[str, Any]) -> bool:
        return self.tells_cache and (self.tells_streamed_cache or not call.get("streamed"))


CLIENTS = {
    "pydantic-ai": Client("pydantic_ai_agent.py", (), HTTP),
    "langgraph": Client("langgraph_agent.py", (), GRPC),
    "openai-v2": Client("openai_chat.py", ("openai_v2",), GRPC, tells_cache=False),
    "openllmetry": Client("openai_chat.py", ("openllmetry",), HTTP),
    # The second instrumentation wraps the first and then cannot read its streams; of two spans of one call the one that
    # tells more is taken.
    "openai-twice": Client(
        "openai_chat.py", ("openai_v2", "openllmetry"), HTTP, tells_streamed_cache=False, sightings=2
    ),
}


@dataclass(frozen=True)
class Run:
    """One run: the client, what it said at its end, session by session, and where to ask."""

    client: Client
    service: str
    told: list[dict[str, Any]]
    index: httpx.Client

    def ask(self, sql: str) -> list[list[Any]]:
        """Rows about the sessions of this run; `{mine}` is the condition for them."""
        mine = "session_id in (select session_id from sessions where service_name = ?)"
        return rows(self.index, sql.format(mine=mine), params=[self.service])


@pytest.fixture(scope="module")
def interpreter() -> Path:
    try:
        return environment.python()
    except environment.CannotInstall as why:
        pytest.skip(f"the frameworks cannot be installed: {why}")


@pytest.fixture(scope="module")
def collector(interpreter: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    with Collector(tmp_path_factory.mktemp("live") / "home", everything=True) as running:
        yield running


@pytest.fixture(scope="module", params=CLIENTS)
def run(request: pytest.FixtureRequest, interpreter: Path, collector: Collector) -> Iterator[Run]:
    service, client = f"live-{request.param}", CLIENTS[request.param]
    settings = {
        "OTEL_SERVICE_NAME": service,
        "OTEL_EXPORTER_OTLP_PROTOCOL": client.protocol,
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector.grpc}" if client.protocol == GRPC else collector.http,
    }
    with ModelServer() as provider, collector.client() as index:
        script(provider)
        told = ran(interpreter, client, settings | provider.environment)
        answered(index)
        settled(index)
        yield Run(client, service, told, index)


def ran(interpreter: Path, client: Client, settings: dict[str, str]) -> list[dict[str, Any]]:
    """Run a client in an environment of these settings and little else; what it says of itself."""
    command = [str(interpreter), str(CLIENTS_FOLDER / client.program), *client.arguments]
    given = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ} | settings
    done = subprocess.run(command, capture_output=True, text=True, env=given, timeout=60)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def settled(index: httpx.Client, seconds: float = 15.0) -> None:
    """Wait until everything is loaded and the roll-up of sessions, which follows, knows of every event."""
    loaded(index)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ((events, rolled_up),) = rows(index, "select (select count(*) from events), (select sum(events) from sessions)")
        if events and events == rolled_up:
            return
        time.sleep(0.05)
    raise AssertionError(f"{events} events are loaded, the sessions know of {rolled_up}")


def script(provider: ModelServer) -> None:
    """What the openai client is answered: two tools are asked for, the end, a streamed answer, a refusal."""
    model = "gpt-4o-mini-2024-07-18"
    tools = (
        Call("call_1", "get_weather", ('{"city": "Paris"}',)),
        Call("call_2", "get_weather", ('{"city": "Athens"}',)),
    )
    asks = Said(calls=tools, tokens=Tokens(120, output=31, reasoning=8), id="chatcmpl-1", model=model)
    ends = Said(text=("Both 21.",), tokens=Tokens(197, cache_read=64, output=17), id="chatcmpl-2", model=model)
    for said in (asks, ends):
        whole = json.dumps(completion(said)).encode()
        provider.gives(Raw((whole,)), headers={"content-type": "application/json"})
    pieces = ("Take an ", "umbrella.")
    provider.gives(Said(text=pieces, tokens=Tokens(240, cache_read=128, output=9), id="chatcmpl-3", model=model))
    provider.gives(Refusal(400, "invalid_request_error"))


def completion(said: Said) -> dict[str, Any]:
    """An answer in one piece, as Chat Completions give it."""
    tokens = said.tokens
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": "".join(call.pieces)}}
        for call in said.calls
    ]
    message = {"role": "assistant", "content": "".join(said.text) or None, "tool_calls": calls or None}
    return {
        "id": said.id,
        "object": "chat.completion",
        "created": 1,
        "model": said.model,
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": {
            "prompt_tokens": tokens.whole_input,
            "completion_tokens": tokens.output,
            "total_tokens": tokens.whole_input + tokens.output,
            "prompt_tokens_details": {"cached_tokens": tokens.cache_read},
            "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
        },
    }


def said_tokens(call: dict[str, Any], tells_cache: bool) -> tuple[int | None, ...]:
    """A call's tokens as the framework counted them, in our classes; None for zero, which senders leave out."""
    if call["status"] == "failed":
        return None, None, None, None
    if not tells_cache:
        return call["input"], None, call["output"], None
    cached = call["cache_read"]
    return call["input"] - cached, cached or None, call["output"], call.get("reasoning") or None


def test_model_calls_are_those_the_framework_made(run: Run) -> None:
    said = Counter(
        (told["session"], call["model"], call["status"], *said_tokens(call, run.client.tells_cache_of(call)))
        for told in run.told
        for call in told["calls"]
    )
    found = run.ask(f"select session_id, model, status, {', '.join(TOKENS)} from model_calls where {{mine}}")
    assert Counter((*row[:4], row[4] or None, row[5], row[6] or None) for row in found) == said


def test_tool_calls_are_those_the_framework_ran(run: Run) -> None:
    said = Counter(
        (told["session"], tool["id"], tool["name"], tool["status"]) for told in run.told for tool in told["tools"]
    )
    assert said
    found = run.ask("select session_id, call_id, tool_name, status from tool_calls where {mine}")
    assert Counter(map(tuple, found)) == said


def test_each_conversation_is_one_session_with_its_totals(run: Run) -> None:
    said = {
        told["session"]: (
            len(told["calls"]),
            sum(call["status"] == "failed" for call in told["calls"]),
            len(told["tools"]),
            sum(call.get("input", 0) for call in told["calls"]),
            sum(call.get("output", 0) for call in told["calls"]),
        )
        for told in run.told
    }
    found = run.ask(
        "select session_id, model_calls, model_calls_failed, tool_calls, coalesce(uncached_input_tokens, 0) +"
        " coalesce(cache_read_tokens, 0), coalesce(output_tokens, 0) from sessions where {mine}"
    )
    assert {row[0]: tuple(row[1:]) for row in found} == said


def test_the_totals_that_frameworks_keep_themselves_are_ours(run: Run) -> None:
    for told in run.told:
        kept = told.get("totals", {})
        sums = run.ask(
            "select count(*), coalesce(sum(uncached_input_tokens), 0) + coalesce(sum(cache_read_tokens), 0),"
            " coalesce(sum(cache_read_tokens), 0), coalesce(sum(output_tokens), 0)"
            f" from model_calls where {{mine}} and session_id = '{told['session']}'"
        )
        ours = dict(zip(("calls", "input", "cache_read", "output"), sums[0], strict=True))
        assert {name: ours[name] for name in kept} == kept


def test_a_price_that_the_framework_reports_is_kept_and_none_is_invented(run: Run) -> None:
    costs = [call.get("cost_usd") for told in run.told for call in told["calls"] if call["status"] == "completed"]
    found = run.ask("select cost_state, cost_usd from model_calls where {mine} and status = 'completed'")
    reported = sorted(cost for state, cost in found if state == "reported")
    assert reported == pytest.approx(sorted(cost for cost in costs if cost is not None))
    assert all((cost is None) == (state == "unknown") for state, cost in found)


def test_a_call_that_two_instrumentations_tell_is_one_call_seen_twice(run: Run) -> None:
    found = run.ask("select call_id, count(*) from call_sightings where {mine} group by all")
    assert {sightings for _, sightings in found} == {run.client.sightings}
