"""LiteLLM, as a library and as a proxy: the GenAI convention, with what it counts besides in texts of its own."""

from dataclasses import replace
from functools import cache

import polars as pl

from ingest.dialects import gen_ai
from ingest.dialects.calls import Reading, Tokens
from ingest.dialects.dialect import Dialect
from ingest.dialects.expressions import attribute, first
from ingest.dialects.facts import together
from ingest.dialects.limit_headers import limit_changes

USAGE = "metadata.usage_object"
"""The provider's usage as Python prints it."""

CALL = "litellm.call_id"
HIDDEN = "hidden_params"
"""What LiteLLM knows besides, as JSON; in it the headers of the provider's answer."""


class LiteLlm(Dialect, name="litellm"):
    """Every call that goes through LiteLLM. The span of the raw request below a call is the same call."""

    wants = gen_ai.WANTS | dict.fromkeys((USAGE, CALL, HIDDEN, "error.message"), pl.String)
    claims = (pl.col("scope_name") == "litellm").fill_null(False) & (pl.col("signal") == "span")

    def events(self, records: pl.LazyFrame) -> pl.LazyFrame:
        """Model calls, and the limits that their answers tell of; spans of the proxy's own work are steps of a run."""
        limited = records.filter(attribute(HIDDEN).str.contains("ratelimit", literal=True).fill_null(False))
        model = first("gen_ai.response.model", "gen_ai.request.model")
        limits = limit_changes(limited, _header, provider=first(*gen_ai.PROVIDER), model=model)
        return together([gen_ai.spoken(records, _reading()), limits])


def _header(name: str) -> pl.Expr:
    return attribute(HIDDEN).str.extract(rf'"(?:llm_provider-)?{name}":\s*"?([^",}}]+)')


def _printed(*names: str) -> pl.Expr:
    return pl.coalesce(attribute(USAGE).str.extract(rf"'{name}': (\d+)").cast(pl.Int64) for name in names)


@cache
def _reading() -> Reading:
    found = gen_ai.reading()
    told = found.tokens
    return replace(
        found,
        # The raw request below a call repeats it in the provider's names and is kept as a record only.
        kind=pl.when(first(*gen_ai.PROVIDER, *gen_ai.OPERATION, "gen_ai.request.model").is_not_null()).then(found.kind),
        tokens=Tokens(
            told.input,
            told.output,
            pl.coalesce(told.cache_read, _printed("cached_tokens", "cache_read_input_tokens")),
            pl.coalesce(told.cache_write, _printed("cache_creation_input_tokens", "cache_write_tokens")),
            pl.coalesce(told.reasoning, _printed("reasoning_tokens")),
            told.total,
        ),
        response_id=pl.coalesce(found.response_id, first(CALL)),
        message=pl.coalesce(first("error.message"), "status_message"),
    )
