"""A price file of the user's own: what it may say, what it means, and what is said about its mistakes."""

import json
from datetime import UTC, date, datetime

import pytest
from genai_prices import data_snapshot

from models.errors import MalformedInput
from models.price_file import parse
from models.pricing import TABLE_VERSION, PriceTable, Usage

PLAIN = "    prices: {input_usd_per_mtok: 2, output_usd_per_mtok: 8}\n"
MIO = 1_000_000


def cost(text: str, model: str, usage: Usage, *, provider: str | None = None, when: str = "2026-06-01") -> float | None:
    table = PriceTable(data_snapshot.get_snapshot(), TABLE_VERSION, parse(text, "prices.yaml"))
    found = table.price(provider, model, usage, datetime.fromisoformat(when).replace(tzinfo=UTC))
    return None if found is None else found.cost_usd


def test_each_class_of_tokens_has_its_price() -> None:
    text = """
models:
  - model: acme
    prices:
      input_usd_per_mtok: 2
      output_usd_per_mtok: 8
      cache_read_usd_per_mtok: 0.2
      cache_write_usd_per_mtok: 2.5
      cache_write_1h_usd_per_mtok: 4
      reasoning_usd_per_mtok: 16
"""
    assert cost(text, "acme", Usage(MIO)) == 2
    assert cost(text, "acme", Usage(0, cache_read_tokens=MIO)) == 0.2
    assert cost(text, "acme", Usage(0, cache_write_tokens=MIO)) == 2.5
    assert cost(text, "acme", Usage(0, cache_write_tokens=MIO, cache_write_1h_tokens=MIO)) == 4
    assert cost(text, "acme", Usage(0, output_tokens=MIO)) == 8
    assert cost(text, "acme", Usage(0, output_tokens=MIO, reasoning_tokens=MIO)) == 16


def test_tokens_without_a_price_of_their_own_cost_what_they_are_part_of() -> None:
    text = "models:\n  - model: acme\n" + PLAIN
    assert cost(text, "acme", Usage(0, cache_read_tokens=MIO, cache_write_tokens=MIO)) == 4
    assert cost(text, "acme", Usage(0, output_tokens=MIO, reasoning_tokens=MIO)) == 8


@pytest.mark.parametrize(("size", "usd"), [(200_000, 0.4), (200_001, 0.800004), (2 * MIO, 12.0)])
def test_prices_above_a_size_hold_for_the_whole_call(size: int, usd: float) -> None:
    text = "models:\n  - model: acme\n" + PLAIN
    text += "    above:\n      - {input_tokens: 200000, prices: {input_usd_per_mtok: 4}}\n"
    text += "      - {input_tokens: 1000000, prices: {input_usd_per_mtok: 6}}\n"
    assert cost(text, "acme", Usage(size)) == pytest.approx(usd)
    assert cost(text, "acme", Usage(size, output_tokens=MIO)) == pytest.approx(usd + 8)  # what is not named stays


def test_prices_hold_from_their_day_on_and_before_the_first_the_table_is_asked() -> None:
    text = "models:\n  - model: gpt-4o-mini\n    from: 2026-03-01\n" + PLAIN
    text += "  - model: gpt-4o-mini\n    from: 2026-05-01\n" + PLAIN.replace("2,", "3,")
    assert cost(text, "gpt-4o-mini", Usage(MIO), provider="openai", when="2026-02-28") == 0.15
    assert cost(text, "gpt-4o-mini", Usage(MIO), provider="openai", when="2026-03-01") == 2
    assert cost(text, "gpt-4o-mini", Usage(MIO), provider="openai", when="2026-05-01") == 3


def test_a_model_is_found_by_its_names_whatever_their_case_and_a_whole_name_goes_before_a_beginning() -> None:
    text = "models:\n  - model: acme\n    also: [Acme-2, 'acme-x-*']\n" + PLAIN
    text += "  - model: acme-x-large\n" + PLAIN.replace("2,", "5,")
    assert [cost(text, name, Usage(MIO)) for name in ("ACME", "acme-2", "acme-x-1")] == [2, 2, 2]
    assert cost(text, "acme-x-large", Usage(MIO)) == 5
    assert cost(text, "acme-y", Usage(MIO)) is None


def test_a_provider_that_is_named_must_be_the_one_that_was_called() -> None:
    text = "models:\n  - model: acme\n    provider: gcp.gen_ai\n" + PLAIN
    assert cost(text, "acme", Usage(MIO), provider="gcp.gen_ai") == 2
    assert cost(text, "acme", Usage(MIO), provider=None) == 2
    assert cost(text, "acme", Usage(MIO), provider="other") is None


def test_json_is_read_as_well() -> None:
    prices = {"input_usd_per_mtok": 0.25, "output_usd_per_mtok": 1}
    assert cost(json.dumps({"models": [{"model": "acme", "prices": prices}]}), "acme", Usage(MIO)) == 0.25


def test_another_content_is_another_version() -> None:
    one, other = (parse(f"models:\n  - model: acme{end}\n" + PLAIN, "prices.yaml") for end in ("", "2"))
    assert one.version != other.version
    assert one.find(frozenset(), "acme", date.max) is not None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("models: [\n", "line 2: "),
        (
            "models:\n  - model: a\n    prices:\n      input_usd_per_mtok: -1\n",
            "line 4: models[0].prices.input_usd_per",
        ),
        (
            "models:\n  - model: a\n    prices:\n      input_usd_per_mtok: .nan\n",
            "line 4: models[0].prices.input_usd_per",
        ),
        ("models:\n  - model: a\n    prices:\n      input: 1\n", "line 4: models[0].prices.input: Extra"),
        ("models:\n  - model: a\n    price: 1\n", "line 3: models[0].price: Extra"),
        ("models:\n  - model: a\n    prices: {input_usd_per_mtok: 1}\n", "line 2: models[0]: prices lack output_usd"),
        ("models:\n  - model: a\n    model: b\n", "line 3: model is given twice"),
        ("models:\n  - model: 4.1\n" + PLAIN, "line 2: models[0].model: Input should be a valid string"),
        ("models:\n  - model: a\n" + PLAIN + "  - model: A\n" + PLAIN, "a is there twice"),
        ("models:\n  - model: a\n    from: soon\n" + PLAIN, "line 3: models[0].from: "),
        ("", "models: Field required"),
        ("hello", "Input should be"),
        (
            "models:\n  - model: a\n" + PLAIN + "    above: [{input_tokens: 0, prices: {}}]\n",
            "line 4: models[0].above[0]",
        ),
    ],
)
def test_a_mistake_is_told_with_its_line_and_field(text: str, said: str) -> None:
    with pytest.raises(MalformedInput) as refusal:
        parse(text, "prices.yaml")
    assert refusal.value.message.startswith("prices.yaml")
    assert said in refusal.value.message


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("{input_usd_per_mtok: 1, output_usd_per_mtok: 1, cache_write_1h_usd_per_mtok: 1}", "needs cache_write_usd"),
        ("{input_usd_per_mtok: 1, output_usd_per_mtok: 1}\n    above: [{input_tokens: 5, prices: {}},"
         " {input_tokens: 5, prices: {}}]", "do not grow"),
        ("{input_usd_per_mtok: 1, output_usd_per_mtok: 1}\n    above: [{input_tokens: 5, prices:"
         " {cache_read_usd_per_mtok: 1}}]", "`above` has cache_read_usd_per_mtok"),
    ],
)  # fmt: skip
def test_prices_that_cannot_be_meant_are_refused(more: str, said: str) -> None:
    with pytest.raises(MalformedInput, match=said):
        parse(f"models:\n  - model: a\n    prices: {more}\n", "prices.yaml")
