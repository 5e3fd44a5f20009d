"""Whole frames of model calls, priced: a few prices per model and day, then arithmetic on columns."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any

import polars as pl

from models.pricing import USAGE, PriceTable, Usage, installed

LONG_LIVED = "cache_write_1h_tokens"
CLASSES = (*USAGE, LONG_LIVED)
REASONING_BESIDE = frozenset({"gemini_cli", "transcript_gemini"})
"""Dialects of clients that count reasoning beside the output, not as a part of it. It is paid for all the same."""


def costs(calls: pl.DataFrame, table: PriceTable | None = None) -> pl.DataFrame:
    """Price a frame of calls: `cost_usd`, `price_entry` and `price_version`, row by row, NULL where there is no price.

    Needs `provider`, `model`, `timestamp` (UTC) and the token columns; which cache writes live an hour is taken from
    `cache_write_1h_tokens`, else from the `payload`, if there is one; whether reasoning is part of the output from the
    `dialect`. A call is priced when its input is known; cache
    and reasoning counts that were not told count as 0. Without a table, the installed one is taken.
    """
    key = ["provider", "model", "day"]
    rows = calls.select(
        "provider",
        "model",
        pl.col(USAGE).exclude("output_tokens"),
        _whole_output(calls),
        long_lived(calls),
        "timestamp",
        day=pl.col("timestamp").dt.date(),
        row=pl.int_range(pl.len(), dtype=pl.UInt32),
    )
    table = table or installed()
    known = rows.filter(pl.col("uncached_input_tokens").is_not_null(), pl.col("model").is_not_null())
    prices = _band_frame(known.select(key).unique().iter_rows(), table)
    # Most batches tell of no hour in the cache; then there is nothing to multiply.
    classes = USAGE if known[LONG_LIVED].null_count() == known.height else CLASSES
    tokens = [pl.col(name).fill_null(0) for name in classes]
    total = tokens[0] + tokens[1] + tokens[2]
    linear = (
        known.join(prices, on=key, how="inner", nulls_equal=True)
        .filter(pl.col("above").is_null() | ((total > pl.col("above")) & (total <= pl.col("up_to"))))
        .with_columns(
            cost_usd=pl.sum_horizontal(pl.col("fee"), *(t * pl.col(f"rate_{i}") for i, t in enumerate(tokens)))
        )
    )
    timed = linear.filter(pl.col("above").is_null())
    if not timed.is_empty():
        linear = linear.update(_by_the_minute(timed, table), on="row")
    return (
        rows.select("row")
        .join(
            linear.select("row", "cost_usd", price_entry="entry", price_version="version"),
            on="row",
            how="left",
            maintain_order="left",
        )
        .drop("row")
    )


def _whole_output(calls: pl.DataFrame) -> pl.Expr:
    told = pl.col("output_tokens")
    if "dialect" not in calls.columns:
        return told
    beside = pl.col("dialect").is_in(REASONING_BESIDE)
    return pl.when(beside).then(told + pl.col("reasoning_tokens").fill_null(0)).otherwise(told).alias("output_tokens")


def long_lived(calls: pl.DataFrame) -> pl.Series:
    """Of each call's cache writes, those that live an hour; payloads are looked at only where something was written."""
    if LONG_LIVED in calls.columns:
        return calls[LONG_LIVED]
    nothing = pl.repeat(None, calls.height, dtype=pl.Int64, eager=True).alias(LONG_LIVED)
    written = calls["cache_write_tokens"]
    if "payload" not in calls.columns or not (written > 0).any():
        return nothing
    told = calls["payload"].set(~(written > 0).fill_null(False), None)
    if not told.str.contains(LONG_LIVED, literal=True).any():
        return nothing
    counts = told.str.json_path_match(f"$.usage.{LONG_LIVED}").cast(pl.Int64, strict=False).fill_null(0)
    return calls.select(pl.min_horizontal(counts.clip(0), "cache_write_tokens").alias(LONG_LIVED)).to_series()


def _by_the_minute(calls: pl.DataFrame, table: PriceTable) -> pl.DataFrame:
    """Entries whose price depends on the time of day are priced one by one; the table has a handful of them."""
    priced = [_cost_of(row, table) for row in calls.select("provider", "model", "timestamp", *CLASSES).iter_rows()]
    return calls.select("row", cost_usd=pl.Series(priced, dtype=pl.Float64))


def _cost_of(row: tuple[Any, ...], table: PriceTable) -> float | None:
    provider, model, when, uncached, *others = row
    moment: datetime = when.replace(tzinfo=UTC)
    found = table.price(provider, model, Usage(uncached, *(count or 0 for count in others)), moment)
    return None if found is None else found.cost_usd


def _band_frame(keys: Iterator[tuple[str | None, str, date]], table: PriceTable) -> pl.DataFrame:
    rows = []
    for provider, model, day in keys:
        for found, band in table.bands(provider, model, day):
            limits = (None, None) if band is None else (band.above, band.up_to)
            rates = (None,) * len(CLASSES) if band is None else band.rates
            fee = 0.0 if band is None else band.fee
            rows.append((provider, model, day, found.entry, found.version, *limits, fee, *rates))
    schema = {"provider": pl.String, "model": pl.String, "day": pl.Date, "entry": pl.String, "version": pl.String}
    schema |= {"above": pl.Int64, "up_to": pl.Int64, "fee": pl.Float64}
    schema |= {f"rate_{i}": pl.Float64 for i in range(len(CLASSES))}
    return pl.DataFrame(rows, schema=schema, orient="row")
