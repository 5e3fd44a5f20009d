"""What the conventions have in common: a span or log about a model call, a tool call or an agent's run."""

from dataclasses import dataclass, field
from functools import cache, partial

import polars as pl

from ingest.dialects.expressions import duration_ms, events_of, exception_type, json_object, said

MESSAGE_CHARS = 500
"""A failure's message is kept this long in an event; the whole is in the record."""


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token counts as a sender spells them; NULL where it does not tell."""

    input: pl.Expr
    output: pl.Expr
    cache_read: pl.Expr
    cache_write: pl.Expr
    reasoning: pl.Expr
    total: pl.Expr

    @property
    def cached(self) -> pl.Expr:
        """The part of the input that went through a cache; 0 where not told."""
        return self.cache_read.fill_null(0) + self.cache_write.fill_null(0)

    def includes_cache(self) -> pl.Expr:
        """Whether the sender's input count includes cached tokens: `true`, `false`, or `unknown`.

        Both conventions say it does. Senders that copy Anthropic's own counts break them; that shows in the sum,
        or in an input smaller than its cached part. `unknown`: nothing was said about a cache, or the sum fits
        neither; the convention is applied then.
        """
        output = self.output.fill_null(0)
        return (
            pl.when(self.input.is_null() | ~said(self.cache_read, self.cache_write))
            .then(pl.lit("unknown"))
            .when((self.cached > 0) & (self.total == self.input + output + self.cached))
            .then(pl.lit("false"))
            .when(self.input < self.cached)
            .then(pl.lit("false"))
            .when(self.total.is_not_null() & (self.total != self.input + output))
            .then(pl.lit("unknown"))
            .otherwise(pl.lit("true"))
        )

    def uncached(self, includes_cache: pl.Expr) -> pl.Expr:
        """Input that did not go through a cache; all of the input where nothing was said about a cache."""
        rest = pl.max_horizontal(self.input - self.cached, pl.lit(0))
        return pl.when(self.input.is_not_null()).then(
            pl.when(includes_cache == "false").then(self.input).otherwise(rest)
        )


@dataclass(frozen=True, slots=True)
class Reading:
    """What a convention found on its records, whichever names it uses."""

    kind: pl.Expr
    """`model`, `tool`, `run`, or NULL for a record that is no event."""

    operation: pl.Expr
    answered: pl.Expr
    """Whether anything of the model's answer is recorded."""

    failed: pl.Expr
    error: pl.Expr
    tokens: Tokens
    provider: pl.Expr
    request_model: pl.Expr
    response_model: pl.Expr
    response_id: pl.Expr
    stop_reason: pl.Expr
    first_token_ms: pl.Expr
    cost_usd: pl.Expr
    tool_name: pl.Expr
    tool_call_id: pl.Expr
    tool_type: pl.Expr
    agent_name: pl.Expr
    includes_cache: pl.Expr = field(default_factory=partial(pl.lit, None, pl.String))
    """`true` or `false` where it is known of the sender; otherwise it is found out from the counts."""

    took_ms: pl.Expr = field(default_factory=partial(pl.lit, None, pl.Float64))
    """How long the work took, as the sender says it; a span's own times otherwise."""

    turn_id: pl.Expr = field(default_factory=partial(pl.lit, None, pl.String))
    subagent_id: pl.Expr = field(default_factory=partial(pl.lit, None, pl.String))
    parent_subagent_id: pl.Expr = field(default_factory=partial(pl.lit, None, pl.String))
    """The child agent that made the one that did it, where told."""

    message: pl.Expr = field(default_factory=partial(pl.col, "status_message"))
    """What a failure says of itself."""

    http_status: pl.Expr = field(default_factory=partial(pl.lit, None, pl.Int64))
    attempt: pl.Expr = field(default_factory=partial(pl.lit, None, pl.Int64))
    """Which try of the same call it is, the first being 1."""


def read(records: pl.LazyFrame, found: Reading) -> pl.LazyFrame:
    """The events of the records: model calls, tool calls, and runs of agents.

    An agent's span repeats the usage of the calls below it. It is kept in the payload as reported, and never in the
    token columns, which are summed.
    """
    return _events(_named(records, found))


def _named(records: pl.LazyFrame, found: Reading) -> pl.LazyFrame:
    """The reading as columns, each computed once."""
    tokens = found.tokens
    counts = {f"_{name}": getattr(tokens, name) for name in Tokens.__dataclass_fields__}
    others = {f"_{name}": getattr(found, name) for name in Reading.__dataclass_fields__ if name != "tokens"}
    return (
        records.with_columns(**counts, **others)
        .with_columns(_includes=pl.coalesce("_includes_cache", _COUNTED.includes_cache()))
        .with_columns(
            _uncached=_COUNTED.uncached(pl.col("_includes")),
            _error=pl.when(pl.col("_failed")).then(pl.coalesce("_error", exception_type(pl.col("_failed")))),
            _duration=pl.coalesce(pl.when(pl.col("_took_ms") >= 0).then("_took_ms"), duration_ms()),
            _status=_status(),
        )
        .with_columns(_usage=_usage())
    )


_COUNTED = Tokens(*(pl.col(f"_{name}") for name in Tokens.__dataclass_fields__))
_IS_MODEL, _IS_TOOL, _IS_RUN = (pl.col("_kind") == kind for kind in ("model", "tool", "run"))
_FAILED = pl.col("_failed")
_SILENT = _IS_MODEL & ~_FAILED & ~pl.col("_answered")
"""A model was asked, and nothing of an answer is recorded."""


def _of_model(*columns: str) -> pl.Expr:
    return pl.when(_IS_MODEL).then(pl.coalesce(columns))


def _of_tool(*columns: str) -> pl.Expr:
    return pl.when(_IS_TOOL).then(pl.coalesce(columns))


def _events(named: pl.LazyFrame) -> pl.LazyFrame:
    return events_of(
        named,
        at_start=_SILENT,
        type=_type(),
        status=pl.col("_status"),
        turn_id=pl.col("_turn_id"),
        subagent_id=pl.col("_subagent_id"),
        model_request_id=_of_model("_response_id"),
        tool_call_id=_of_tool("_tool_call_id"),
        agent_name=pl.col("_agent_name"),
        provider=_of_model("_provider"),
        model=_of_model("_response_model", "_request_model"),
        tool_name=_of_tool("_tool_name"),
        duration_ms=pl.when(~_SILENT).then(pl.col("_duration")),
        uncached_input_tokens=_of_model("_uncached"),
        cache_read_tokens=_of_model("_cache_read"),
        cache_write_tokens=_of_model("_cache_write"),
        output_tokens=_of_model("_output"),
        reasoning_tokens=_of_model("_reasoning"),
        cost_usd=_of_model("_cost_usd"),
        error=pl.col("_error"),
        payload=_payload(),
    )


def _type() -> pl.Expr:
    return (
        pl.when(_SILENT)
        .then(pl.lit("model.requested"))
        .when(_IS_MODEL)
        .then(pl.when(_FAILED).then(pl.lit("model.failed")).otherwise(pl.lit("model.completed")))
        .when(_IS_TOOL)
        .then(pl.when(_FAILED).then(pl.lit("tool.failed")).otherwise(pl.lit("tool.result")))
        .when(_IS_RUN)
        .then(pl.lit("run.status"))
    )


def _status() -> pl.Expr:
    """A span that ended without a sign of an answer may have been cut off: unknown. A log may announce a request."""
    return (
        pl.when(_FAILED)
        .then(pl.lit("failed"))
        .when(_SILENT)
        .then(pl.when(pl.col("signal") == "span").then(pl.lit("unknown")).otherwise(pl.lit("running")))
        .otherwise(pl.lit("completed"))
    )


def _usage() -> pl.Expr:
    names = ("cache_read", "cache_write", "output", "reasoning", "total")
    counts = {f"{name}_tokens": pl.col(f"_{name}") for name in names}
    told = json_object({}, uncached_input_tokens=pl.col("_uncached"), **counts)
    return pl.when(said(pl.col("_input"), pl.col("_output"), pl.col("_total"))).then(told)


@cache
def _payload() -> pl.Expr:
    """The fields of the payload classes `ModelRequested`, `ModelCompleted`, `ToolResult`, `RunStatus` and so on."""
    answered_by_another = pl.col("_request_model") != pl.col("_response_model")
    return json_object(
        {
            "usage": _of_model("_usage"),
            "reported_usage": pl.when(_IS_RUN).then(pl.col("_usage")),
        },
        status=pl.col("_status"),
        operation=pl.when(~_IS_RUN).then(pl.col("_operation")),
        provider_name=_of_model("_provider"),
        model_name=_of_model("_request_model", "_response_model"),
        response_model=pl.when(_IS_MODEL & answered_by_another).then(pl.col("_response_model")),
        response_id=_of_model("_response_id"),
        stop_reason=_of_model("_stop_reason"),
        time_to_first_token_ms=_of_model("_first_token_ms"),
        input_includes_cache=pl.when(_IS_MODEL & pl.col("_input").is_not_null()).then(pl.col("_includes")),
        tool_call_id=_of_tool("_tool_call_id"),
        tool_name=_of_tool("_tool_name"),
        tool_type=_of_tool("_tool_type"),
        success=pl.when(_IS_TOOL & ~_FAILED).then(pl.lit(True)),
        phase=pl.when(_IS_RUN).then(pl.col("_operation")),
        title=pl.when(_IS_RUN).then(pl.coalesce("_agent_name", "name")),
        duration_ms=pl.when(~_SILENT).then(pl.col("_duration")),
        failure_category=pl.col("_error"),
        message=pl.when(_FAILED).then(pl.col("_message").str.head(MESSAGE_CHARS)),
        http_status=pl.when(_IS_MODEL & _FAILED).then(pl.col("_http_status")),
        attempt_index=_of_model("_attempt"),
        parent_subagent_id=pl.col("_parent_subagent_id"),
    )
