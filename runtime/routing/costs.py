"""What a call will cost, before it is made, and what it did cost, after."""

from datetime import datetime
from typing import Literal

from models import pricing
from models.payloads.cost import CostEstimated, CostRecorded
from models.values import Cost, Price, Usage
from runtime.routing.catalogue import Catalogue, Model


def estimate(
    catalogue: Catalogue, model: Model, input_tokens: int, max_output_tokens: int | None, now: datetime
) -> CostEstimated:
    """The cost of a call whose whole input is new to the provider and whose answer is as long as it may be.

    So it is the most the call can cost; without a bound on the answer it is the cost of the input alone.
    """
    most = max_output_tokens if max_output_tokens is not None else model.max_output_tokens
    usage = Usage(uncached_input_tokens=input_tokens, output_tokens=most or 0)
    cost = priced(catalogue, model, usage, now)
    return CostEstimated(
        **_named(model),
        **_told(cost),
        estimated_cost_class=model.cost_class,
        estimated_input_tokens=input_tokens,
        estimated_output_tokens=most,
        maximum_usd=cost.cost_usd if most is not None else None,
    )


def record_cost(
    catalogue: Catalogue,
    model: Model,
    usage: Usage,
    now: datetime,
    *,
    reported_usd: float | None = None,
    scope: Literal["model_call", "tool_call", "turn", "task", "session"] = "model_call",
) -> CostRecorded:
    """What a call used and cost: as its provider reports it, else by the prices, else unknown."""
    cost = Cost(cost_usd=reported_usd, cost_state="reported")
    if reported_usd is None:
        cost = priced(catalogue, model, usage, now)
    source = {"reported": "provider", "priced": "price table"}.get(cost.cost_state or "", "nobody")
    return CostRecorded(**_named(model), **_told(cost), usage=usage, scope=scope, source=source)


def priced(catalogue: Catalogue, model: Model, usage: Usage, now: datetime) -> Cost:
    """The cost of tokens by the catalogue's own prices, else by the price table, with the line that was used."""
    counted = pricing.Usage.of(usage)
    line = catalogue.price(model, counted.input_tokens, now) if counted else None
    if counted is None or line is None:
        return Cost(cost_state="unknown")
    cost = _cost(model, line, counted, now)
    return Cost(cost_state="unknown") if cost is None else Cost(cost_usd=cost, cost_state="priced", price=line)


def _cost(model: Model, line: Price, usage: pricing.Usage, now: datetime) -> float | None:
    if model.prices is not None:
        return pricing.cost_at(line, usage)
    found = pricing.price(model.provider, model.model, usage, now)
    return found.cost_usd if found else None


def _named(model: Model) -> dict[str, str]:
    return {"provider_name": model.provider, "model_name": model.model}


def _told(cost: Cost) -> dict[str, object]:
    return {"cost_usd": cost.cost_usd, "cost_state": cost.cost_state, "price": cost.price}
