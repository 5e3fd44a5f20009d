"""How models were chosen: one row per decision, with the choice there was, the reason, and what followed."""

import polars as pl

from views.fields import Shape, in_order, with_fields

OUTCOMES = {
    "routing.decided": "selected",
    "routing.single_candidate": "single_candidate",
    "routing.not_possible": "not_possible",
    "routing.fallback.applied": "fallback",
}
PROFILE, CANDIDATES, COST, FAILURE = (
    "task.profile.resolved",
    "routing.candidates.resolved",
    "cost.recorded",
    "model.failed",
)
TYPES = (PROFILE, CANDIDATES, COST, FAILURE, *OUTCOMES)
"""The events that the view reads."""

PRICE = pl.Struct(
    {
        "entry": pl.String,
        "table_version": pl.String,
        "input_usd_per_mtok": pl.Float64,
        "cache_read_usd_per_mtok": pl.Float64,
        "cache_write_usd_per_mtok": pl.Float64,
        "output_usd_per_mtok": pl.Float64,
    }
)
MODEL = pl.Struct(
    {
        "provider_name": pl.String,
        "model_name": pl.String,
        "cost_class": pl.String,
        "context_window_tokens": pl.Int64,
        "price": PRICE,
        "excluded_reason": pl.String,
    }
)
SET = pl.Struct({"candidates": pl.List(MODEL), "excluded": pl.List(MODEL)})
LIMIT = pl.Struct(
    dict.fromkeys(("kind", "name", "scope", "status", "unit", "provider_name", "model_name", "resets_at"), pl.String)
    | dict.fromkeys(("used", "maximum", "remaining", "window_s"), pl.Float64)
)
DECISION: Shape = {
    **dict.fromkeys(("routing_mode", "decision_source", "decision_reason", "reason", "capability_gap"), pl.String),
    **dict.fromkeys(("selected_provider", "selected_model", "requested_provider", "requested_model"), pl.String),
    **dict.fromkeys(("from_provider", "from_model", "failure_category"), pl.String),
    "candidate_count": pl.Int64,
    "fallback_index": pl.Int64,
    "fallback_chain": pl.List(pl.String),
    "requires_user_override": pl.Boolean,
    "limit_state_snapshot": pl.List(LIMIT),
    "limits": pl.List(LIMIT),
}
IDS = ("session_id", "thread_id", "turn_id", "task_id", "event_id", "timestamp", "sequence")
TURN = ("session_id", "turn_id")


def routing_decisions(events: pl.LazyFrame) -> pl.LazyFrame:
    """One row per decision, in order: who could have been chosen, who was, why, and what followed.

    `outcome` is `selected`, `single_candidate`, `not_possible` or `fallback`. A fallback, and the `not_possible` that
    ends a chain of them, carries the `decision_id` of the choice it belongs to; other rows carry their own event id.
    `candidates` and `excluded` are the models as last resolved before the decision in its turn; NULL where nobody told.
    `limits` are as they stood at the decision. `model_calls`, `failed_calls`, `cost_usd` and `cost_state` count what
    was recorded after the decision and before the next one of the turn; `cost_state` is `partial` where only some
    costs are known.
    """
    flow = routing_flow(events)
    decisions = with_fields(events, OUTCOMES, DECISION).with_columns(
        outcome=pl.col("type").replace_strict(OUTCOMES, return_dtype=pl.String),
        reason=pl.coalesce("decision_reason", "reason"),
        limits=pl.coalesce("limit_state_snapshot", "limits"),
    )
    return (
        decisions.select(*IDS, "outcome", *DECISION)
        .join(flow.select("event_id", "place", "decision_id", "candidates_event_id"), on="event_id")
        .join(resolved_models(events), on="candidates_event_id", how="left")
        .join(_own_models(events), on="event_id", how="left")
        .with_columns(pl.coalesce(name, f"own_{name}").alias(name) for name in ("candidates", "excluded"))
        .join(_followed(events, flow), on="event_id", how="left")
        .with_columns(pl.col("model_calls", "failed_calls").fill_null(0))
        .sort("place")
        .select(COLUMNS)
    )


def routing_flow(events: pl.LazyFrame) -> pl.LazyFrame:
    """The events around choices in order, each with the profile, candidates and decision that hold for it in its turn.

    `decision_id` is the choice as a whole, `serving_id` the last decision of it: a fallback, where there was one.
    """
    told = in_order(events.filter(pl.col("type").is_in(TYPES))).select(*TURN, "event_id", "type", "place")
    kind = pl.col("type")
    decides = kind.is_in(list(OUTCOMES))
    opens = pl.when(decides | (kind == PROFILE)).then(kind)
    before = opens.shift(1).forward_fill().over(TURN)
    # What follows a failure belongs to the first choice; only a new profile makes a refusal a choice of its own.
    begins = kind.is_in(["routing.decided", "routing.single_candidate"]) | (
        decides & (before.is_null() | (before == PROFILE))
    )
    last = {"profile_event_id": kind == PROFILE, "candidates_event_id": kind == CANDIDATES}
    last |= {"decision_id": begins, "serving_id": decides}
    return told.with_columns(
        pl.when(condition).then("event_id").forward_fill().over(TURN).alias(name) for name, condition in last.items()
    )


def resolved_models(events: pl.LazyFrame) -> pl.LazyFrame:
    """The models of each candidate set, by the event that told it."""
    sets = with_fields(events, [CANDIDATES], {"candidates": pl.List(MODEL), "excluded": pl.List(MODEL)})
    return sets.select("candidates", "excluded", candidates_event_id="event_id")


def _own_models(events: pl.LazyFrame) -> pl.LazyFrame:
    """The models that a refusal itself lists."""
    sets = with_fields(events, ["routing.not_possible"], {"candidates": SET})
    both = pl.col("candidates").struct
    return sets.select(
        "event_id", own_candidates=both.field("candidates"), own_excluded=both.field("excluded")
    )  # fmt: skip


def _followed(events: pl.LazyFrame, flow: pl.LazyFrame) -> pl.LazyFrame:
    costs = with_fields(events, [COST, FAILURE], {"cost_usd": pl.Float64, "cost_state": pl.String, "scope": pl.String})
    narrow = costs.filter(pl.col("scope").is_in(["turn", "task", "session"]).not_() | pl.col("scope").is_null())
    is_cost = pl.col("type") == COST
    known = is_cost & pl.col("cost_usd").is_not_null()
    return (
        narrow.select("event_id", "cost_usd", "cost_state")
        .join(flow.filter(pl.col("serving_id").is_not_null()), on="event_id")
        .sort("place")
        .group_by("serving_id")
        .agg(
            model_calls=is_cost.sum().cast(pl.Int64),
            failed_calls=(pl.col("type") == FAILURE).sum().cast(pl.Int64),
            cost_usd=pl.when(known.any()).then(pl.col("cost_usd").filter(known).sum()),
            cost_state=pl.when(known.any() & (is_cost & ~known).any())
            .then(pl.lit("partial"))
            .when(known.any())
            .then(pl.col("cost_state").filter(known).min())  # `priced` if any is, `reported` if all are
            .when(is_cost.any())
            .then(pl.lit("unknown")),
        )
        .rename({"serving_id": "event_id"})
    )


COLUMNS = (
    *IDS,
    "decision_id",
    "outcome",
    "routing_mode",
    "decision_source",
    "reason",
    "requested_provider",
    "requested_model",
    "selected_provider",
    "selected_model",
    "from_provider",
    "from_model",
    "failure_category",
    "fallback_index",
    "fallback_chain",
    "candidate_count",
    "capability_gap",
    "requires_user_override",
    "candidates_event_id",
    "candidates",
    "excluded",
    "limits",
    "model_calls",
    "failed_calls",
    "cost_usd",
    "cost_state",
)
"""The columns of the view, in its order."""
