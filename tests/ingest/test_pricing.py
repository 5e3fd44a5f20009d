"""Whole frames are priced as the price table prices each call, and what it does not know stays unknown."""

from datetime import UTC, datetime, timedelta
from itertools import product
from random import Random

import polars as pl
import pytest
from genai_prices import data_snapshot
from genai_prices.types import ModelPrice, TieredPrices, TimeOfDateConstraint

from ingest.pricing import costs
from models.price_file import parse
from models.pricing import TABLE_VERSION, USAGE, PriceTable, Usage, match, price

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


def test_reasoning_that_a_client_counts_beside_the_output_is_paid_for_too() -> None:
    frame = calls(*[("google", "gemini-2.5-flash", 1000, 0, 0, 50)] * 2).with_columns(
        reasoning_tokens=pl.lit(20, pl.Int64), dialect=pl.Series(["gemini_cli", "gen_ai"])
    )
    whole, part = (price("google", "gemini-2.5-flash", Usage(1000, output_tokens=n), NOON) for n in (70, 50))
    assert whole is not None
    assert part is not None
    assert costs(frame)["cost_usd"].to_list() == [pytest.approx(whole.cost_usd), pytest.approx(part.cost_usd)]


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
            written = random.choice(sizes)
            usage = Usage(
                *(random.choice(sizes), random.choice(sizes), written, output),
                random.randint(0, output),
                random.randint(0, written),
            )
            rows.append((provider, model, NOON - timedelta(hours=random.randint(0, 20_000)), usage))
    frame = pl.DataFrame(
        {
            "provider": [row[0] for row in rows],
            "model": [row[1] for row in rows],
            "timestamp": [row[2].replace(tzinfo=None) for row in rows],
        }
        | {name: [getattr(row[3], name) for row in rows] for name in (*USAGE, "cache_write_1h_tokens")}
    )
    together = costs(frame)["cost_usd"].to_list()
    alone = [price(*row[:2], row[3], row[2]) for row in rows]
    assert sum(cost is not None for cost in together) > len(rows) / 2
    for row, cost, found in zip(rows, together, alone, strict=True):
        assert cost == (None if found is None else pytest.approx(found.cost_usd, rel=1e-9)), row


def test_cache_writes_that_live_an_hour_are_read_from_the_payload_and_cost_what_the_table_says() -> None:
    told = ['{"usage": {"cache_write_1h_tokens": 1000}}', '{"usage": {"cache_write_5m_tokens": 1000}}', None]
    told += ['{"usage": {"cache_write_1h_tokens": 9000}}', '{"usage": {"cache_write_1h_tokens": "many"}}']
    frame = calls(*[("anthropic", "claude-sonnet-4-5", 0, 0, 1000, 0)] * 5)
    short = price("anthropic", "claude-sonnet-4-5", Usage(0, cache_write_tokens=1000), NOON)
    long = price("anthropic", "claude-sonnet-4-5", Usage(0, cache_write_tokens=1000, cache_write_1h_tokens=1000), NOON)
    assert short is not None
    assert long is not None
    found = costs(frame.with_columns(payload=pl.Series(told, dtype=pl.String)))["cost_usd"].to_list()
    wanted = [long, short, short, long, short]  # no more than was written can live an hour
    assert found == [pytest.approx(one.cost_usd) for one in wanted]
    assert long.cost_usd > short.cost_usd


def test_models_of_the_users_own_file_are_priced_by_it_and_all_others_by_the_table() -> None:
    text = """
models:
  - model: acme-large
    prices: {input_usd_per_mtok: 2, output_usd_per_mtok: 10, cache_read_usd_per_mtok: 0.5}
  - model: gpt-4o-mini
    provider: openai
    prices: {input_usd_per_mtok: 100, output_usd_per_mtok: 200}
"""
    own = parse(text, "prices.yaml")
    table = PriceTable(data_snapshot.get_snapshot(), TABLE_VERSION, own)
    rows = [("acme", "Acme-Large"), ("openai", "gpt-4o-mini"), ("azure", "gpt-4o-mini"), ("openai", "gpt-4o")]
    found = costs(calls(*((*row, 1_000_000, 1_000_000, 0, 1_000_000) for row in rows)), table)
    assert found["cost_usd"].to_list()[:2] == [pytest.approx(12.5), pytest.approx(400)]
    entries = ["prices.yaml:acme-large", "prices.yaml:openai/gpt-4o-mini", "openai/gpt-4o-mini", "openai/gpt-4o"]
    assert [entry.replace("azure/", "openai/") for entry in found["price_entry"]] == entries
    assert found["price_version"].to_list() == [own.version] * 2 + [TABLE_VERSION] * 2
    assert own.version == f"prices.yaml sha256:{own.digest[:12]}"
    assert table.version == f"{TABLE_VERSION} + {own.version}"
