"""OpenLLMetry (traceloop): what it decorates, and the GenAI convention in its older names."""

from dataclasses import replace
from functools import cache

import polars as pl

from ingest.dialects import gen_ai
from ingest.dialects.calls import Reading
from ingest.dialects.dialect import Dialect
from ingest.dialects.expressions import attribute, first, sent

KIND = "traceloop.span.kind"
WORKFLOW = ("traceloop.workflow.name", "traceloop.entity.name")
FINISH = "gen_ai.completion.0.finish_reason"
RUNS = ("workflow", "task", "agent")


class Traceloop(Dialect, name="traceloop"):
    """Programs instrumented by the traceloop SDK."""

    wants = gen_ai.WANTS | dict.fromkeys((KIND, *WORKFLOW, FINISH), pl.String)
    claims = (pl.col("signal") == "span") & (
        (pl.col("scope_name") == "traceloop.tracer").fill_null(False) | sent(KIND, *WORKFLOW)
    )

    def events(self, records: pl.LazyFrame) -> pl.LazyFrame:
        """Model calls, tool calls, and runs of workflows, tasks and agents."""
        return gen_ai.spoken(records, _reading())


@cache
def _reading() -> Reading:
    found = gen_ai.reading()
    kind = attribute(KIND).str.to_lowercase()
    return replace(
        found,
        kind=pl.when(kind == "tool")
        .then(pl.lit("tool"))
        .when(kind.is_in(RUNS))
        .then(pl.lit("run"))
        .otherwise(found.kind),
        operation=pl.coalesce(found.operation, kind),
        answered=found.answered | first(FINISH).is_not_null(),
        stop_reason=pl.coalesce(found.stop_reason, first(FINISH)),
        tool_name=pl.coalesce(found.tool_name, pl.when(kind == "tool").then(first("traceloop.entity.name"))),
        agent_name=pl.coalesce(found.agent_name, pl.when(kind == "agent").then(first("traceloop.entity.name"))),
    )
