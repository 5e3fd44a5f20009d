"""What tokens cost by a price table: its own match, its own arithmetic, never a guess of ours."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import cache, lru_cache
from typing import Self

import genai_prices
from genai_prices import data_snapshot
from genai_prices.types import ModelInfo, ModelPrice, Provider, TieredPrices, TimeOfDateConstraint

from models import values
from models.price_file import OwnPrices

TABLE_VERSION = f"genai-prices {genai_prices.__version__}"
"""Of the table in the installed package: nothing is fetched, so the same program prices alike."""

OTHER_SPELLINGS = {"gcp.gen_ai": "google", "x_ai": "x-ai", "az.ai.inference": "azure", "azure.ai.inference": "azure"}
"""Names of the OTel convention that the table spells otherwise."""

FRAMEWORKS = frozenset(
    {"strands-agents", "microsoft.agent_framework", "langchain", "langgraph", "crewai", "llama_index"}
)
"""Names that frameworks put where the provider belongs; they say nothing about who was paid."""

TOKEN_PRICES = ("input_mtok", "output_mtok", "input_text_mtok", "output_text_mtok")
"""Without any of these an entry prices hours, pages or characters: tokens cannot be priced by it."""

CACHED_MATCHES = 8192

USAGE = ("uncached_input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call: the first four do not overlap; reasoning is part of the output."""

    uncached_input_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cache_write_1h_tokens: int = 0
    """The part of the cache writes that lives one hour and may be dearer; most sources do not tell it apart."""

    @classmethod
    def of(cls, told: values.Usage) -> Self | None:
        """The tokens of a recorded call; None if its input is not known, for then it cannot be priced."""
        if told.uncached_input_tokens is None:
            return None
        return cls(
            told.uncached_input_tokens,
            told.cache_read_tokens or 0,
            told.cache_write_tokens or 0,
            told.output_tokens or 0,
            told.reasoning_tokens or 0,
            min(told.cache_write_1h_tokens or 0, told.cache_write_tokens or 0),
        )

    @property
    def input_tokens(self) -> int:
        """All of the input, as the table counts it: cached parts included."""
        return self.uncached_input_tokens + self.cache_read_tokens + self.cache_write_tokens

    def as_table_counts(self) -> genai_prices.Usage:
        """The same in the names of the table, whose input and output include their parts."""
        long_lived = {"cache_write_1h_tokens": self.cache_write_1h_tokens} if self.cache_write_1h_tokens else {}
        return genai_prices.Usage(
            input_tokens=self.input_tokens,
            cache_read_tokens=self.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens,
            output_tokens=self.output_tokens,
            output_reasoning_tokens=min(self.reasoning_tokens, self.output_tokens),
            **long_lived,
        )


@dataclass(frozen=True, slots=True)
class Priced:
    """A cost, the entry that was matched (`provider/model` of the table, or of the user's file) and its version."""

    cost_usd: float
    entry: str
    version: str


@dataclass(frozen=True, slots=True)
class Match:
    """The entry that a table has for a model: its name, the version of the table or file it is in, and its prices."""

    entry: str
    version: str
    info: ModelInfo


@dataclass(frozen=True, slots=True)
class Band:
    """Prices of one entry while the input is above `above` and up to `up_to` tokens; a cost is linear within it."""

    above: int
    up_to: int
    fee: float
    rates: tuple[float, ...]
    """Per token of each class in `USAGE`, and what an hour in the cache adds to a write."""


NO_LIMIT = 2**62


class PriceTable:
    """Prices to go by: a table of genai-prices, and before it the user's own file, if there is one."""

    def __init__(self, base: data_snapshot.DataSnapshot, base_version: str, own: OwnPrices | None = None) -> None:
        self._base = base
        self._base_version = base_version
        self._own = own
        self.version = base_version if own is None else f"{base_version} + {own.version}"
        """Which table and file these are; equal versions price alike."""

        self.match = lru_cache(maxsize=CACHED_MATCHES)(self._match)
        self.bands = lru_cache(maxsize=CACHED_MATCHES)(self._bands)

    def price(self, provider: str | None, model: str | None, usage: Usage, when: datetime) -> Priced | None:
        """The cost of one call at that moment, or None where the table has no match."""
        found = self.match(provider, model, when.astimezone(UTC).date())
        if found is None:
            return None
        prices = found.info.get_prices(when)
        if not _prices_tokens(prices):
            return None
        total = prices.calc_price(usage.as_table_counts())["total_price"]
        return Priced(float(total), found.entry, found.version)

    def rates(self, provider: str | None, model: str | None, input_tokens: int, when: datetime) -> values.Price | None:
        """The line of the table for a call of that size at that moment, per million tokens, or None without a match."""
        found = self.match(provider, model, when.astimezone(UTC).date())
        if found is None:
            return None
        prices = found.info.get_prices(when)
        if not _prices_tokens(prices):
            return None
        band = next(band for band in _linear_bands(prices) if band.above < input_tokens <= band.up_to)
        uncached, cache_read, cache_write, output = (round(rate * 1_000_000, 9) for rate in band.rates[:4])
        return values.Price(
            table_version=found.version,
            entry=found.entry,
            input_usd_per_mtok=uncached,
            cache_read_usd_per_mtok=cache_read,
            cache_write_usd_per_mtok=cache_write,
            output_usd_per_mtok=output,
        )

    def _match(self, provider: str | None, model: str | None, day: date) -> Match | None:
        """The entry for a model: the user's own, else the table's, found by the table's own rules."""
        if self._own is not None and model:
            known = named(provider)
            own = self._own.find(frozenset((known, str(provider).lower()) if known else ()), model, day)
            if own is not None:
                return Match(self._own.entry_id(own), self._own.version, own.info)
        found = find(self._base, provider, model)
        return None if found is None else Match(entry_id(*found), self._base_version, found[1])

    def _bands(self, provider: str | None, model: str, day: date) -> tuple[tuple[Match, Band | None], ...]:
        """The price bands of a model on a day; a None stands for prices that change within the day."""
        found = self.match(provider, model, day)
        if found is None:
            return ()
        dated = found.info.prices
        if isinstance(dated, list) and any(isinstance(p.constraint, TimeOfDateConstraint) for p in dated):
            return ((found, None),)
        prices = found.info.get_prices(datetime.combine(day, time(), UTC))
        if not _prices_tokens(prices):
            return ()
        return tuple((found, band) for band in _linear_bands(prices))


@cache
def installed() -> PriceTable:
    """The table of the installed package, alone."""
    return PriceTable(data_snapshot.get_snapshot(), TABLE_VERSION)


def price(provider: str | None, model: str | None, usage: Usage, when: datetime) -> Priced | None:
    """The cost of one call at that moment by the installed table, or None where it has no match."""
    return installed().price(provider, model, usage, when)


def rates(provider: str | None, model: str | None, input_tokens: int, when: datetime) -> values.Price | None:
    """The line of the installed table for a call of that size at that moment, or None without a match."""
    return installed().rates(provider, model, input_tokens, when)


def cost_at(line: values.Price, usage: Usage) -> float | None:
    """The cost by one line of prices; None where tokens were used that the line has no price for."""
    counted = (
        (usage.uncached_input_tokens, line.input_usd_per_mtok),
        (usage.cache_read_tokens, line.cache_read_usd_per_mtok),
        (usage.cache_write_tokens, line.cache_write_usd_per_mtok),
        (usage.output_tokens, line.output_usd_per_mtok),
    )
    if any(tokens and rate is None for tokens, rate in counted):
        return None
    return sum(tokens * (rate or 0.0) for tokens, rate in counted) / 1_000_000


@lru_cache(maxsize=4096)
def match(provider: str | None, model: str | None) -> tuple[Provider, ModelInfo] | None:
    """The installed table's entry for a model."""
    return find(data_snapshot.get_snapshot(), provider, model)


def find(
    table: data_snapshot.DataSnapshot, provider: str | None, model: str | None
) -> tuple[Provider, ModelInfo] | None:
    """A table's entry for a model, found by the table's own rules; without a provider it matches the model alone."""
    if not model:
        return None
    try:
        return table.find_provider_model(model, None, named(provider), None)
    except LookupError:
        return None


def named(provider: str | None) -> str | None:
    """A provider as the table spells it; None where nobody, or only a framework, is named."""
    if not provider or provider in FRAMEWORKS:
        return None
    return OTHER_SPELLINGS.get(provider, provider).lower()


def entry_id(provider: Provider, model: ModelInfo) -> str:
    """The name of an entry, as kept beside a cost."""
    return f"{provider.id}/{model.id}"


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
            (
                _total(prices, Usage(0, cache_write_tokens=size, cache_write_1h_tokens=size))
                - _total(prices, Usage(0, cache_write_tokens=size))
            )
            / size,
        )
        yield Band(above, up_to, float(fee), tuple(float(rate) for rate in rates))


def _total(prices: ModelPrice, usage: Usage) -> Decimal:
    return prices.calc_price(usage.as_table_counts())["total_price"]
