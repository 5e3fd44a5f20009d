"""Costs before and after a call: reported, priced with the line that was used, or unknown; never nothing by absence."""

import pytest

from models import pricing
from models.values import Usage
from runtime.routing import Model, estimate, load, record_cost
from runtime.routing.catalogue import Prices
from tests.runtime.routing.scenarios import NOON, USED

CATALOGUE = load()
SONNET = CATALOGUE.models[0]
UNKNOWN = Model(provider="openai", model="made-up")


def test_an_estimate_is_the_most_that_the_call_can_cost() -> None:
    told = estimate(CATALOGUE, SONNET, 100_000, 2_000, NOON)
    assert told.cost_usd == told.maximum_usd == pytest.approx(0.1 * 3 + 0.002 * 15)
    assert (told.cost_state, told.estimated_input_tokens, told.estimated_output_tokens) == ("priced", 100_000, 2_000)
    assert told.price is not None
    assert (told.price.entry, told.price.table_version) == ("anthropic/claude-sonnet-4-6", pricing.TABLE_VERSION)
    recorded = record_cost(CATALOGUE, SONNET, USED, NOON).cost_usd
    assert recorded is not None
    assert recorded < (told.maximum_usd or 0)


def test_an_answer_without_a_bound_has_no_maximum() -> None:
    boundless = SONNET.model_copy(update={"max_output_tokens": None})
    told = estimate(CATALOGUE, boundless, 100_000, None, NOON)
    assert told.cost_usd == pytest.approx(0.3)
    assert told.maximum_usd is None


def test_a_recorded_cost_is_that_of_the_price_table_with_its_line() -> None:
    told = record_cost(CATALOGUE, SONNET, USED, NOON)
    found = pricing.price("anthropic", "claude-sonnet-4-6", pricing.Usage(9_000, 3_000, 0, 800), NOON)
    assert found is not None
    assert (told.cost_usd, told.cost_state, told.scope) == (found.cost_usd, "priced", "model_call")
    assert told.price is not None
    assert told.price.input_usd_per_mtok == 3.0
    assert not list(told.emission_problems())


def test_a_cost_that_the_provider_reports_is_believed() -> None:
    told = record_cost(CATALOGUE, SONNET, USED, NOON, reported_usd=0.5)
    assert (told.cost_usd, told.cost_state, told.price, told.source) == (0.5, "reported", None, "provider")


@pytest.mark.parametrize(("model", "usage"), [(UNKNOWN, USED), (SONNET, Usage(output_tokens=5)), (SONNET, Usage())])
def test_what_cannot_be_priced_is_unknown_and_not_free(model: Model, usage: Usage) -> None:
    told = record_cost(CATALOGUE, model, usage, NOON)
    assert (told.cost_usd, told.cost_state, told.price) == (None, "unknown", None)
    assert not list(told.emission_problems())


def test_prices_of_the_catalogue_come_before_the_table() -> None:
    own = SONNET.model_copy(update={"prices": Prices(input_usd_per_mtok=1, output_usd_per_mtok=2)})
    told = record_cost(CATALOGUE, own, Usage(uncached_input_tokens=10, cache_read_tokens=5, output_tokens=20), NOON)
    assert told.cost_usd == pytest.approx((15 * 1 + 20 * 2) / 1e6)
    assert told.price is not None
    assert told.price.table_version == CATALOGUE.version
