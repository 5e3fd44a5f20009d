"""What was spent, entry by entry: one row per recorded cost, with running sums."""

import polars as pl

from views.fields import Shape, in_order, with_fields
from views.routing_decisions import PRICE

RECORDED, ESTIMATED = "cost.recorded", "cost.estimated"
TYPES = (RECORDED, ESTIMATED)
"""The events that the view reads."""

TOKENS = ("uncached_input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
SHAPE: Shape = {
    "provider_name": pl.String,
    "model_name": pl.String,
    "scope": pl.String,
    "source": pl.String,
    "cost_usd": pl.Float64,
    "cost_state": pl.String,
    "price": PRICE,
    "usage": pl.Struct(dict.fromkeys((*TOKENS, "cache_write_1h_tokens"), pl.Int64)),
    "maximum_usd": pl.Float64,
}
CALL = ("session_id", "turn_id", "provider_name", "model_name")


def cost_ledger(events: pl.LazyFrame) -> pl.LazyFrame:
    """One row per cost that was recorded, in order; costs of wider scopes, which contain these, are left out.

    `cost_usd` is NULL where `cost_state` is `unknown`. `price_entry` and `price_version` name the line of prices that a
    `priced` cost was computed with. `estimated_usd` and `maximum_usd` are those of the last estimate for the same model
    in the same turn before it. `session_cost_usd` sums the known costs of the session up to and with the row, and
    `session_unknown` counts those that could not be added.
    """
    told = in_order(with_fields(events, TYPES, SHAPE))
    estimate = pl.col("type") == ESTIMATED
    priced = told.with_columns(
        estimated_usd=pl.when(estimate).then("cost_usd").forward_fill().over(CALL),
        maximum_usd=pl.when(estimate).then("maximum_usd").forward_fill().over(CALL),
    )
    wider = pl.col("scope").is_in(["turn", "task", "session"]).fill_null(False)
    return (
        priced.filter((pl.col("type") == RECORDED) & ~wider)
        .with_columns(
            *(pl.col("usage").struct.field(name) for name in (*TOKENS, "cache_write_1h_tokens")),
            provider=pl.col("provider_name"),
            model=pl.col("model_name"),
            day=pl.col("timestamp").dt.date(),
            price_entry=pl.col("price").struct.field("entry"),
            price_version=pl.col("price").struct.field("table_version"),
            session_cost_usd=pl.col("cost_usd").fill_null(0.0).cum_sum().over("session_id"),
            session_unknown=pl.col("cost_usd").is_null().cast(pl.Int64).cum_sum().over("session_id"),
        )
        .sort("place")
        .select(COLUMNS)
    )


COLUMNS = (
    *("session_id", "thread_id", "turn_id", "task_id", "run_id", "model_request_id", "event_id", "timestamp"),
    *("day", "sequence", "provider", "model", "scope", "source"),
    *TOKENS,
    "cache_write_1h_tokens",
    *("cost_usd", "cost_state", "price_entry", "price_version", "estimated_usd", "maximum_usd"),
    *("session_cost_usd", "session_unknown"),
)
"""The columns of the view, in its order."""
