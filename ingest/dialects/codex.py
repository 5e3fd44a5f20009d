"""Codex's own telemetry: log events (named by the attribute `event.name`), spans and metrics."""

from functools import cache

import polars as pl

from ingest.dialects.calls import Reading, Tokens, read
from ingest.dialects.dialect import Dialect
from ingest.dialects.expressions import attribute, count, duration_ms, first, json_object, said, sent
from ingest.dialects.facts import (
    Fact,
    decision,
    decision_source,
    note,
    quota_used_up,
    rate_limited,
    short,
    submitted,
    together,
    told,
    took_ms,
)

PREFIX = "codex."
KIND = "_kind_told"
ANSWERS = r"responses|completions|messages"
"""Endpoints that ask a model; the client also fetches lists of models and the like."""

SPAN_USAGE = "gen_ai.usage."
SPAN_COUNTS = {
    "input": f"{SPAN_USAGE}input_tokens",
    "output": f"{SPAN_USAGE}output_tokens",
    "cache_read": f"{SPAN_USAGE}cache_read.input_tokens",
    "cache_write": f"{SPAN_USAGE}cache_write.input_tokens",
    "reasoning": "codex.usage.reasoning_output_tokens",
    "total": "codex.usage.total_tokens",
}
LOG_COUNTS = {
    "input": "input_token_count",
    "output": "output_token_count",
    "cache_read": "cached_token_count",
    "cache_write": "cache_write_token_count",
    "reasoning": "reasoning_token_count",
    # The name says tool, the number is the total.
    "total": "tool_token_count",
}
TURN_USED = "codex.turn.token_usage.input_tokens"
"""Written onto the span of a turn when it has come to its end; it repeats what the calls used."""

OTHER_COUNTS = (
    *("http.response.status_code", "attempt", "prompt_length", "context_window", "auto_compact_token_limit"),
    TURN_USED,
)
MEASURES = ("duration_ms", "ttft_ms", "usage.estimated_usd", "initial_duration_ms", "escalated_duration_ms")
TEXTS = (
    *(
        "event.name",
        "event.kind",
        "conversation.id",
        "model",
        "slug",
        "error.message",
        "endpoint",
        "turn.id",
        "turn_id",
    ),
    *("tool_name", "tool_namespace", "call_id", "decision", "source", "success", "outcome", "mcp_server"),
    *("codex.tool.phase", "aborted", "provider_name", "reasoning_effort", "reasoning_summary", "approval_policy"),
    *("sandbox_policy", "mcp_servers", "originator", "app.version", "speed", "turn.interrupted", "service_tier"),
    *("output_truncated", "auth.recovery_mode", "auth.step", "auth.outcome"),
)
SPAN_MARKS = ("conversation.id", "codex.tool.phase", TURN_USED, SPAN_COUNTS["input"], SPAN_COUNTS["output"])
"""Of hundreds of spans those with one of these tell of an agent's work; the others stay plain records."""


class Codex(Dialect, name="codex"):
    """The Codex CLI and its editors' servers. Log events tell most; spans have no model, metrics no conversation."""

    wants = (
        dict.fromkeys(TEXTS, pl.String)
        | dict.fromkeys((*SPAN_COUNTS.values(), *LOG_COUNTS.values(), *OTHER_COUNTS), pl.Int64)
        | dict.fromkeys(MEASURES, pl.Float64)
    )
    claims = (
        pl.col("scope_name").str.starts_with("codex")
        | pl.col("service_name").str.starts_with("codex")
        | pl.col("name").str.starts_with(PREFIX)
    ).fill_null(False) & ((pl.col("signal") != "span") | sent(*SPAN_MARKS))

    def events(self, records: pl.LazyFrame) -> pl.LazyFrame:
        """Model and tool calls, decisions, sandbox outcomes, prompts and costs of turns."""
        kind = pl.coalesce(first("event.name"), "name").str.strip_prefix(PREFIX)
        frame = records.filter(pl.col("signal") != "metric").with_columns(kind.alias(KIND)).collect()
        logs, spans = frame.filter(pl.col("signal") == "log"), frame.filter(pl.col("signal") == "span")
        common = {"turn_id": first(*TURN)}
        return together(
            [
                read(frame.lazy().filter(_is_call()), _reading()),
                *told(logs, KIND, _facts(), common),
                *told(spans, KIND, _turns(), common),
            ]
        )


TURN = ("turn.id", "turn_id")
TOOL_SPAN = (pl.col("signal") == "span") & (attribute("codex.tool.phase") == "dispatch").fill_null(False)
TOOL_LOG = (pl.col("signal") == "log") & (pl.col(KIND) == "tool_result").fill_null(False)
USED = said(count(SPAN_COUNTS["input"]), count(SPAN_COUNTS["output"]))
ANSWERED = said(count(LOG_COUNTS["input"]), count(LOG_COUNTS["output"]))
REFUSED = (first("error.message").is_not_null() | (count("http.response.status_code") >= 400)).fill_null(False)


def _is_call() -> pl.Expr:
    asks = attribute("endpoint").str.contains(ANSWERS).fill_null(True)
    streamed = pl.col(KIND).is_in(["sse_event", "websocket_event"]) & (ANSWERED | REFUSED)
    asked = pl.col(KIND).is_in(["api_request", "websocket_request"]) & asks
    of_log = (pl.col("signal") == "log") & (streamed | asked).fill_null(False)
    return of_log | ((pl.col("signal") == "span") & USED) | TOOL_SPAN | TOOL_LOG


def _both(name: str) -> pl.Expr:
    return count(LOG_COUNTS[name], SPAN_COUNTS[name])


@cache
def _reading() -> Reading:
    is_tool = TOOL_SPAN | TOOL_LOG
    broken = (attribute("success") == "false") | (attribute("aborted") == "true")
    status = count("http.response.status_code")
    return Reading(
        kind=pl.when(is_tool).then(pl.lit("tool")).otherwise(pl.lit("model")),
        operation=pl.when(~is_tool).then(pl.lit("chat")),
        answered=ANSWERED | USED,
        failed=pl.when(is_tool).then(broken.fill_null(False)).otherwise(REFUSED),
        error=pl.coalesce(
            pl.when(is_tool & (attribute("aborted") == "true")).then(pl.lit("aborted")),
            pl.when(is_tool).then(pl.lit("tool_error")),
            pl.when(status >= 400).then(status.cast(pl.String)),
            pl.lit("stream_error"),
        ),
        tokens=Tokens(
            *(_both(name) for name in ("input", "output", "cache_read", "cache_write", "reasoning", "total"))
        ),
        # The provider is told at the start of a conversation and not of its calls.
        provider=pl.lit(None, pl.String),
        request_model=first("model", "slug"),
        response_model=pl.lit(None, pl.String),
        response_id=pl.lit(None, pl.String),
        stop_reason=pl.lit(None, pl.String),
        first_token_ms=took_ms("ttft_ms"),
        cost_usd=pl.lit(None, pl.Float64),
        tool_name=first("tool_name"),
        tool_call_id=first("call_id"),
        tool_type=first("tool_namespace"),
        agent_name=pl.lit(None, pl.String),
        includes_cache=pl.lit("true"),
        # Of a model call only single steps of its stream are timed.
        took_ms=pl.when(TOOL_LOG).then(took_ms("duration_ms")).when(~is_tool).then(pl.lit(-1.0)),
        turn_id=first(*TURN),
        message=pl.coalesce(first("error.message"), "status_message"),
        http_status=status,
        attempt=count("attempt") + 1,
    )


@cache
def _facts() -> dict[str, tuple[Fact, ...]]:
    model, provider = first("model", "slug"), pl.lit(None, pl.String)
    limited = rate_limited(count("http.response.status_code"), model, provider)
    used_up = quota_used_up(model, provider, "error.message")
    return {
        "conversation_starts": (_session(), _sandbox()),
        "user_prompt": (submitted(),),
        "api_request": (limited, used_up),
        "websocket_request": (limited, used_up),
        "sse_event": (used_up,),
        "websocket_event": (used_up,),
        "tool_decision": (
            decision(first("tool_name"), first("call_id"), source=decision_source("source"), reason=first("source")),
        ),
        "sandbox_outcome": (_sandbox_outcome(),),
        "turn_cost": (_turn_cost(), _turn_ended(attribute("turn.interrupted") == "true")),
        "auth_recovery": (
            note(
                "auth_recovery",
                message=short("error.message"),
                mode=first("auth.recovery_mode"),
                step=first("auth.step"),
                outcome=first("auth.outcome"),
            ),
        ),
    }


def _session() -> Fact:
    return Fact(
        "session.created",
        payload={
            "client_name": first("originator"),
            "client_version": first("app.version"),
            "source": pl.lit("codex"),
        },
        lists={
            "metadata": json_object(
                {},
                provider_name=first("provider_name"),
                model=first("model", "slug"),
                approval_policy=first("approval_policy"),
                sandbox_policy=first("sandbox_policy"),
                reasoning_effort=first("reasoning_effort"),
                reasoning_summary=first("reasoning_summary"),
                context_window=count("context_window"),
                auto_compact_token_limit=count("auto_compact_token_limit"),
                mcp_servers=first("mcp_servers"),
            )
        },
    )


def _sandbox() -> Fact:
    policy = first("sandbox_policy")
    return Fact(
        pl.when(policy.is_not_null()).then(pl.lit("sandbox.applied")),
        payload={"mode": policy, "enforced": policy != "danger-full-access"},
        part="sandbox",
    )


@cache
def _turns() -> dict[str, tuple[Fact, ...]]:
    """Turns by their spans: the first is sent as soon as a turn begins, the other when it is over.

    The span of a turn that was broken off has no usage on it, and then nothing says how it ended.
    """
    started = Fact("turn.started", payload={"status": pl.lit("running")}, columns={"status": pl.lit("running")})
    over = pl.when(count(TURN_USED).is_not_null()).then(False)
    return {"turn_input": (started,), "session_task.turn": (_turn_ended(over, part=""),)}


def _turn_ended(interrupted: pl.Expr, part: str = "turn") -> Fact:
    status = pl.when(interrupted).then(pl.lit("failed")).when(~interrupted).then(pl.lit("completed"))
    took = duration_ms()
    return Fact(
        pl.when(interrupted).then(pl.lit("turn.failed")).when(~interrupted).then(pl.lit("turn.completed")),
        payload={"status": status, "duration_ms": took, "interrupted": interrupted},
        columns={"status": status, "duration_ms": took},
        part=part,
    )


def _sandbox_outcome() -> Fact:
    """How a command ended under the sandbox: it ran, was stopped, or ran again outside after an approval."""
    outcome = first("outcome").str.to_lowercase()
    stopped = outcome.str.contains("den|violat|block|fail|reject").fill_null(False)
    took = pl.coalesce(took_ms("escalated_duration_ms"), took_ms("initial_duration_ms"))
    return Fact(
        pl.when(stopped).then(pl.lit("sandbox.violation")).otherwise(pl.lit("sandbox.applied")),
        payload={
            "status": outcome,
            "native_status": first("outcome"),
            "operation": pl.when(stopped).then(first("tool_name")),
            "boundary": pl.when(stopped).then(pl.lit("process")),
            "blocked": pl.when(stopped).then(pl.lit(True)),
            "enforced": pl.when(~stopped).then(pl.lit(True)),
        },
        columns={
            "status": outcome,
            "tool_name": first("tool_name"),
            "tool_call_id": first("call_id"),
            "duration_ms": took,
        },
    )


def _turn_cost() -> Fact:
    """What the client thinks a turn cost; the calls are priced one by one, so it is kept beside them and not added."""
    cost = took_ms("usage.estimated_usd")
    return Fact(
        "cost.recorded",
        payload={
            "cost_usd": cost,
            "cost_state": pl.lit("reported"),
            "scope": pl.lit("turn"),
            "source": pl.lit("codex"),
            "model_name": first("model", "slug"),
        },
        columns={"cost_usd": cost, "cost_state": pl.lit("reported"), "model": first("model", "slug")},
    )
