"""Whole frames of model calls, priced: a few prices per model and day, then arithmetic on columns."""

from collections.abc import Iterator
from datetime import UTC, date, datetime

import polars as pl

from models.pricing import TABLE_VERSION, USAGE, Usage, bands, price


def costs(calls: pl.DataFrame) -> pl.DataFrame:
    """Price a frame of calls: `cost_usd`, `price_entry` and `price_version`, row by row, NULL where there is no price.

    Needs `provider`, `model`, `timestamp` (UTC) and the token columns. A call is priced when its input is known;
    cache and reasoning counts that were not told count as 0.
    """
    key = ["provider", "model", "day"]
    rows = calls.select(
        "provider",
        "model",
        pl.col(USAGE),
        "timestamp",
        day=pl.col("timestamp").dt.date(),
        row=pl.int_range(pl.len(), dtype=pl.UInt32),
    )
    known = rows.filter(pl.col("uncached_input_tokens").is_not_null(), pl.col("model").is_not_null())
    prices = _band_frame(known.select(key).unique().iter_rows())
    tokens = [pl.col(name).fill_null(0) for name in USAGE]
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
        linear = linear.update(_by_the_minute(timed), on="row")
    return (
        rows.select("row")
        .join(
            linear.select("row", "cost_usd", price_entry="entry", price_version=pl.lit(TABLE_VERSION)),
            on="row",
            how="left",
            maintain_order="left",
        )
        .drop("row")
    )


def _by_the_minute(calls: pl.DataFrame) -> pl.DataFrame:
    """Entries whose price depends on the time of day are priced one by one; the table has a handful of them."""
    priced = [_cost_of(row) for row in calls.select("provider", "model", "timestamp", *USAGE).iter_rows()]
    return calls.select("row", cost_usd=pl.Series(priced, dtype=pl.Float64))


def _cost_of(
    row: tuple[str | None, str, datetime, int, int | None, int | None, int | None, int | None],
) -> float | None:
    provider, model, when, uncached, *others = row
    found = price(provider, model, Usage(uncached, *(count or 0 for count in others)), when.replace(tzinfo=UTC))
    return None if found is None else found.cost_usd


def _band_frame(keys: Iterator[tuple[str | None, str, date]]) -> pl.DataFrame:
    rows = []
    for provider, model, day in keys:
        for entry, band in bands(provider, model, day):
            limits = (None, None) if band is None else (band.above, band.up_to)
            rates = (None,) * 5 if band is None else band.rates
            rows.append((provider, model, day, entry, *limits, 0.0 if band is None else band.fee, *rates))
    schema = {"provider": pl.String, "model": pl.String, "day": pl.Date, "entry": pl.String}
    schema |= {"above": pl.Int64, "up_to": pl.Int64, "fee": pl.Float64, **{f"rate_{i}": pl.Float64 for i in range(5)}}
    return pl.DataFrame(rows, schema=schema, orient="row")
