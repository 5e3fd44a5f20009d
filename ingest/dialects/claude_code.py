"""Claude Code's own telemetry: log events, beta spans and metrics; numbers may come as texts (older versions)."""

from functools import cache

import polars as pl

from ingest.dialects.calls import Reading, Tokens, read
from ingest.dialects.dialect import Dialect
from ingest.dialects.expressions import attribute, count, first, json_object
from ingest.dialects.facts import (
    Fact,
    decision,
    decision_source,
    mode_changed,
    note,
    quota_used_up,
    rate_limited,
    short,
    submitted,
    together,
    told,
    took_ms,
    verdict,
)

PREFIX = "claude_code."
SCOPE = "com.anthropic.claude_code"
PROVIDER = "anthropic"
COUNTS = (
    *("input_tokens", "output_tokens", "cache_read_tokens", "cache_creation_tokens", "prompt_length"),
    *("cost_usd_micros", "status_code", "http.response.status_code", "attempt", "total_attempts"),
    *("tool_result_size_bytes", "pre_tokens", "post_tokens", "total_tokens", "total_tool_uses", "num_hooks"),
    *("num_success", "num_blocking", "num_non_blocking_error", "num_cancelled", "transcripts_deleted", "period_days"),
    *("num_denied", "num_errors", "event.sequence"),
)
MEASURES = (
    "cost_usd",
    "duration_ms",
    "ttft_ms",
    "total_duration_ms",
    "total_retry_duration_ms",
    "interaction.duration_ms",
)
TEXTS = (
    *("event.name", "span.type", "session.id", "prompt.id", "model", "request_id", "client_request_id", "agent_id"),
    *("gen_ai.response.id", "stop_reason", "success", "error", "error_type", "error.type", "agent.name", "tool_name"),
    *("tool_use_id", "gen_ai.tool.call.id", "decision", "source", "decision_type", "decision_source", "tool_source"),
    *("from_mode", "to_mode", "trigger", "hook_event", "hook_name", "hook_source", "agent_type", "agent.source"),
    *("is_async", "final_model", "command_name", "command_source", "category", "server_name", "skill.name"),
    *("plugin.name", "mcp_server.name", "error_name", "parent_agent_id", "model_swapped", "server_fallback_hop"),
)

STATUS = ("status_code", "http.response.status_code")
KIND = "_kind_told"
MODEL_KINDS = {"api_request", "api_error", "llm_request"}
TOOL_KINDS = {"tool_result", "tool.execution"}
NOTED = ("mcp_server_connection", "auth", "skill_activated", "plugin_installed", "plugin_loaded", "hook_registered")
"""Kinds of events that are kept as steps of the run, because no family of events is about them."""


class ClaudeCode(Dialect, name="claude_code"):
    """Claude Code, also when an SDK drives it. Its metrics repeat what the events tell: see `reconciliation`."""

    wants = dict.fromkeys(TEXTS, pl.String) | dict.fromkeys(COUNTS, pl.Int64) | dict.fromkeys(MEASURES, pl.Float64)
    claims = (
        pl.col("scope_name").str.starts_with(SCOPE)
        | pl.col("name").str.starts_with(PREFIX)
        | pl.col("body").str.starts_with(f'"{PREFIX}')
    ).fill_null(False)

    def events(self, records: pl.LazyFrame) -> pl.LazyFrame:
        """Model and tool calls, decisions, hooks, compactions, subagents and turns."""
        kind = pl.coalesce(first("event.name"), first("span.type"), "name").str.strip_prefix(PREFIX)
        # Its clock ticks in milliseconds. The place in the session goes where the nanoseconds would be, so that events
        # of one millisecond keep their order.
        place = pl.when(pl.col("time_ns") % 1000 == 0).then(count("event.sequence") % 1000).fill_null(0).cast(pl.UInt64)
        frame = (
            records.filter(pl.col("signal") != "metric")
            .with_columns(kind.alias(KIND), time_ns=pl.col("time_ns") + place)
            .collect()
        )
        calls = frame.lazy().filter(pl.col(KIND).is_in(sorted(MODEL_KINDS | TOOL_KINDS)))
        return together([read(calls, _reading()), *told(frame, KIND, _facts(), _common())])


def _is(*kinds: str) -> pl.Expr:
    return pl.col(KIND).is_in(sorted(kinds))


@cache
def _reading() -> Reading:
    tokens = Tokens(
        count("input_tokens"),
        count("output_tokens"),
        count("cache_read_tokens"),
        count("cache_creation_tokens"),
        pl.lit(None, pl.Int64),
        pl.lit(None, pl.Int64),
    )
    refused = (attribute("success") == "false").fill_null(False)
    micros = count("cost_usd_micros").cast(pl.Float64) / 1e6
    return Reading(
        kind=pl.when(_is(*MODEL_KINDS)).then(pl.lit("model")).otherwise(pl.lit("tool")),
        operation=pl.when(_is(*MODEL_KINDS)).then(pl.lit("chat")),
        answered=pl.lit(True),
        failed=_is("api_error") | refused | (pl.col("status") == "error").fill_null(False),
        error=pl.coalesce(
            first("error_type", "error.type"),
            pl.when(_is(*MODEL_KINDS)).then(count(*STATUS).cast(pl.String)),
        ),
        tokens=tokens,
        provider=pl.lit(PROVIDER),
        request_model=first("model"),
        response_model=pl.lit(None, pl.String),
        response_id=first("request_id", "gen_ai.response.id", "client_request_id"),
        stop_reason=first("stop_reason"),
        first_token_ms=took_ms("ttft_ms"),
        cost_usd=pl.coalesce(took_ms("cost_usd"), micros),
        tool_name=first("tool_name"),
        tool_call_id=first("tool_use_id", "gen_ai.tool.call.id"),
        tool_type=first("tool_source"),
        agent_name=first("agent.name"),
        # The Anthropic API counts cached tokens beside the input, and so does its client.
        includes_cache=pl.lit("false"),
        took_ms=took_ms("duration_ms"),
        turn_id=first("prompt.id"),
        subagent_id=first("agent_id"),
        parent_subagent_id=first("parent_agent_id"),
        message=pl.coalesce(first("error"), "status_message"),
        http_status=count(*STATUS),
        attempt=count("attempt"),
    )


TOOL = {"tool_name": first("tool_name"), "tool_call_id": first("tool_use_id", "gen_ai.tool.call.id")}


@cache
def _common() -> dict[str, pl.Expr]:
    return {"turn_id": first("prompt.id"), "subagent_id": first("agent_id"), "agent_name": first("agent.name")}


@cache
def _facts() -> dict[str, tuple[Fact, ...]]:
    return {
        "user_prompt": (submitted(first("command_source"), command_name=first("command_name")),),
        "interaction": (_turn(),),
        "api_error": (
            rate_limited(count(*STATUS), first("model"), pl.lit(PROVIDER)),
            quota_used_up(first("model"), pl.lit(PROVIDER), "error", "error_type"),
        ),
        "api_retries_exhausted": (
            note(
                "api_retries_exhausted",
                type="runtime.error",
                message=short("error"),
                total_attempts=count("total_attempts"),
                total_retry_duration_ms=took_ms("total_retry_duration_ms"),
                model=first("model"),
            ),
        ),
        "api_refusal": (
            note(
                "api_refusal",
                message=short("category"),
                model=first("model"),
                attempt=count("attempt"),
                server_fallback_hop=first("server_fallback_hop"),
            ),
        ),
        "tool_decision": (
            decision(TOOL["tool_name"], TOOL["tool_call_id"], source=decision_source("source"), reason=first("source")),
        ),
        "tool": (_tool_started(),),
        "tool.blocked_on_user": (_denied(),),
        "permission_mode_changed": (mode_changed(first("trigger")),),
        "hook_execution_start": (_hook_started(),),
        "hook_execution_complete": (_hook_ended(),),
        "compaction": (_compaction(),),
        "subagent_completed": (_subagent(), _swapped()),
        "internal_error": (note("internal_error", type="runtime.error", message=short("error_name", "error")),),
        "retention_sweep": (
            note(
                "retention_sweep",
                message=pl.lit("the client deleted old transcripts"),
                transcripts_deleted=count("transcripts_deleted"),
                period_days=count("period_days"),
            ),
        ),
        **{name: (_noted(name),) for name in NOTED},
    }


def _turn() -> Fact:
    took = pl.coalesce(took_ms("interaction.duration_ms"), (pl.col("end_ns") - pl.col("time_ns")) / 1e6)
    return Fact(
        "turn.completed",
        payload={"status": pl.lit("completed"), "duration_ms": took},
        columns={"status": pl.lit("completed"), "duration_ms": took},
    )


def _tool_started() -> Fact:
    return Fact(
        "tool.started",
        payload={"status": pl.lit("running"), **TOOL},
        columns={
            **TOOL,
            "status": pl.lit("running"),
            # A span is dated by its end, and this is about its beginning.
            "time_ns": pl.col("time_ns"),
        },
    )


def _denied() -> Fact:
    """The wait for a permission, told without the call's id: the span around it is the call's."""
    denied = verdict("decision") == "deny"
    return Fact(
        pl.when(denied).then(pl.lit("tool.failed")),
        payload={
            "status": pl.lit("failed"),
            "failure_category": pl.lit("permission_denied"),
            "duration_ms": took_ms("duration_ms"),
        },
        lists={
            "permission": json_object({}, decision=verdict("decision"), decision_source=decision_source("source")),
        },
        columns={
            "status": pl.lit("failed"),
            "error": pl.lit("permission_denied"),
            "span_id": pl.col("parent_span_id"),
            "parent_span_id": pl.lit(None, pl.String),
        },
    )


HOOK = {"hook_name": first("hook_name"), "point": first("hook_event"), "handler_ref": first("hook_source")}


def _hook_started() -> Fact:
    return Fact("hook.started", payload=HOOK, columns={"status": pl.lit("running")})


def _hook_ended() -> Fact:
    """One event for all hooks of a point: blocking ones stop the work, other errors do not."""
    blocked, erred = count("num_blocking", "num_denied") > 0, count("num_non_blocking_error", "num_errors") > 0
    failed = (erred & ~blocked.fill_null(False)).fill_null(False)
    took = took_ms("total_duration_ms", "duration_ms")
    return Fact(
        pl.when(failed).then(pl.lit("hook.failed")).otherwise(pl.lit("hook.completed")),
        payload={
            **HOOK,
            "status": pl.when(failed).then(pl.lit("failed")).otherwise(pl.lit("completed")),
            "decision": pl.when(blocked.fill_null(False)).then(pl.lit("block")).when(~failed).then(pl.lit("continue")),
            "failure_category": pl.when(failed).then(pl.lit("hook_error")),
            "fail_policy": pl.when(failed).then(pl.lit("open")),
            "duration_ms": took,
        },
        lists={
            "counts": json_object(
                {},
                hooks=count("num_hooks"),
                success=count("num_success"),
                blocking=count("num_blocking", "num_denied"),
                errors=count("num_non_blocking_error", "num_errors"),
                cancelled=count("num_cancelled"),
            )
        },
        columns={
            "status": pl.when(failed).then(pl.lit("failed")).otherwise(pl.lit("completed")),
            "duration_ms": took,
        },
    )


def _compaction() -> Fact:
    failed = (attribute("success") == "false").fill_null(False)
    took, status = took_ms("duration_ms"), pl.when(failed).then(pl.lit("failed")).otherwise(pl.lit("completed"))
    return Fact(
        pl.when(failed).then(pl.lit("context.compaction.failed")).otherwise(pl.lit("context.compaction.completed")),
        payload={
            "status": status,
            "trigger": first("trigger"),
            "tokens_before": count("pre_tokens"),
            "tokens_after": pl.when(~failed).then(count("post_tokens")),
            "duration_ms": took,
            "failure_category": pl.when(failed).then(pl.lit("compaction_error")),
            "message": pl.when(failed).then(short("error")),
        },
        columns={"status": status, "duration_ms": took},
    )


def _subagent() -> Fact:
    """Its total of tokens is that of the last request only, so it is kept and never summed."""
    took = took_ms("duration_ms")
    return Fact(
        "subagent.completed",
        payload={
            "status": pl.lit("completed"),
            "role": first("agent_type"),
            "parent_subagent_id": first("parent_agent_id"),
            "tool_calls": count("total_tool_uses"),
            "duration_ms": took,
        },
        lists={
            "metadata": json_object(
                {},
                source=first("agent.source"),
                is_async=first("is_async"),
                last_request_tokens=count("total_tokens"),
                model=first("model"),
                final_model=first("final_model"),
            )
        },
        columns={"status": pl.lit("completed"), "duration_ms": took, "agent_name": first("agent_type")},
    )


def _swapped() -> Fact:
    """A subagent that ended with another model than it began with."""
    return Fact(
        pl.when(attribute("model_swapped") == "true").then(pl.lit("routing.fallback.applied")),
        payload={
            "from_model": first("model"),
            "selected_model": first("final_model"),
            "decision_source": pl.lit("client"),
            "decision_reason": pl.lit("model_swapped"),
        },
        columns={"model": first("final_model")},
        part="routing",
    )


def _noted(name: str) -> Fact:
    return Fact(
        "run.status",
        payload={
            "phase": pl.lit(name),
            "title": first("server_name", "mcp_server.name", "skill.name", "plugin.name", "hook_name", "hook_event"),
            "detail": short("error"),
        },
    )
