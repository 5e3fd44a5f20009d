"""What a model call costs by the genai-prices table: its own match, its own arithmetic, never a guess of ours."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import lru_cache

import genai_prices
import polars as pl
from genai_prices import data_snapshot
from genai_prices.types import ModelInfo, ModelPrice, Provider, TieredPrices, TimeOfDateConstraint

TABLE_VERSION = f"genai-prices {genai_prices.__version__}"
"""Kept on each cost. The table is the one in the installed package: nothing is fetched, so a rebuild prices alike."""

OTHER_SPELLINGS = {"gcp.gen_ai": "google", "x_ai": "x-ai", "az.ai.inference": "azure", "azure.ai.inference": "azure"}
"""Names of the OTel convention that the table spells otherwise."""

FRAMEWORKS = frozenset(
    {"strands-agents", "microsoft.agent_framework", "langchain", "langgraph", "crewai", "llama_index"}
)
"""Names that frameworks put where the provider belongs; they say nothing about who was paid."""

TOKEN_PRICES = ("input_mtok", "output_mtok", "input_text_mtok", "output_text_mtok")
"""Without any of these an entry prices hours, pages or characters: tokens cannot be priced by it."""

USAGE = ("uncached_input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call: the first four do not overlap; reasoning is part of the output."""

    uncached_input_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def input_tokens(self) -> int:
        """All of the input, as the table counts it: cached parts included."""
        return self.uncached_input_tokens + self.cache_read_tokens + self.cache_write_tokens

    def as_table_counts(self) -> genai_prices.Usage:
        """The same in the names of the table, whose input and output include their parts."""
        return genai_prices.Usage(
            input_tokens=self.input_tokens,
            cache_read_tokens=self.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens,
            output_tokens=self.output_tokens,
            output_reasoning_tokens=min(self.reasoning_tokens, self.output_tokens),
        )


@dataclass(frozen=True, slots=True)
class Priced:
    """A cost, the entry that was matched (`provider/model` of the table) and the table's version."""

    cost_usd: float
    entry: str
    version: str


@dataclass(frozen=True, slots=True)
class Band:
    """Prices of one entry while the input is above `above` and up to `up_to` tokens; a cost is linear within it."""

    above: int
    up_to: int
    fee: float
    rates: tuple[float, float, float, float, float]


NO_LIMIT = 2**62


def price(provider: str | None, model: str | None, usage: Usage, when: datetime) -> Priced | None:
    """The cost of one call at that moment, or None where the table has no match."""
    found = match(provider, model)
    if found is None:
        return None
    prices = found[1].get_prices(when)
    if not _prices_tokens(prices):
        return None
    return Priced(float(prices.calc_price(usage.as_table_counts())["total_price"]), entry_id(*found), TABLE_VERSION)


@lru_cache(maxsize=4096)
def match(provider: str | None, model: str | None) -> tuple[Provider, ModelInfo] | None:
    """The table's entry for a model, found by the table's own rules; without a provider it matches the model alone."""
    if not model:
        return None
    named = None if provider is None or provider in FRAMEWORKS else OTHER_SPELLINGS.get(provider, provider)
    try:
        return data_snapshot.get_snapshot().find_provider_model(model, None, named or None, None)
    except LookupError:
        return None


def entry_id(provider: Provider, model: ModelInfo) -> str:
    """The name of an entry, as kept beside a cost."""
    return f"{provider.id}/{model.id}"


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
    bands = _band_frame(known.select(key).unique().iter_rows())
    tokens = [pl.col(name).fill_null(0) for name in USAGE]
    total = tokens[0] + tokens[1] + tokens[2]
    linear = (
        known.join(bands, on=key, how="inner", nulls_equal=True)
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
        for entry, band in _bands(provider, model, day):
            limits = (None, None) if band is None else (band.above, band.up_to)
            rates = (None,) * 5 if band is None else band.rates
            rows.append((provider, model, day, entry, *limits, 0.0 if band is None else band.fee, *rates))
    schema = {"provider": pl.String, "model": pl.String, "day": pl.Date, "entry": pl.String}
    schema |= {"above": pl.Int64, "up_to": pl.Int64, "fee": pl.Float64, **{f"rate_{i}": pl.Float64 for i in range(5)}}
    return pl.DataFrame(rows, schema=schema, orient="row")


@lru_cache(maxsize=8192)
def _bands(provider: str | None, model: str, day: date) -> tuple[tuple[str, Band | None], ...]:
    """The price bands of a model on a day; a None stands for prices that change within the day."""
    found = match(provider, model)
    if found is None:
        return ()
    info = found[1]
    prices = info.get_prices(datetime.combine(day, time(), UTC))
    if isinstance(info.prices, list) and any(isinstance(p.constraint, TimeOfDateConstraint) for p in info.prices):
        return ((entry_id(*found), None),)
    if not _prices_tokens(prices):
        return ()
    return tuple((entry_id(*found), band) for band in _linear_bands(prices))


def _prices_tokens(prices: ModelPrice) -> bool:
    return any(getattr(prices, key) is not None for key in TOKEN_PRICES)


def _linear_bands(prices: ModelPrice) -> Iterator[Band]:
    """Ask the table for the price of single tokens within each band, instead of knowing its rules."""
    tiered = [value for value in vars(prices).values() if isinstance(value, TieredPrices)]
    starts = [-1, *sorted({tier.start for value in tiered for tier in value.tiers})]
    for above, up_to in zip(starts, [*starts[1:], NO_LIMIT], strict=True):
        fee = _total(prices, Usage(0))
        size = max(above + 1, 1)
        whole = _total(prices, Usage(size))
        rates = (
            (whole - fee) / size,
            (_total(prices, Usage(0, cache_read_tokens=size)) - fee) / size,
            (_total(prices, Usage(0, cache_write_tokens=size)) - fee) / size,
            _total(prices, Usage(size, output_tokens=1)) - whole,
            _total(prices, Usage(size, output_tokens=1, reasoning_tokens=1))
            - _total(prices, Usage(size, output_tokens=1)),
        )
        first, *rest = (float(rate) for rate in rates)
        yield Band(above, up_to, float(fee), (first, rest[0], rest[1], rest[2], rest[3]))


def _total(prices: ModelPrice, usage: Usage) -> Decimal:
    return prices.calc_price(usage.as_table_counts())["total_price"]
