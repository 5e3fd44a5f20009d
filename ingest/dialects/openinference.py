"""Arize's OpenInference convention: spans of a declared kind, with flattened attributes."""

from functools import cache

import polars as pl

from ingest.dialects import asked
from ingest.dialects.calls import Reading, Tokens, read
from ingest.dialects.dialect import Dialect
from ingest.dialects.expressions import attribute, count, first, measure, said, sent
from ingest.dialects.facts import together

KIND = "openinference.span.kind"
EVENT_KINDS = {"LLM": "model", "EMBEDDING": "model", "TOOL": "tool"}
"""What a span of each kind is to us; all others (AGENT, CHAIN, RETRIEVER …) are steps of a run."""

PROVIDER = ("llm.provider", "llm.system", "gen_ai.provider.name", "gen_ai.system")
REQUEST_MODEL = ("llm.request.model_name", "llm.input_model_name", "llm.model_name", "embedding.model_name")
RESPONSE_MODEL = ("llm.response.model_name", "llm.output_model_name", "llm.model_name")
TOOL_CALL_ID = ("tool_call.id", "tool.id", "gen_ai.tool.call.id")
FIRST_ANSWER = "llm.output_messages.0.message.role"
STOP_REASON = ("llm.finish_reason", "gen_ai.response.finish_reasons")
TEXTS = (
    KIND,
    *PROVIDER,
    *REQUEST_MODEL,
    *RESPONSE_MODEL,
    *TOOL_CALL_ID,
    *STOP_REASON,
    FIRST_ANSWER,
    "tool.name",
    "agent.name",
    "output.value",
    "gen_ai.response.id",
    "error.type",
    "exception.type",
)
TOKEN = "llm.token_count."  # noqa: S105 - an attribute's name
INPUT, OUTPUT, TOTAL = f"{TOKEN}prompt", f"{TOKEN}completion", f"{TOKEN}total"
CACHE_READ = (f"{TOKEN}prompt_details.cache_read", f"{TOKEN}prompt_details.cache_input")
CACHE_WRITE = f"{TOKEN}prompt_details.cache_write"
REASONING = f"{TOKEN}completion_details.reasoning"
COST = "llm.cost.total"


class OpenInference(Dialect, name="openinference"):
    """Any sender whose spans declare an OpenInference kind."""

    wants = (
        asked.WANTS
        | dict.fromkeys(TEXTS, pl.String)
        | dict.fromkeys((INPUT, OUTPUT, TOTAL, *CACHE_READ, CACHE_WRITE, REASONING), pl.Int64)
        | {COST: pl.Float64}
    )
    claims = (pl.col("signal") == "span") & sent(KIND)

    def events(self, records: pl.LazyFrame) -> pl.LazyFrame:
        """Model calls, tool calls and steps of runs."""
        found = _reading()
        return together([read(records, found), asked.asked(records, found.kind == "model")])


@cache
def _reading() -> Reading:
    tokens = Tokens(count(INPUT), count(OUTPUT), count(*CACHE_READ), count(CACHE_WRITE), count(REASONING), count(TOTAL))
    kind = attribute(KIND).str.to_uppercase()
    stop_reason = first(*STOP_REASON)
    # A kind LLM alone proves no call: frameworks give it to steps that only prepare one, with status ok.
    answered = said(tokens.input, tokens.output, tokens.total, stop_reason, first(FIRST_ANSWER))
    return Reading(
        kind=kind.replace_strict(EVENT_KINDS, default="run", return_dtype=pl.String),
        operation=pl.when(kind == "LLM")
        .then(pl.lit("chat"))
        .when(kind == "EMBEDDING")
        .then(pl.lit("embeddings"))
        .otherwise(kind.str.to_lowercase()),
        answered=answered | ((kind == "EMBEDDING") & (pl.col("status") == "ok")).fill_null(False),
        failed=(pl.col("status") == "error").fill_null(False) | first("error.type").is_not_null(),
        error=first("error.type", "exception.type"),
        tokens=tokens,
        provider=first(*PROVIDER),
        request_model=first(*REQUEST_MODEL),
        response_model=first(*RESPONSE_MODEL),
        response_id=pl.coalesce(first("gen_ai.response.id"), _answer_id(kind)),
        stop_reason=stop_reason.str.extract(r"([\w.-]+)"),
        first_token_ms=pl.lit(None, pl.Float64),
        cost_usd=measure(COST),
        tool_name=pl.coalesce(first("tool.name"), "name"),
        tool_call_id=pl.coalesce(first(*TOOL_CALL_ID), _answered_call(kind)),
        tool_type=pl.lit(None, pl.String),
        agent_name=pl.coalesce(first("agent.name"), pl.when(kind == "AGENT").then(pl.col("name"))),
    )


def _answer_id(kind: pl.Expr) -> pl.Expr:
    """The provider's id of the answer: SDKs print it first when the whole answer is the span's output."""
    return pl.when(kind == "LLM").then(attribute("output.value").str.extract(r'^\{"id":\s*"([^"]+)"'))


def _answered_call(kind: pl.Expr) -> pl.Expr:
    """The call a tool answers: LangChain's tools return a message that names it, printed as the span's output."""
    printed = r"""(?s)^(?:\{"type":\s*"tool",.*?"tool_call_id":\s*"|content=.*\stool_call_id=')([^"']+)"""
    return pl.when(kind == "TOOL").then(attribute("output.value").str.extract(printed))
