"""Why a model was chosen, from recorded facts alone: every model considered, and what it would have cost."""

from typing import Any

import orjson
import polars as pl

from views import cost_ledger as ledger
from views import routing_decisions as routing
from views.cost_ledger import cost_ledger
from views.fields import in_order
from views.routing_decisions import routing_decisions, routing_flow

LIMIT_FACTS = ("limit.changed", "rate_limit.hit", "quota.low", "quota.blocked")
TYPES = (*dict.fromkeys((*routing.TYPES, *ledger.TYPES, *LIMIT_FACTS)),)
"""The events that an explanation is made of."""

RATES = {
    "uncached_input_tokens": "input_usd_per_mtok",
    "cache_read_tokens": "cache_read_usd_per_mtok",
    "cache_write_tokens": "cache_write_usd_per_mtok",
    "output_tokens": "output_usd_per_mtok",
}
"""Which price each count of tokens has; reasoning is part of the output and has none of its own."""


MODEL = ["decision_id", "provider", "model"]


def explanation(events: pl.LazyFrame) -> pl.LazyFrame:
    """One row per choice and model considered, the candidates in order of preference, then those left out.

    `role` is `chosen`, `fallback` (taken later), `candidate` (not needed) or `excluded`, with the `reason`. Prices are
    those recorded with the candidate. `would_have_cost_usd` is what the tokens really recorded after the choice cost
    at these prices; NULL where nothing was used, or a price or a count is not known, or where cache writes lived an
    hour, which these prices do not tell. `recorded_cost_usd` is what was recorded of this model itself.
    """
    decisions = routing_decisions(events)
    firsts = decisions.filter(pl.col("event_id") == pl.col("decision_id"))
    taken = decisions.filter(pl.col("outcome") == "fallback").select(
        "decision_id", provider="selected_provider", model="selected_model", was_fallback=pl.lit(True)
    )
    used = used_by_decision(events)
    per_model = used.group_by(MODEL).agg(
        recorded_calls=pl.len().cast(pl.Int64),
        recorded_cost_usd=pl.when(pl.col("cost_usd").is_not_null().any()).then(pl.col("cost_usd").sum()),
    )
    return (
        _considered(firsts)
        .join(taken.unique(MODEL), on=MODEL, how="left", nulls_equal=True, maintain_order="left")
        .join(per_model, on=MODEL, how="left", nulls_equal=True, maintain_order="left")
        .join(_tokens_used(used), on="decision_id", how="left", maintain_order="left")
        .with_columns(pl.col("recorded_calls").fill_null(0), role=_role(), would_have_cost_usd=_would_have_cost())
        .select(COLUMNS)
    )


def used_by_decision(events: pl.LazyFrame) -> pl.LazyFrame:
    """The cost ledger with the choice, and the decision of it, that each entry was recorded under."""
    flow = routing_flow(events).select("event_id", "decision_id", "serving_id")
    return (
        cost_ledger(events).join(flow, on="event_id", maintain_order="left").filter(pl.col("decision_id").is_not_null())
    )


def explain(events: pl.DataFrame, decision_or_turn: str) -> list[dict[str, Any]]:
    """The choices of a turn, or the one that a decision belongs to, each as a document; empty if there is none.

    `events` are those of one session, or of one turn; of `TYPES`, the others are not looked at.
    """
    frame = events.filter(pl.col("type").is_in(TYPES)).lazy()
    decisions = routing_decisions(frame).collect()
    named = decisions.filter(
        (pl.col("turn_id") == decision_or_turn) | (pl.col("event_id") == decision_or_turn)
    )["decision_id"]  # fmt: skip
    models = explanation(frame).collect()
    used = used_by_decision(frame).collect()
    facts = _facts(frame).collect()
    return [
        _document(
            decisions.filter(decision_id=decision_id),
            models.filter(decision_id=decision_id).drop("decision_id", "session_id", "turn_id"),
            used.filter(decision_id=decision_id),
            facts.filter(decision_id=decision_id),
        )
        for decision_id in named.unique(maintain_order=True)
    ]


def _considered(firsts: pl.LazyFrame) -> pl.LazyFrame:
    """The models of each choice; where nobody told the candidates, the one that was taken."""
    choice = ("at", "decision_id", "session_id", "turn_id", "selected_provider", "selected_model")
    numbered = firsts.with_row_index("at")
    lists = [numbered.select(*choice, models=name) for name in ("candidates", "excluded")]
    rows = pl.concat(one.explode("models", empty_as_null=False, keep_nulls=False) for one in lists)
    model, price = pl.col("models").struct, pl.col("models").struct.field("price").struct
    told = rows.select(
        *choice,
        provider=model.field("provider_name"),
        model=model.field("model_name"),
        cost_class=model.field("cost_class"),
        context_window_tokens=model.field("context_window_tokens"),
        reason=model.field("excluded_reason"),
        price_entry=price.field("entry"),
        price_version=price.field("table_version"),
        **{rate: price.field(rate) for rate in RATES.values()},
    )
    untold = numbered.filter(pl.col("candidates").is_null() & pl.col("excluded").is_null())
    alone = untold.filter(pl.col("selected_model").is_not_null()).select(
        *choice, provider="selected_provider", model="selected_model"
    )
    return pl.concat([told, alone], how="diagonal").sort("at", maintain_order=True)


def _role() -> pl.Expr:
    chosen = (pl.col("model") == pl.col("selected_model")) & pl.col("provider").eq_missing(pl.col("selected_provider"))
    return (
        pl.when(chosen)
        .then(pl.lit("chosen"))
        .when(pl.col("was_fallback"))
        .then(pl.lit("fallback"))
        .when(pl.col("reason").is_not_null())
        .then(pl.lit("excluded"))
        .otherwise(pl.lit("candidate"))
    )


def _tokens_used(used: pl.LazyFrame) -> pl.LazyFrame:
    """The tokens of each choice; NULL if a call did not tell its input or output."""
    needed = pl.col("uncached_input_tokens").is_null().any() | pl.col("output_tokens").is_null().any()
    return used.group_by("decision_id").agg(
        *(pl.when(~needed).then(pl.col(name).sum()).alias(f"used_{name}") for name in RATES),
        long_lived=pl.col("cache_write_1h_tokens").fill_null(0).sum() > 0,
    )


def _would_have_cost() -> pl.Expr:
    first, *others = (
        pl.when(pl.col(f"used_{name}") == 0).then(0.0).otherwise(pl.col(f"used_{name}") * pl.col(rate))
        for name, rate in RATES.items()
    )
    total = sum(others, first)
    return pl.when(~pl.col("long_lived")).then(total / 1_000_000)


def _facts(events: pl.LazyFrame) -> pl.LazyFrame:
    """Profiles, estimates and facts about limits, with the choice they belong to."""
    flow = routing_flow(events)
    profiles = (
        flow.filter(pl.col("decision_id") == pl.col("event_id"))
        .select("decision_id", event_id="profile_event_id")
        .join(events, on="event_id")
    )
    beside = in_order(events).with_columns(
        decision_id=pl.when(pl.col("type").is_in(list(routing.OUTCOMES))).then("event_id").forward_fill()
        .over(routing.TURN)
    )  # fmt: skip
    whole = flow.filter(pl.col("event_id") == pl.col("serving_id")).select("decision_id", serving_id="event_id")
    limits = (
        beside.filter(pl.col("type").is_in(["cost.estimated", *LIMIT_FACTS]))
        .rename({"decision_id": "serving_id"})
        .join(whole, on="serving_id")
    )
    columns = ("decision_id", "event_id", "type", "timestamp", "payload")
    return pl.concat([profiles.select(columns), limits.sort("place").select(columns)])


def _document(decisions: pl.DataFrame, models: pl.DataFrame, used: pl.DataFrame, facts: pl.DataFrame) -> dict[str, Any]:
    first, *later = decisions.drop("candidates", "excluded").to_dicts()
    told = [row | {"payload": _body(row["payload"])} for row in facts.drop("decision_id").to_dicts()]
    limits = first.pop("limits")
    return {
        "decision": first,
        "profile": next((row["payload"] for row in told if row["type"] == routing.PROFILE), None),
        "models": models.to_dicts(),
        "limits_then": limits,
        "fallbacks": later,
        "estimates": [row["payload"] for row in told if row["type"] == ledger.ESTIMATED],
        "limit_facts": [row for row in told if row["type"] in LIMIT_FACTS],
        "recorded": used.drop("decision_id", "serving_id").to_dicts(),
    }


def _body(text: str | None) -> Any:
    return orjson.loads(text) if text else None


COLUMNS = (
    "decision_id",
    "session_id",
    "turn_id",
    "provider",
    "model",
    "role",
    "reason",
    "cost_class",
    "context_window_tokens",
    "price_entry",
    "price_version",
    *RATES.values(),
    "would_have_cost_usd",
    "recorded_calls",
    "recorded_cost_usd",
)
"""The columns of the view, in its order."""
