"""The tries at tasks: one row per run, how it began, how it ended, and what it used."""

import polars as pl

from views.cost_ledger import cost_ledger
from views.fields import Shape, in_order, with_fields

ENDS = {
    "task.attempt.completed": "completed",
    "task.attempt.failed": "failed",
    "task.cancelled": "cancelled",
    "task.timed_out": "timed_out",
    "task.lost": "lost",
}
BEGINS = ("task.attempt.started", "task.started")
TYPES = (*BEGINS, *ENDS, "cost.recorded", "cost.estimated")
"""The events that the view reads."""

SHAPE: Shape = {
    "attempt_index": pl.Int64,
    "cause": pl.String,
    "status": pl.String,
    "failure_category": pl.String,
    "message": pl.String,
    "reason": pl.String,
    "retryable": pl.Boolean,
    "duration_ms": pl.Float64,
    "next_attempt_policy": pl.String,
    "worker": pl.Struct({"worker_id": pl.String}),
}
RUN = ("session_id", "task_id", "run_id")


def attempts(events: pl.LazyFrame) -> pl.LazyFrame:
    """One row per try at a task, in order of task and try.

    `status` is how it ended: `completed`, `failed`, `cancelled`, `timed_out` or `lost`; while no end is recorded, the
    last status that was told, else `unknown`. `model_calls`, `output_tokens` and `cost_usd` are what costs recorded
    under this run add up to; `costs_unknown` counts those without an amount.
    """
    named = pl.coalesce("run_id", "attempt_id")
    told = in_order(with_fields(events, (*BEGINS, *ENDS), SHAPE)).with_columns(
        run_id=named, worker_id=pl.col("worker").struct.field("worker_id")
    )
    ended = pl.col("type").is_in(list(ENDS))
    began = pl.col("type").is_in(BEGINS)
    runs = (
        told.filter(pl.col("run_id").is_not_null())
        .group_by(RUN)
        .agg(
            pl.col("attempt_id", "attempt_index", "cause", "worker_id").drop_nulls().first(),
            pl.col("thread_id", "turn_id").drop_nulls().first(),
            pl.col("place").min(),
            started=pl.col("timestamp").filter(began).min(),
            ended=pl.col("timestamp").filter(ended).first(),
            duration_ms=pl.col("duration_ms").filter(ended).first(),
            end=pl.col("type").filter(ended).first(),
            last=pl.col("status").drop_nulls().last(),
            failure_category=pl.col("failure_category").filter(ended).first(),
            message=pl.coalesce("message", "reason").filter(ended).first(),
            retryable=pl.col("retryable").filter(ended).first(),
            next_attempt_policy=pl.col("next_attempt_policy").filter(ended).first(),
        )
    )
    return (
        runs.join(_used(events), on=RUN, how="left", nulls_equal=True)
        .with_columns(
            pl.col("model_calls", "costs_unknown").fill_null(0),
            status=pl.coalesce(pl.col("end").replace_strict(ENDS, default=None), "last", pl.lit("unknown")),
        )
        .sort("session_id", "task_id", "attempt_index", "place", nulls_last=True)
        .select(COLUMNS)
    )


def _used(events: pl.LazyFrame) -> pl.LazyFrame:
    known = pl.col("cost_usd").is_not_null()
    return (
        cost_ledger(events.filter(pl.col("run_id").is_not_null()))
        .group_by(RUN)
        .agg(
            model_calls=pl.len().cast(pl.Int64),
            output_tokens=pl.col("output_tokens").sum(),
            cost_usd=pl.when(known.any()).then(pl.col("cost_usd").sum()),
            costs_unknown=(~known).sum().cast(pl.Int64),
        )
    )


COLUMNS = (
    *("session_id", "thread_id", "turn_id", "task_id", "run_id", "attempt_id", "attempt_index", "cause", "worker_id"),
    *("status", "started", "ended", "duration_ms", "failure_category", "message", "retryable", "next_attempt_policy"),
    *("model_calls", "output_tokens", "cost_usd", "costs_unknown"),
)
"""The columns of the view, in its order."""
