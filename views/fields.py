"""Payload fields as columns: read all at once, or one by one where some payload is not as it should be."""

from collections.abc import Iterable
from typing import Any

import orjson
import polars as pl
from polars._typing import PolarsDataType

Shape = dict[str, PolarsDataType]


def payload_fields(shape: Shape) -> pl.Expr:
    """The named fields of the column `payload`, as a struct; NULL where one is missing or not of its type."""
    whole = pl.Struct(shape)
    return pl.col("payload").map_batches(lambda texts: _decoded(texts, whole), return_dtype=whole, is_elementwise=True)


def with_fields(events: pl.LazyFrame, types: Iterable[str], shape: Shape) -> pl.LazyFrame:
    """The events of these types, with fields of their payload as columns in the place of any of the same name."""
    found = events.filter(pl.col("type").is_in(list(types))).with_columns(_payload=payload_fields(shape))
    return found.with_columns(pl.col("_payload").struct.field(name) for name in shape).drop("_payload", "payload")


def in_order(events: pl.LazyFrame) -> pl.LazyFrame:
    """The events of each session by its own sequence, else by time; `place` counts them."""
    clock = pl.coalesce("time_ns", pl.col("timestamp").dt.epoch("us").cast(pl.UInt64) * 1000)
    ordered = events.sort("session_id", "sequence", clock, "event_id", nulls_last=True)
    return ordered.with_columns(place=pl.int_range(pl.len(), dtype=pl.Int64))


def _decoded(texts: pl.Series, whole: pl.Struct) -> pl.Series:
    try:
        return texts.str.json_decode(whole)
    except pl.exceptions.ComputeError:
        # Foreign payloads may be anything; one of them must not cost the others.
        return pl.Series(texts.name, [_coerced(_parsed(text), whole) for text in texts], dtype=whole)


def _parsed(text: str | None) -> Any:
    try:
        return orjson.loads(text) if text else None
    except orjson.JSONDecodeError:
        return None


def _coerced(value: Any, dtype: PolarsDataType) -> Any:
    if isinstance(dtype, pl.Struct):
        told = value if isinstance(value, dict) else {}
        return {field.name: _coerced(told.get(field.name), field.dtype) for field in dtype.fields}
    if isinstance(dtype, pl.List):
        return [_coerced(one, dtype.inner) for one in value] if isinstance(value, list) else None
    if dtype == pl.Boolean:
        return value if isinstance(value, bool) else None
    if dtype == pl.String:
        return value if isinstance(value, str) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    whole = dtype == pl.Int64
    return (int(value) if float(value).is_integer() and abs(value) < 2**63 else None) if whole else float(value)
