"""Google's Agent Development Kit: the GenAI convention, plus names of its own from before it."""

from dataclasses import replace
from functools import cache

import polars as pl

from ingest.dialects import gen_ai
from ingest.dialects.calls import Reading
from ingest.dialects.dialect import Dialect
from ingest.dialects.expressions import attribute, first, one_of, sent

SCOPES = ("gcp.vertex.agent", "google.adk", "google_adk")
INVOCATION = "gcp.vertex.agent.invocation_id"
MODEL_SPANS = frozenset({"call_llm"})
RUN_SPANS = frozenset({"invocation", "agent_run", "send_data"})
MERGED = "(merged tools)"
"""Parallel tool calls are wrapped in one more tool span of this name."""

SYSTEM = "gcp.vertex.agent"
"""What older versions put where the provider belongs."""


class GoogleAdk(Dialect, name="google_adk"):
    """Agents built with ADK. One invocation is one turn."""

    wants = gen_ai.WANTS | {INVOCATION: pl.String}
    claims = (pl.col("scope_name").is_in(SCOPES).fill_null(False) & (pl.col("signal") != "metric")) | (
        (pl.col("signal") == "span") & sent(INVOCATION)
    )

    def events(self, records: pl.LazyFrame) -> pl.LazyFrame:
        """Model calls, tool calls and runs."""
        return gen_ai.spoken(records, _reading())


@cache
def _reading() -> Reading:
    found = gen_ai.reading()
    # In older versions a span's name says what it is, and a model's span has the usage of the call in it.
    word = pl.col("name").str.extract(r"^([\w.]+)")
    named = (pl.col("signal") == "span") & attribute("gen_ai.operation.name").is_null()
    kind = (
        pl.when((attribute("gen_ai.tool.name") == MERGED).fill_null(False))
        .then(pl.lit("run"))
        .when(named & one_of(word, MODEL_SPANS))
        .then(pl.lit("model"))
        .when(named & one_of(word, RUN_SPANS))
        .then(pl.lit("run"))
        .otherwise(found.kind)
    )
    provider = pl.when(found.provider != SYSTEM).then(found.provider)
    return replace(found, kind=kind, provider=provider, turn_id=first(INVOCATION))
