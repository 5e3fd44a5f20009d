"""The timeline of one session: its events in the order they happened."""

import polars as pl

ORDER = ("carried_sequence", "unnumbered", "time_ns", "event_id")


def timeline(events: pl.LazyFrame) -> pl.LazyFrame:
    """One row per event, in order, with what to draw: start, duration, label, kind, status.

    Takes `session_events` of one session and gives the rows of the relation `timeline` for it. The order is the
    session's own sequence, else time, else event id; an event without a sequence in a session that has one comes after
    the last numbered event that is not later.
    """
    kind = pl.col("type").str.split(".").list.first()
    clocked = events.with_columns(
        time_ns=pl.coalesce("time_ns", pl.col("timestamp").dt.epoch("us").cast(pl.UInt64) * 1000),
        kind=kind,
        label=_label(kind),
        started=_started(),
    ).sort("time_ns", "event_id")
    carried = clocked.with_columns(
        carried_sequence=pl.coalesce("sequence", pl.col("sequence").cum_max().forward_fill(), pl.lit(-1)),
        unnumbered=pl.col("sequence").is_null(),
    )
    return carried.sort(ORDER).with_columns(place=pl.int_range(1, pl.len() + 1, dtype=pl.Int64)).select(COLUMNS)


def _label(kind: pl.Expr) -> pl.Expr:
    return (
        pl.when(kind == "model")
        .then(pl.coalesce("model", "type"))
        .when(kind == "tool")
        .then(pl.coalesce("tool_name", "type"))
        .when(kind == "subagent")
        .then(pl.coalesce("agent_name", "subagent_id", "type"))
        .otherwise("type")
    )


def _started() -> pl.Expr:
    """The fact's time less the duration; an absurd duration counts as none."""
    lasted = pl.when(pl.col("duration_ms").is_between(0, 1e12)).then(pl.col("duration_ms"))
    # Half microseconds are rounded to even, as the database does.
    micros = (lasted * 1000).round(mode="half_to_even").cast(pl.Int64).fill_null(0)
    return pl.col("timestamp").dt.cast_time_unit("us") - pl.duration(microseconds=micros, time_unit="us")


COLUMNS = (
    "session_id",
    "place",
    "event_id",
    "type",
    "kind",
    "label",
    "status",
    "started",
    "timestamp",
    "duration_ms",
    "sequence",
    "time_ns",
    "turn_id",
    "task_id",
    "agent_name",
    "subagent_id",
    "model",
    "tool_name",
    "uncached_input_tokens",
    "cache_read_tokens",
    "cache_write_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cost_usd",
    "cost_state",
    "error",
    "trace_id",
    "span_id",
    "parent_span_id",
    "record_id",
)
"""The columns of the relation `timeline`, in its order."""
