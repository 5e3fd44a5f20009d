"""Gemini CLI's own telemetry: log events, spans and metrics; each answer is logged twice and counted once."""

from dataclasses import replace
from functools import cache

import polars as pl

from ingest.dialects import gen_ai
from ingest.dialects.calls import Reading, Tokens, read
from ingest.dialects.dialect import Dialect
from ingest.dialects.expressions import attribute, count, first, json_object
from ingest.dialects.facts import (
    Fact,
    decision,
    mode_changed,
    note,
    quota_used_up,
    rate_limited,
    short,
    submitted,
    together,
    told,
    took_ms,
)

PREFIX = "gemini_cli."
SCOPE = "gemini-cli"
PROVIDER = "gcp.gen_ai"
KIND = "_kind_told"
CALLS = ("api_request", "api_response", "api_error", "tool_call")
PROMPT_OF_AGENT = r"^(.*[^#])#\d+$"
PROMPT_OF_USER = r"^(.+?########\d+)"
MAKER = r"^(.*[^#])#\d+-[^#]*$"
"""A prompt's id is the session's and its number behind eight hashes, or a subagent's id and its number behind one; a
subagent's id may begin with the id of the prompt in which it was made."""

ENDED_WELL = "goal"
COUNTS = (
    *("input_token_count", "output_token_count", "cached_content_token_count", "thoughts_token_count"),
    *("tool_token_count", "total_token_count", "status_code", "http.status_code", "prompt_length", "tokens_before"),
    *("tokens_after", "turn_count", "attempt_number", "total_attempts", "original_content_length", "exit_code"),
    *("truncated_content_length", "content_length", "mcp_servers_count", "mcp_tools_count", "attempt"),
)
MEASURES = ("duration_ms", "routing_latency_ms", "retry_delay_ms", "total_duration_ms")
TEXTS = (
    *("event.name", "session.id", "prompt_id", "model", "error", "error_message", "error_type", "error.message"),
    *("finish_reasons", "function_name", "success", "decision", "tool_type", "mcp_server_name", "approval_mode"),
    *("sandbox_enabled", "auth_type", "decision_model", "decision_source", "reasoning", "failed", "agent_id"),
    *("agent_name", "terminate_reason", "hook_event_name", "hook_name", "hook_type", "verdict", "reason", "tool_name"),
    *("from_mode", "to_mode", "error.type", "gen_ai.prompt.name", "interactive", "loop_type"),
)


class GeminiCli(Dialect, name="gemini_cli"):
    """Gemini CLI and its forks that keep its names."""

    wants = (
        gen_ai.WANTS
        | dict.fromkeys(TEXTS, pl.String)
        | dict.fromkeys(COUNTS, pl.Int64)
        | dict.fromkeys(MEASURES, pl.Float64)
    )
    claims = (pl.col("scope_name").str.starts_with(SCOPE) | pl.col("name").str.starts_with(PREFIX)).fill_null(False)

    def events(self, records: pl.LazyFrame) -> pl.LazyFrame:
        """Model and tool calls, decisions, routing, compression, subagents, hooks and modes."""
        kind = pl.coalesce(first("event.name"), "name").str.strip_prefix(PREFIX).str.strip_prefix("plan.")
        frame = records.filter(pl.col("signal") != "metric").with_columns(kind.alias(KIND)).collect()
        # The convention's event about an answer is sent beside the client's own, which tells more of it.
        logs = frame.filter(pl.col("signal") == "log")
        calls = logs.lazy().filter(pl.col(KIND).is_in(CALLS))
        spans = frame.lazy().filter(pl.col("signal") == "span")
        common = {"turn_id": _turn("prompt_id"), "subagent_id": _subagent("prompt_id")}
        return together([read(calls, _of_logs()), read(spans, _of_spans()), *told(logs, KIND, _facts(), common)])


def _subagent(key: str) -> pl.Expr:
    """The subagent whose prompt it is."""
    return first(key).str.extract(PROMPT_OF_AGENT)


def _turn(key: str) -> pl.Expr:
    """The user's prompt, where the id tells it."""
    return pl.coalesce(first(key).str.extract(PROMPT_OF_USER), pl.when(_subagent(key).is_null()).then(first(key)))


@cache
def _of_spans() -> Reading:
    """Spans follow the convention, with operations of the client's own."""
    found = gen_ai.reading()
    operation = attribute("gen_ai.operation.name")
    return replace(
        found,
        kind=pl.when(operation == "llm_call")
        .then(pl.lit("model"))
        .when(operation == "tool_call")
        .then(pl.lit("tool"))
        .otherwise(pl.lit("run")),
        operation=operation.replace({"llm_call": "generate_content", "tool_call": "execute_tool"}),
        answered=found.answered | (pl.col("status") == "ok").fill_null(False),
        provider=pl.coalesce(found.provider, pl.lit(PROVIDER)),
        turn_id=_turn("gen_ai.prompt.name"),
        subagent_id=_subagent("gen_ai.prompt.name"),
    )


STATUS = ("status_code", "http.status_code")


@cache
def _of_logs() -> Reading:
    """Cached tokens are part of the input; thoughts are counted beside the output."""
    kind, status = pl.col(KIND), count(*STATUS)
    broken = (kind == "tool_call") & (attribute("success") == "false").fill_null(False)
    tokens = Tokens(
        count("input_token_count"),
        count("output_token_count"),
        count("cached_content_token_count"),
        pl.lit(None, pl.Int64),
        count("thoughts_token_count"),
        count("total_token_count"),
    )
    return Reading(
        kind=pl.when(kind == "tool_call").then(pl.lit("tool")).otherwise(pl.lit("model")),
        operation=pl.when(kind != "tool_call").then(pl.lit("generate_content")),
        answered=kind == "api_response",
        failed=(kind == "api_error") | broken | (status >= 400).fill_null(False),
        error=pl.coalesce(first("error_type", "error.type"), status.cast(pl.String)),
        tokens=tokens,
        provider=pl.lit(PROVIDER),
        request_model=first("model"),
        response_model=pl.lit(None, pl.String),
        response_id=pl.lit(None, pl.String),
        stop_reason=first("finish_reasons").str.extract(r"([\w.-]+)"),
        first_token_ms=pl.lit(None, pl.Float64),
        cost_usd=pl.lit(None, pl.Float64),
        tool_name=first("function_name"),
        tool_call_id=pl.lit(None, pl.String),
        tool_type=first("tool_type"),
        agent_name=pl.lit(None, pl.String),
        includes_cache=pl.lit("true"),
        took_ms=took_ms("duration_ms"),
        turn_id=_turn("prompt_id"),
        subagent_id=_subagent("prompt_id"),
        message=first("error", "error_message", "error.message"),
        http_status=status,
    )


@cache
def _facts() -> dict[str, tuple[Fact, ...]]:
    return {
        "config": (_session(), _sandbox()),
        "user_prompt": (submitted(),),
        "api_error": (
            rate_limited(count(*STATUS), first("model"), pl.lit(PROVIDER)),
            quota_used_up(first("model"), pl.lit(PROVIDER), "error", "error_message", "error.message", "error_type"),
        ),
        "tool_call": (
            decision(
                first("function_name"),
                pl.lit(None, pl.String),
                source=pl.when(attribute("decision") == "auto_accept").then(pl.lit("mode")),
                reason=first("decision"),
                part="decision",
            ),
        ),
        "conseca.verdict": (
            decision(
                first("tool_name"),
                pl.lit(None, pl.String),
                source=pl.lit("classifier"),
                reason=short("reason", "verdict"),
                word="decision",
            ),
        ),
        "model_routing": (_routing(),),
        "flash_fallback": (_fallback(),),
        "chat_compression": (_compression(),),
        "tool_output_truncated": (_truncated(),),
        "agent.start": (_agent(pl.lit("subagent.spawned"), pl.lit("running")),),
        "agent.finish": (_agent_ended(),),
        "agent.recovery_attempt": (note("agent.recovery_attempt", message=short("reason"), agent=first("agent_name")),),
        "hook_call": (_hook(),),
        "approval_mode_switch": (mode_changed(pl.lit(None, pl.String)),),
        "network_retry_attempt": (
            note(
                "network_retry_attempt",
                message=short("error_message", "error"),
                attempt=count("attempt_number", "attempt"),
                error_type=first("error_type"),
                model=first("model"),
            ),
        ),
        "loop_detected": (note("loop_detected", kind=first("loop_type")),),
        "chat.content_retry": (
            note("chat.content_retry", attempt=count("attempt_number"), error_type=first("error_type")),
        ),
        "chat.content_retry_failure": (
            note("chat.content_retry_failure", type="runtime.error", attempts=count("total_attempts")),
        ),
        "rewind": (Fact("history.rollback.completed", payload={"status": pl.lit("completed")}),),
    }


def _session() -> Fact:
    return Fact(
        "session.created",
        payload={"client_name": pl.lit("gemini-cli"), "source": pl.lit("gemini_cli")},
        lists={
            "metadata": json_object(
                {},
                model=first("model"),
                approval_mode=first("approval_mode"),
                auth_type=first("auth_type"),
                interactive=first("interactive"),
                mcp_servers_count=count("mcp_servers_count"),
                mcp_tools_count=count("mcp_tools_count"),
            )
        },
    )


def _sandbox() -> Fact:
    enabled = attribute("sandbox_enabled")
    return Fact(
        pl.when(enabled.is_not_null()).then(pl.lit("sandbox.applied")),
        payload={
            "mode": pl.when(enabled == "true").then(pl.lit("sandbox")).otherwise(pl.lit("none")),
            "enforced": enabled == "true",
        },
        part="sandbox",
    )


def _routing() -> Fact:
    failed = (attribute("failed") == "true").fill_null(False)
    took = took_ms("routing_latency_ms")
    return Fact(
        pl.when(failed).then(pl.lit("routing.not_possible")).otherwise(pl.lit("routing.decided")),
        payload={
            "selected_model": pl.when(~failed).then(first("decision_model")),
            "requested_model": pl.when(failed).then(first("decision_model")),
            "decision_source": first("decision_source"),
            "decision_reason": short("reasoning"),
            "reason": pl.when(failed).then(short("error_message")),
            "routing_mode": first("approval_mode"),
        },
        columns={"model": first("decision_model"), "duration_ms": took},
    )


def _fallback() -> Fact:
    return Fact(
        "routing.fallback.applied",
        payload={"decision_source": pl.lit("client")},
    )


def _compression() -> Fact:
    return Fact(
        "context.compaction.completed",
        payload={
            "status": pl.lit("completed"),
            "tokens_before": count("tokens_before"),
            "tokens_after": count("tokens_after"),
        },
        columns={"status": pl.lit("completed")},
    )


def _truncated() -> Fact:
    return Fact(
        "output.truncated",
        payload={
            "source_kind": pl.lit("tool"),
            "original_bytes": count("original_content_length"),
            "retained_bytes": count("truncated_content_length"),
        },
        columns={"tool_name": first("tool_name")},
    )


def _agent_ended() -> Fact:
    failed = (first("terminate_reason").str.to_lowercase() != ENDED_WELL).fill_null(False)
    return _agent(
        pl.when(failed).then(pl.lit("subagent.failed")).otherwise(pl.lit("subagent.completed")),
        pl.when(failed).then(pl.lit("failed")).otherwise(pl.lit("completed")),
        error=pl.when(failed).then(first("terminate_reason")),
    )


def _agent(kind: pl.Expr, status: pl.Expr, **columns: pl.Expr) -> Fact:
    took = took_ms("duration_ms")
    return Fact(
        kind,
        payload={
            "status": status,
            "role": first("agent_name"),
            "parent_subagent_id": first("agent_id").str.extract(MAKER),
            "status_reason": first("terminate_reason"),
            "failure_category": columns.get("error", pl.lit(None, pl.String)),
            "duration_ms": took,
        },
        columns={
            **columns,
            "status": status,
            "subagent_id": first("agent_id"),
            "agent_name": first("agent_name"),
            "duration_ms": took,
        },
    )


def _hook() -> Fact:
    failed = (attribute("success") == "false").fill_null(False)
    status, took = pl.when(failed).then(pl.lit("failed")).otherwise(pl.lit("completed")), took_ms("duration_ms")
    return Fact(
        pl.when(failed).then(pl.lit("hook.failed")).otherwise(pl.lit("hook.completed")),
        payload={
            "status": status,
            "hook_name": first("hook_name"),
            "point": first("hook_event_name"),
            "exit_code": count("exit_code"),
            "duration_ms": took,
            "failure_category": pl.when(failed).then(pl.lit("hook_error")),
            "message": pl.when(failed).then(short("error")),
        },
        columns={"status": status, "duration_ms": took},
    )
