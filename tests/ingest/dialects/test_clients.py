"""The facts that clients tell besides calls, and spellings that the captures do not have."""

import json
from typing import Any

import polars as pl
import pytest

import models.event  # noqa: F401 - declares every event type
from ingest.dialects import translate
from models.payload import Payload
from tests.ingest.dialects.captured import batch

CLAUDE = "com.anthropic.claude_code.events"


def log(name: str, scope: str | None = None, **attributes: Any) -> dict[str, Any]:
    return {"signal": "log", "name": name, "scope_name": scope, "time_ns": 10**18, "attributes": attributes}


def span(name: str, scope: str, **attributes: Any) -> dict[str, Any]:
    ids = {"trace_id": "t", "span_id": name, "time_ns": 10**18, "end_ns": 10**18 + 5_000_000, "status": "unset"}
    return {"signal": "span", "name": name, "scope_name": scope, "attributes": attributes, **ids}


def events(*records: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of records, their payloads read and found valid."""
    rows = translate(batch(records)).events.sort("event_id").to_dicts()
    for row in rows:
        row["payload"] = json.loads(row["payload"])
        Payload.registry[row["type"]].model_validate(row["payload"])
    return rows


def one(*records: dict[str, Any]) -> dict[str, Any]:
    (found,) = events(*records)
    return found


def test_numbers_that_old_versions_of_claude_code_send_as_texts_are_numbers() -> None:
    told = {"input_tokens": "1500", "output_tokens": "20", "cache_read_tokens": "700", "cache_creation_tokens": "0"}
    told |= {"cost_usd": "0.0125", "duration_ms": "950", "model": "claude-sonnet-4-5", "session.id": "s"}
    call = one(log("claude_code.api_request", **told))
    assert (call["type"], call["session_id"], call["duration_ms"]) == ("model.completed", "s", 950.0)
    # the client counts cached tokens beside the input, also where the input is larger than they are
    assert (call["uncached_input_tokens"], call["cache_read_tokens"], call["cost_usd"]) == (1500, 700, 0.0125)
    assert call["cost_state"] == "reported"


@pytest.mark.parametrize("name", ["permission_mode_changed", "claude_code.permission_mode_changed"])
def test_a_change_of_the_permission_mode_is_told_with_both_modes(name: str) -> None:
    changed = one(log(name, CLAUDE, from_mode="default", to_mode="plan", trigger="shift_tab"))
    assert changed["type"] == "policy.changed"
    assert (changed["payload"]["previous_policy_ref"], changed["payload"]["permission_mode"]) == ("default", "plan")


def test_who_decided_about_a_tool_is_told_in_our_words_and_in_the_clients() -> None:
    told = {"tool_name": "Bash", "tool_use_id": "toolu_1", "decision": "reject", "source": "user_reject"}
    decided = one(log("tool_decision", CLAUDE, **told))
    assert (decided["type"], decided["tool_call_id"], decided["status"]) == (
        "permission.evaluated",
        "toolu_1",
        "denied",
    )
    assert decided["payload"]["decision"] == "deny"
    assert (decided["payload"]["decision_source"], decided["payload"]["decision_reason"]) == ("human", "user_reject")


def test_hooks_that_block_and_hooks_that_err_are_told_apart() -> None:
    told = {"hook_event": "PreToolUse", "hook_name": "lint", "total_duration_ms": 12}
    blocked = one(log("hook_execution_complete", CLAUDE, num_blocking=1, num_non_blocking_error=0, **told))
    erred = one(log("hook_execution_complete", CLAUDE, num_blocking=0, num_non_blocking_error=1, **told))
    assert (blocked["type"], blocked["payload"]["decision"]) == ("hook.completed", "block")
    assert (erred["type"], erred["status"], erred["duration_ms"]) == ("hook.failed", "failed", 12.0)


def test_compaction_and_a_finished_subagent_are_told_and_add_no_tokens() -> None:
    compacted = one(log("compaction", CLAUDE, trigger="auto", success="true", pre_tokens=90_000, post_tokens=9_000))
    assert (compacted["type"], compacted["payload"]["tokens_before"]) == ("context.compaction.completed", 90_000)
    helper = one(log("subagent_completed", CLAUDE, agent_type="explore", total_tokens=3000, total_tool_uses=2))
    assert (helper["type"], helper["agent_name"], helper["output_tokens"]) == ("subagent.completed", "explore", None)


def test_a_subagent_inside_another_names_it_and_a_swapped_model_is_told() -> None:
    ids = {"span.type": "llm_request", "agent_id": "inner", "parent_agent_id": "outer", "input_tokens": 5}
    call = one(span("claude_code.llm_request", CLAUDE, **ids))
    assert (call["subagent_id"], call["payload"]["parent_subagent_id"]) == ("inner", "outer")
    told = {"agent_type": "explore", "model": "claude-opus-4-1", "final_model": "claude-haiku-4-5"}
    done, swapped = events(log("subagent_completed", CLAUDE, model_swapped="true", agent_id="a", **told))
    assert (done["type"], done["subagent_id"]) == ("subagent.completed", "a")
    assert (swapped["type"], swapped["model"]) == ("routing.fallback.applied", "claude-haiku-4-5")
    assert [row["type"] for row in events(log("subagent_completed", CLAUDE, model_swapped="false", **told))] == [
        "subagent.completed"
    ]


@pytest.mark.parametrize(
    ("record", "kinds"),
    [
        (log("api_error", CLAUDE, status_code=400, error="Your credit balance is too low"), {"quota.blocked"}),
        (log("api_error", CLAUDE, status_code=529, error="Overloaded"), set()),
        (
            log("gemini_cli.api_error", "gemini-cli", status_code=429, error="Quota exceeded for requests per day"),
            {"quota.blocked", "rate_limit.hit"},
        ),
        (
            log("gemini_cli.api_error", "gemini-cli", status_code=429, error="Quota exceeded: requests per minute"),
            {"rate_limit.hit"},
        ),
    ],
)
def test_a_quota_that_is_used_up_and_a_rate_that_is_too_high_are_told_apart(
    record: dict[str, Any], kinds: set[str]
) -> None:
    assert {row["type"] for row in events(record)} == {"model.failed"} | kinds


def test_a_refusal_for_the_rate_is_a_failed_call_and_a_limit_that_was_hit() -> None:
    told = {"model": "claude-opus-4-1", "error": "slow down", "status_code": 429, "attempt": 3, "request_id": "r"}
    failed, hit = events(log("api_error", CLAUDE, **told))
    assert (failed["type"], failed["error"], failed["payload"]["attempt_index"]) == ("model.failed", "429", 3)
    assert (hit["type"], hit["payload"]["http_status"]) == ("rate_limit.hit", 429)


def test_events_of_one_millisecond_keep_the_order_of_the_client() -> None:
    rows = [log("user_prompt", CLAUDE, **{"event.sequence": place}) for place in (2, 0, 1)]
    assert [row["time_ns"] - 10**18 for row in events(*rows)] == [2, 0, 1]


def codex(name: str, **attributes: Any) -> dict[str, Any]:
    shared = {"event.name": name, "conversation.id": "c", "model": "gpt-5.1-codex"}
    return log("event otel/src/events/session_telemetry.rs:1", "codex_otel.log_only", **shared, **attributes)


def test_codex_is_understood_by_its_attribute_and_counts_an_answer_once() -> None:
    used = {"input_token_count": "100", "cached_token_count": 60, "output_token_count": "9", "tool_token_count": "109"}
    call = one(
        codex("codex.sse_event", **{"event.kind": "response.completed"}),
        codex("codex.sse_event", **{"event.kind": "response.completed"}, **used),
    )
    assert (call["type"], call["session_id"], call["model"]) == ("model.completed", "c", "gpt-5.1-codex")
    assert (call["uncached_input_tokens"], call["cache_read_tokens"], call["output_tokens"]) == (40, 60, 9)


def test_codex_tells_failed_tries_sandbox_outcomes_and_costs_of_turns() -> None:
    status = {"http.response.status_code": 500, "endpoint": "/responses", "attempt": 0}
    assert one(codex("codex.api_request", **status))["type"] == "model.failed"
    assert events(codex("codex.api_request", **{**status, "endpoint": "/models"})) == []
    stopped = one(codex("codex.sandbox_outcome", tool_name="exec_command", call_id="x", outcome="denied"))
    assert (stopped["type"], stopped["tool_call_id"]) == ("sandbox.violation", "x")
    cost = one(codex("codex.turn_cost", **{"turn.id": "t1", "usage.estimated_usd": 0.25}))  # says nothing of the end
    assert (cost["type"], cost["turn_id"], cost["cost_usd"]) == ("cost.recorded", "t1", 0.25)


def test_codex_tells_when_turns_begin_and_end_and_nothing_of_the_end_of_one_that_was_broken_off() -> None:
    ids = {"conversation.id": "c", "turn.id": "t1"}
    began = one(span("codex.turn_input", "codex_core", **ids))
    assert (began["type"], began["turn_id"]) == ("turn.started", "t1")
    over = one(span("session_task.turn", "codex_core", **{"turn.id": "t1", "codex.turn.token_usage.input_tokens": 9}))
    assert (over["type"], over["turn_id"], over["duration_ms"]) == ("turn.completed", "t1", 5.0)
    assert over["uncached_input_tokens"] is None, "it repeats what the calls used"
    assert events(span("session_task.turn", "codex_core", **ids)) == []
    cost = {"turn.id": "t1", "usage.estimated_usd": 0.5, "turn.interrupted": True}
    assert [row["type"] for row in events(codex("codex.turn_cost", **cost))] == ["cost.recorded", "turn.failed"]


def test_codex_tells_that_a_plan_is_used_up() -> None:
    told = {"event.kind": "response.failed", "error.message": "You've hit your usage limit. Try again at 3:00 PM."}
    failed, blocked = events(codex("codex.sse_event", **told))
    assert (failed["type"], blocked["type"], blocked["status"]) == ("model.failed", "quota.blocked", "blocked")


def test_housekeeping_spans_of_codex_are_kept_as_records_only() -> None:
    told = translate(
        batch([span("append_items", "codex_exec"), span("exec", "codex_exec", **{"conversation.id": "c"})])
    )
    assert told.dialect.to_list() == [None, "codex"]
    assert told.events.is_empty()


def gemini(name: str, **attributes: Any) -> dict[str, Any]:
    return log(name, "gemini-cli", **{"event.name": name, "session.id": "g"}, **attributes)


def test_gemini_tells_routing_modes_compression_and_subagents() -> None:
    routed = one(gemini("gemini_cli.model_routing", decision_model="gemini-2.5-pro", decision_source="classifier"))
    assert (routed["type"], routed["payload"]["selected_model"]) == ("routing.decided", "gemini-2.5-pro")
    failed = one(gemini("gemini_cli.model_routing", decision_model="m", failed=True, error_message="no"))
    assert failed["type"] == "routing.not_possible"
    switched = one(gemini("approval_mode_switch", from_mode="default", to_mode="yolo"))
    assert (switched["type"], switched["payload"]["permission_mode"]) == ("policy.changed", "yolo")
    smaller = one(gemini("gemini_cli.chat_compression", tokens_before=50_000, tokens_after=8_000))
    assert smaller["payload"]["tokens_after"] == 8_000
    agent = one(gemini("gemini_cli.agent.start", agent_id="a1", agent_name="codebase"))
    assert (agent["type"], agent["subagent_id"]) == ("subagent.spawned", "a1")


def test_calls_of_gemini_subagents_are_told_apart_by_the_ids_of_their_prompts() -> None:
    used = {"model": "gemini-2.5-flash", "input_token_count": 5, "output_token_count": 1}

    def of(prompt: str) -> tuple[Any, ...]:
        call = one(gemini("gemini_cli.api_response", prompt_id=prompt, **used))
        return call["turn_id"], call["subagent_id"]

    assert of("g########2") == ("g########2", None)
    assert of("plain-id") == ("plain-id", None)
    assert of("g########2-scout-x1#3") == ("g########2", "g########2-scout-x1")
    assert of("0f7a-uuid#0") == (None, "0f7a-uuid")
    nested = "g########2-scout-x1#3-helper-y2"
    began = one(gemini("gemini_cli.agent.start", agent_id=nested, agent_name="helper"))
    assert began["payload"]["parent_subagent_id"] == "g########2-scout-x1"


@pytest.mark.parametrize(("reason", "kind"), [("GOAL", "subagent.completed"), ("TIMEOUT", "subagent.failed")])
def test_a_gemini_subagent_that_missed_its_goal_failed(reason: str, kind: str) -> None:
    ended = one(gemini("gemini_cli.agent.finish", agent_id="a1", agent_name="scout", terminate_reason=reason))
    assert (ended["type"], ended["subagent_id"]) == (kind, "a1")


def test_a_tool_call_of_gemini_is_a_result_and_a_decision() -> None:
    found = events(gemini("gemini_cli.tool_call", function_name="ls", success=False, decision="reject", duration_ms=3))
    assert {row["type"] for row in found} == {"tool.failed", "permission.evaluated"}


def test_older_spans_of_the_agent_development_kit_are_read_by_name() -> None:
    told = {"gen_ai.system": "gcp.vertex.agent", "gen_ai.request.model": "gemini-2.0-flash"}
    told |= {"gcp.vertex.agent.session_id": "s", "gcp.vertex.agent.invocation_id": "e-1"}
    used = {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.output_tokens": 2}
    call = one(span("call_llm", "gcp.vertex.agent", **told, **used))
    assert (call["type"], call["provider"], call["session_id"], call["turn_id"]) == (
        "model.completed",
        None,
        "s",
        "e-1",
    )


def test_older_names_of_semantic_kernel_are_tokens_too() -> None:
    told = {
        "gen_ai.response.prompt_tokens": 7,
        "gen_ai.response.completion_tokens": 3,
        "gen_ai.request.model": "gpt-4o",
    }
    call = one(span("chat.completions gpt-4o", "Microsoft.SemanticKernel.Diagnostics", **told))
    assert (call["type"], call["uncached_input_tokens"], call["output_tokens"]) == ("model.completed", 7, 3)


def test_older_names_of_openllmetry_are_understood() -> None:
    told: dict[str, Any] = {"llm.request.type": "chat", "gen_ai.system": "OpenAI", "gen_ai.request.model": "gpt-4o"}
    told |= {"gen_ai.usage.prompt_tokens": 5, "gen_ai.usage.completion_tokens": 1, "traceloop.workflow.name": "w"}
    told |= {"gen_ai.completion.0.tool_calls.0.id": "call_1", "gen_ai.completion.0.tool_calls.0.name": "look_up"}
    call, tool = events(span("openai.chat", "opentelemetry.instrumentation.openai.v1", **told))
    assert (call["type"], call["dialect"], call["uncached_input_tokens"]) == ("model.completed", "traceloop", 5)
    assert (tool["type"], tool["tool_call_id"], tool["tool_name"]) == ("tool.args", "call_1", "look_up")


def test_cached_tokens_that_litellm_prints_are_read() -> None:
    told: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 100}
    told |= {"gen_ai.request.model": "gpt-4o"}
    told |= {
        "gen_ai.usage.output_tokens": 5,
        "metadata.usage_object": "{'prompt_tokens_details': {'cached_tokens': 80}}",
    }
    call = one(span("litellm_request", "litellm", **told))
    assert (call["uncached_input_tokens"], call["cache_read_tokens"]) == (20, 80)


def test_a_message_of_another_shape_hides_no_tool_calls_of_its_neighbours() -> None:
    parts = [{"type": "tool_call", "id": "c", "name": "f"}, {"type": "text", "content": {"any": ["thing"]}}]
    told: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.usage.output_tokens": 1}
    odd = ['"tool_call"', '{"tool_call": 1, "x": "tool_call"}', '[{"parts": "tool_call"}] "tool_call"', "<redacted>"]
    rows = [span(f"s{at}", "lib", **told, **{"gen_ai.output.messages": text}) for at, text in enumerate(odd)]
    good = span("s9", "lib", **told, **{"gen_ai.output.messages": json.dumps([{"role": "assistant", "parts": parts}])})
    asked = [row for row in events(*rows, good) if row["type"] == "tool.args"]
    assert [(row["tool_call_id"], row["tool_name"]) for row in asked] == [("c", "f")]


def test_metrics_of_clients_are_claimed_and_make_no_events() -> None:
    point = {"signal": "metric", "name": "claude_code.token.usage", "value": 5.0, "attributes": {"session.id": "s"}}
    told = translate(batch([point]))
    assert (told.dialect[0], told.session_key[0]) == ("claude_code", "s")
    assert told.events.select(pl.len()).item() == 0
