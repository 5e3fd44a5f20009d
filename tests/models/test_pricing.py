"""Costs equal those of the price table itself, and what it does not know stays unknown."""

from datetime import UTC, datetime

import genai_prices
import pytest

from models import values
from models.pricing import TABLE_VERSION, Priced, Usage, cost_at, match, price, rates

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def test_a_call_costs_what_the_table_says() -> None:
    usage = genai_prices.Usage(input_tokens=1300, cache_read_tokens=200, cache_write_tokens=100, output_tokens=50)
    theirs = genai_prices.calc_price(
        usage, "claude-sonnet-4-5", provider_id="anthropic", genai_request_timestamp=NOON
    ).total_price
    ours = price("anthropic", "claude-sonnet-4-5", Usage(1000, 200, 100, 50), NOON)
    assert ours == Priced(float(theirs), "anthropic/claude-sonnet-4-5", TABLE_VERSION)


def test_the_matched_entry_is_told_where_it_is_not_the_model_itself() -> None:
    found = price("openai", "gpt-5.1-codex", Usage(10), NOON)
    assert found is not None
    assert found.entry == "openai/gpt-5.1"


@pytest.mark.parametrize(
    ("provider", "model"),
    [("openai", "made-up-model"), ("ollama", "gpt-4o-mini"), (None, None), ("openai", None), ("openai", "")],
)
def test_what_the_table_does_not_know_has_no_price(provider: str | None, model: str | None) -> None:
    assert price(provider, model, Usage(10), NOON) is None


@pytest.mark.parametrize("provider", ["gcp.gemini", "gcp.gen_ai", "gcp.vertex_ai", "google"])
def test_names_of_the_convention_are_understood(provider: str) -> None:
    found = match(provider, "gemini-2.5-flash")
    assert found is not None
    assert found[0].id == "google"


def test_a_framework_in_the_place_of_a_provider_does_not_hide_the_model() -> None:
    found = match("strands-agents", "gpt-4o-mini")
    assert found is not None
    assert found[0].id == "openai"


def test_cache_writes_that_live_an_hour_cost_what_the_table_says_of_them() -> None:
    short = price("anthropic", "claude-sonnet-4-5", Usage(0, cache_write_tokens=1000), NOON)
    long = price("anthropic", "claude-sonnet-4-5", Usage(0, cache_write_tokens=1000, cache_write_1h_tokens=1000), NOON)
    assert short is not None
    assert long is not None
    assert long.cost_usd == pytest.approx(1.6 * short.cost_usd)  # twice the input price against five quarters of it


@pytest.mark.parametrize("input_tokens", [0, 1000, 200_000, 200_001, 900_000])
@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-4-7"])
def test_the_line_of_prices_gives_the_cost_of_a_call_of_that_size(model: str, input_tokens: int) -> None:
    line = rates("anthropic", model, input_tokens, NOON)
    usage = Usage(input_tokens // 2, input_tokens - input_tokens // 2, 0, 700, 20)
    whole = price("anthropic", model, usage, NOON)
    assert line is not None
    assert whole is not None
    assert line.entry == whole.entry
    assert cost_at(line, usage) == pytest.approx(whole.cost_usd)


def test_there_is_no_line_of_prices_for_a_model_that_the_table_does_not_know() -> None:
    assert rates("openai", "made-up-model", 10, NOON) is None
    assert rates("groq", "whisper-large-v3", 10, NOON) is None


def test_tokens_that_a_line_has_no_price_for_leave_the_cost_unknown() -> None:
    line = values.Price(input_usd_per_mtok=2.0, output_usd_per_mtok=8.0)
    assert cost_at(line, Usage(1_000_000, output_tokens=500_000)) == 6.0
    assert cost_at(line, Usage(1, cache_read_tokens=1)) is None


def test_a_recorded_usage_without_its_input_cannot_be_priced() -> None:
    assert Usage.of(values.Usage(output_tokens=3)) is None
    told = values.Usage(uncached_input_tokens=1, cache_write_tokens=5, cache_write_1h_tokens=9, output_tokens=2)
    assert Usage.of(told) == Usage(1, 0, 5, 2, 0, 5)
