"""OpenTelemetry's GenAI convention, old and new names: spans of model calls, tools and agents, and its log events."""

from functools import cache

import polars as pl

from ingest.batch import Dtype
from ingest.dialects import asked
from ingest.dialects.calls import Reading, Tokens, read
from ingest.dialects.dialect import Dialect
from ingest.dialects.expressions import attribute, count, first, measure, one_of, said, sent
from ingest.dialects.facts import together

MODEL_OPERATIONS = frozenset(
    {"chat", "generate_content", "text_completion", "completion", "embeddings", "embedding", "fetch_response"}
)
TOOL_OPERATIONS = frozenset({"execute_tool", "tool_call"})
RUN_OPERATIONS = frozenset(
    {"create_agent", "invoke_agent", "invoke_workflow", "plan", "handle_conversation_turn", "run_step", "execute_task"}
    | {"retrieval", "search_memory", "create_memory", "update_memory", "upsert_memory", "delete_memory"}
    | {"create_memory_store", "delete_memory_store"}
)
TOOL_WRAPPERS = frozenset({"(merged tools)"})
"""Google's ADK wraps parallel tool calls in one more tool span of this name."""

DETAILS = "gen_ai.client.inference.operation.details"
EXCEPTION = "gen_ai.client.operation.exception"
"""The log events that tell of a call. The deprecated ones (`gen_ai.choice`, `gen_ai.user.message` …) carry content."""

USAGE = "gen_ai.usage."
INPUT = (f"{USAGE}input_tokens", f"{USAGE}prompt_tokens", "llm.usage.prompt_tokens")
OUTPUT = (f"{USAGE}output_tokens", f"{USAGE}completion_tokens", "llm.usage.completion_tokens")
CACHE_READ = tuple(
    USAGE + name
    for name in (
        "cache_read.input_tokens",
        "cache_read_input_tokens",
        "cache_read_tokens",
        "input_tokens.cached",
        "details.cache_read_tokens",
        "details.cache_read_input_tokens",
        "details.cached_tokens",
    )
)
CACHE_WRITE = tuple(
    USAGE + name
    for name in (
        "cache_write.input_tokens",
        "cache_creation.input_tokens",
        "cache_creation_input_tokens",
        "cache_write_input_tokens",
        "cache_write_tokens",
        "input_tokens.cache_write",
        "details.cache_write_tokens",
        "details.cache_creation_input_tokens",
    )
)
REASONING = tuple(
    USAGE + name
    for name in (
        "reasoning.output_tokens",
        "reasoning_tokens",
        "reasoning_output_tokens",
        "output_tokens.reasoning",
        "details.reasoning_tokens",
    )
)
TOTAL = (f"{USAGE}total_tokens", "llm.usage.total_tokens")
COST = ("gen_ai.usage.cost", "gen_ai.cost.total_cost", "operation.cost")

PROVIDER = ("gen_ai.provider.name", "gen_ai.system")
OPERATION = ("gen_ai.operation.name", "llm.request.type")
AGENT = ("gen_ai.agent.name", "gen_ai.workflow.name")
TOOL_CALL_ID = ("gen_ai.tool.call.id", "gen_ai.tool.call_id")
TEXTS = (
    *PROVIDER,
    *OPERATION,
    *AGENT,
    *TOOL_CALL_ID,
    "gen_ai.request.model",
    "gen_ai.response.model",
    "gen_ai.response.id",
    "gen_ai.response.finish_reasons",
    "gen_ai.tool.name",
    "gen_ai.tool.type",
    "gen_ai.tool.status",
    "error.type",
    "exception.type",
)
COUNTS = (*INPUT, *OUTPUT, *CACHE_READ, *CACHE_WRITE, *REASONING, *TOTAL)
MARKS = (
    *PROVIDER,
    *AGENT,
    *INPUT,
    *OUTPUT,
    "gen_ai.operation.name",
    "gen_ai.request.model",
    "gen_ai.response.model",
    "gen_ai.tool.name",
)
"""A span with one of these speaks this dialect."""

FIRST_CHUNK_S = "gen_ai.response.time_to_first_chunk"
FIRST_TOKEN_MS = "gen_ai.server.time_to_first_token"  # noqa: S105 - an attribute's name
"""As a metric in seconds; on spans only Strands sends it, in milliseconds."""


WANTS: dict[str, Dtype] = (
    asked.WANTS
    | dict.fromkeys(TEXTS, pl.String)
    | dict.fromkeys(COUNTS, pl.Int64)
    | dict.fromkeys((*COST, FIRST_CHUNK_S, FIRST_TOKEN_MS), pl.Float64)
)


class GenAi(Dialect, name="gen_ai"):
    """Any sender that follows the GenAI convention, whatever version of it."""

    wants = WANTS
    claims = ((pl.col("signal") == "log") & pl.col("name").str.starts_with("gen_ai.").fill_null(False)) | (
        (pl.col("signal") == "span") & sent(*MARKS)
    )

    def events(self, records: pl.LazyFrame) -> pl.LazyFrame:
        """Model calls, tool calls and agent runs."""
        return spoken(records, reading())


def spoken(records: pl.LazyFrame, found: Reading) -> pl.LazyFrame:
    """The events of records in this convention: what the reading finds, and the tools that answers ask for."""
    return together([read(records, found), asked.asked(records, found.kind == "model")])


@cache
def reading() -> Reading:
    """What the convention's attributes say, for every sender that uses them."""
    tokens = Tokens(
        count(*INPUT), count(*OUTPUT), count(*CACHE_READ), count(*CACHE_WRITE), count(*REASONING), count(*TOTAL)
    )
    is_exception = (pl.col("name") == EXCEPTION) & (pl.col("signal") == "log")
    finish_reasons = attribute("gen_ai.response.finish_reasons")
    error = first("error.type", "exception.type")
    return Reading(
        kind=_kind(tokens),
        operation=first(*OPERATION),
        answered=(pl.col("status") == "ok").fill_null(False)
        | said(tokens.input, tokens.output, finish_reasons, first("gen_ai.response.id", "gen_ai.response.model")),
        failed=(pl.col("status") == "error").fill_null(False)
        | first("error.type").is_not_null()
        | is_exception
        | (attribute("gen_ai.tool.status") == "error").fill_null(False),
        error=error,
        tokens=tokens,
        provider=first(*PROVIDER),
        request_model=first("gen_ai.request.model"),
        response_model=first("gen_ai.response.model"),
        response_id=first("gen_ai.response.id"),
        # an array as JSON, or one word: the first word either way
        stop_reason=finish_reasons.str.extract(r"([\w.-]+)"),
        first_token_ms=pl.coalesce(measure(FIRST_CHUNK_S) * 1000, measure(FIRST_TOKEN_MS)),
        cost_usd=measure(*COST),
        tool_name=first("gen_ai.tool.name"),
        tool_call_id=first(*TOOL_CALL_ID),
        tool_type=first("gen_ai.tool.type"),
        agent_name=first(*AGENT),
    )


def _kind(tokens: Tokens) -> pl.Expr:
    """What a record is about: by its operation, else by what else it carries.

    A record without an operation is a model call if it has usage or a model. One with an operation of the sender's
    own is a model call only if it has both, since agents' spans repeat the usage of the calls below them.
    """
    operation, tool = attribute("gen_ai.operation.name"), first("gen_ai.tool.name")
    used = said(tokens.input, tokens.output)
    model = said(first("gen_ai.request.model", "gen_ai.response.model"))
    by_log = pl.when(one_of(pl.col("name"), frozenset({DETAILS, EXCEPTION}))).then(pl.lit("model"))
    by_span = (
        pl.when(one_of(operation, MODEL_OPERATIONS))
        .then(pl.lit("model"))
        .when(one_of(operation, RUN_OPERATIONS) | one_of(tool, TOOL_WRAPPERS))
        .then(pl.lit("run"))
        .when(one_of(operation, TOOL_OPERATIONS) | tool.is_not_null())
        .then(pl.lit("tool"))
        .when(pl.when(operation.is_null()).then(used | model).otherwise(used & model))
        .then(pl.lit("model"))
        .otherwise(pl.lit("run"))
    )
    return pl.when(pl.col("signal") == "log").then(by_log).otherwise(by_span)
