"""Whole frames are priced as the price table prices each call, and what it does not know stays unknown."""

from datetime import UTC, datetime, timedelta
from itertools import product
from random import Random

import polars as pl
import pytest
from genai_prices import data_snapshot
from genai_prices.types import ModelPrice, TieredPrices, TimeOfDateConstraint

from ingest.pricing import costs
from models.pricing import TABLE_VERSION, USAGE, Usage, match, price

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def calls(*rows: tuple[str | None, str | None, int | None, int | None, int | None, int | None]) -> pl.DataFrame:
    names = ["provider", "model", *USAGE[:4]]
    types = {"provider": pl.String, "model": pl.String} | dict.fromkeys(USAGE[:4], pl.Int64)
    frame = pl.DataFrame(list(rows), schema={name: types[name] for name in names}, orient="row")
    return frame.with_columns(timestamp=NOON.replace(tzinfo=None), reasoning_tokens=pl.lit(None, pl.Int64))


def test_a_model_priced_by_other_things_than_tokens_is_unknown_and_not_free() -> None:
    assert match("groq", "whisper-large-v3") is not None
    assert price("groq", "whisper-large-v3", Usage(1000), NOON) is None
    assert costs(calls(("groq", "whisper-large-v3", 1000, 0, 0, 0)))["cost_usd"].to_list() == [None]


def test_a_call_without_known_input_has_no_price() -> None:
    priced = costs(calls(("openai", "gpt-4o-mini", None, 5, 0, 7), ("openai", "gpt-4o-mini", 10, None, None, None)))
    assert priced["cost_usd"].to_list() == [None, pytest.approx(10 * 0.15e-6)]
    assert priced["price_entry"].to_list() == [None, "openai/gpt-4o-mini"]
    assert priced["price_version"].to_list() == [None, TABLE_VERSION]


def test_an_empty_frame_is_priced() -> None:
    assert costs(calls()).columns == ["cost_usd", "price_entry", "price_version"]
    assert costs(calls()).is_empty()


def interesting_models() -> list[tuple[str, str]]:
    """Every sort of pricing the table has: tiers, changes by date and by hour, and plain ones."""
    sorts: dict[tuple[bool, bool, bool], list[tuple[str, str]]] = {}
    for provider in data_snapshot.get_snapshot().providers:
        for model in provider.models:
            listed = model.prices if isinstance(model.prices, list) else []
            prices = [model.prices] if isinstance(model.prices, ModelPrice) else [one.prices for one in listed]
            tiered = any(isinstance(value, TieredPrices) for one in prices for value in vars(one).values())
            hourly = any(isinstance(one.constraint, TimeOfDateConstraint) for one in listed)
            sorts.setdefault((tiered, bool(listed), hourly), []).append((provider.id, model.id))
    return [name for names in sorts.values() for name in Random(1).sample(names, min(12, len(names)))]


def test_pricing_a_frame_equals_the_table_call_by_call() -> None:
    random = Random(7)
    sizes = (0, 1, 999, 128_000, 200_000, 200_001, 1_500_000)
    names = [*product(["openai"], ["gpt-4o-mini", "nothing"]), *interesting_models()]
    rows = []
    for provider, model in names:
        for _ in range(12):
            output = random.choice(sizes)
            usage = Usage(
                random.choice(sizes), random.choice(sizes), random.choice(sizes), output, random.randint(0, output)
            )
            rows.append((provider, model, NOON - timedelta(hours=random.randint(0, 20_000)), usage))
    frame = pl.DataFrame(
        {
            "provider": [row[0] for row in rows],
            "model": [row[1] for row in rows],
            "timestamp": [row[2].replace(tzinfo=None) for row in rows],
        }
        | {name: [getattr(row[3], name) for row in rows] for name in USAGE}
    )
    together = costs(frame)["cost_usd"].to_list()
    alone = [price(*row[:2], row[3], row[2]) for row in rows]
    assert sum(cost is not None for cost in together) > len(rows) / 2
    for row, cost, found in zip(rows, together, alone, strict=True):
        assert cost == (None if found is None else pytest.approx(found.cost_usd, rel=1e-9)), row
