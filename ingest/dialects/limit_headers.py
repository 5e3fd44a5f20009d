"""Providers' rate-limit headers, wherever a sender keeps them: how much of each limit is left and when it resets."""

from collections.abc import Callable

import polars as pl

from ingest.dialects.expressions import events_of, finished_ns, json_object

LOW_SHARE = 0.1
"""A limit is low when a tenth or less of it is left."""

LIMITS = (
    *((f"x-ratelimit-{{}}-{name}", name) for name in ("requests", "tokens")),
    *((f"anthropic-ratelimit-{name}-{{}}", name) for name in ("requests", "tokens", "input-tokens", "output-tokens")),
)
"""The names of the headers, of which `limit`, `remaining` and `reset` are the parts, and what they limit."""

PARTS = ("limit", "remaining", "reset")
HEADERS = tuple(header.format(part) for header, _ in LIMITS for part in PARTS)

LONGEST_S = 366 * 86_400
NUMBER = r"(\d{1,12}(?:\.\d{1,9})?)"
SPANS_S = {
    rf"^{NUMBER}$": 1.0,
    rf"{NUMBER}d": 86_400.0,
    rf"{NUMBER}h": 3_600.0,
    rf"{NUMBER}m(?:\d|$)": 60.0,
    rf"{NUMBER}s$": 1.0,
    rf"{NUMBER}ms$": 1e-3,
}
"""Parts of a span such as `6m0s`, `1h2m3.5s`, `120ms` or bare seconds, and what each is in seconds."""

IS_SPAN = r"^(?:\d+(?:\.\d+)?(?:d|h|m|s|ms)?)+$"
IS_MOMENT = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$"


def limit_changes(
    records: pl.LazyFrame, header: Callable[[str], pl.Expr], *, provider: pl.Expr, model: pl.Expr
) -> pl.LazyFrame:
    """A `limit.changed` for each limit that a record's headers tell of; what cannot be read is left out."""
    told = [
        pl.struct(
            limit=pl.lit(name.replace("-", "_")),
            unit=pl.lit("requests" if name == "requests" else "tokens"),
            maximum=_number(header(form.format("limit"))),
            remaining=_number(header(form.format("remaining"))),
            reset=header(form.format("reset")),
        )
        for form, name in LIMITS
    ]
    rows = (
        records.with_columns(_limit=pl.concat_list(told), _provider=provider, _model=model)
        .explode("_limit")
        .with_columns(pl.col("_limit").struct.field(name).alias(f"_{name}") for name in ("maximum", "remaining"))
        .filter(pl.col("_maximum").is_not_null() | pl.col("_remaining").is_not_null())
        .with_columns(_status=_status())
    )
    limit = pl.col("_limit").struct
    return events_of(
        rows,
        type=pl.lit("limit.changed"),
        event_id=pl.concat_str("record_id", pl.lit(":limit:"), limit.field("limit")),
        status=pl.col("_status"),
        provider=pl.col("_provider"),
        model=pl.col("_model"),
        payload=json_object(
            kind=pl.lit("rate_limit"),
            name=limit.field("limit"),
            scope=pl.lit("provider"),
            status=pl.col("_status"),
            unit=limit.field("unit"),
            used=(pl.col("_maximum") - pl.col("_remaining")).clip(0),
            maximum=pl.col("_maximum"),
            remaining=pl.col("_remaining"),
            resets_at=_moment(limit.field("reset")),
            provider_name=pl.col("_provider"),
            model_name=pl.col("_model"),
        ),
    )


def _number(text: pl.Expr) -> pl.Expr:
    return text.str.strip_chars().str.extract(rf"^{NUMBER}$").cast(pl.Float64, strict=False)


def _status() -> pl.Expr:
    left, most = pl.col("_remaining"), pl.col("_maximum")
    return (
        pl.when(left.is_null())
        .then(pl.lit("unknown"))
        .when(left <= 0)
        .then(pl.lit("hit"))
        .when(left <= most * LOW_SHARE)
        .then(pl.lit("low"))
        .otherwise(pl.lit("ok"))
    )


def _moment(reset: pl.Expr) -> pl.Expr:
    """When a limit resets: told as a moment, or as a span from the record's time."""
    text = reset.str.strip_chars()
    parts = (text.str.extract(form).cast(pl.Float64) * size for form, size in SPANS_S.items())
    seconds = pl.when(text.str.contains(IS_SPAN)).then(pl.sum_horizontal(*parts))
    at_us = (finished_ns() // 1000).cast(pl.Int64) + (seconds * 1e6).round().cast(pl.Int64)
    computed = at_us.cast(pl.Datetime("us")).dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
    return pl.when(text.str.contains(IS_MOMENT)).then(text).when(seconds.is_between(0, LONGEST_S)).then(computed)
