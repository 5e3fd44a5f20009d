"""Microsoft's Agent Framework, Semantic Kernel and Extensions.AI: the GenAI convention, plus older names."""

from dataclasses import replace
from functools import cache

import polars as pl

from ingest.dialects import gen_ai
from ingest.dialects.calls import Reading, Tokens
from ingest.dialects.dialect import Dialect
from ingest.dialects.expressions import attribute, count, first, said

SCOPES = (
    r"^(agent_framework|semantic_kernel"
    r"|(Experimental\.)?Microsoft\.(SemanticKernel|Agents\.AI|Extensions\.AI|AgentFramework))"
)
NOT_PROVIDERS = ("microsoft.agent_framework", "microsoft.agents.ai", "semantic_kernel")
INPUT, OUTPUT = "gen_ai.response.prompt_tokens", "gen_ai.response.completion_tokens"
STOP_REASON = "gen_ai.response.finish_reason"
WORKFLOW = ("workflow.name", "workflow.id", "executor.id")


class AgentFramework(Dialect, name="agent_framework"):
    """Agents and workflows of Microsoft's frameworks, in Python and in .NET."""

    wants = gen_ai.WANTS | dict.fromkeys((INPUT, OUTPUT), pl.Int64) | dict.fromkeys((STOP_REASON, *WORKFLOW), pl.String)
    claims = (pl.col("scope_name").str.contains(SCOPES).fill_null(False)) & (pl.col("signal") != "metric")

    def events(self, records: pl.LazyFrame) -> pl.LazyFrame:
        """Model calls, tool calls, runs of agents and steps of workflows."""
        return gen_ai.spoken(records, _reading())


@cache
def _reading() -> Reading:
    found = gen_ai.reading()
    told = found.tokens
    older = said(count(INPUT), count(OUTPUT))
    provider = pl.when(~found.provider.is_in(NOT_PROVIDERS)).then(found.provider)
    return replace(
        found,
        kind=pl.when(older & attribute("gen_ai.operation.name").is_null()).then(pl.lit("model")).otherwise(found.kind),
        answered=found.answered | older,
        tokens=Tokens(
            pl.coalesce(told.input, count(INPUT)),
            pl.coalesce(told.output, count(OUTPUT)),
            told.cache_read,
            told.cache_write,
            told.reasoning,
            told.total,
        ),
        provider=provider,
        stop_reason=pl.coalesce(found.stop_reason, first(STOP_REASON)),
        agent_name=pl.coalesce(found.agent_name, first(*WORKFLOW)),
    )
