"""The words dialects are written in: attributes, envelopes, payloads and token counts as polars expressions."""

from collections.abc import Mapping
from types import MappingProxyType

import polars as pl
from polars.selectors import by_name

from ingest.batch import Dtype

Wanted = Mapping[str, Dtype]

SESSION_KEYS = (
    "agent_runtime.session_id",
    "gen_ai.conversation.id",
    "session.id",
    "conversation.id",
    "gcp.vertex.agent.session_id",
    "traceloop.association.properties.session_id",
    "metadata.session_id",
    "langfuse.session.id",
)
"""Attributes that name a session, the most specific first."""

JSON_MARK = "json:"
MUST_ESCAPE = r'["\\\x00-\x1f]'


def attribute(key: str, dtype: Dtype = pl.String) -> pl.Expr:
    """One attribute of the record; NULL in a batch in which nobody sent it."""
    return pl.coalesce(_sent(key, dtype), pl.lit(None, dtype))


def first(*keys: str, dtype: Dtype = pl.String) -> pl.Expr:
    """The first of several spellings that was sent; an empty text says nothing."""
    found = [_sent(key, dtype) for key in keys]
    if dtype == pl.String:
        found = [pl.when(one != "").then(one) for one in found]
    return pl.coalesce(*found, pl.lit(None, dtype))


def sent(*keys: str) -> pl.Expr:
    """Whether a record has any of the attributes."""
    return pl.any_horizontal(pl.lit(False), *(by_name(key, require_all=False).is_not_null() for key in keys))


def _sent(key: str, dtype: Dtype) -> pl.Expr:
    # The one place that knows where attributes are found. A batch has no column for a key that nobody sent, so that
    # the many spellings that do not occur cost nothing.
    return by_name(key, require_all=False).cast(dtype, strict=False)


def count(*keys: str) -> pl.Expr:
    """A number of things under the first of several spellings; a negative one says nothing."""
    number = first(*keys, dtype=pl.Int64)
    return pl.when(number >= 0).then(number)


def measure(*keys: str) -> pl.Expr:
    """A finite number under the first of several spellings."""
    number = first(*keys, dtype=pl.Float64)
    return pl.when(number.is_finite()).then(number)


def one_of(expression: pl.Expr, values: frozenset[str]) -> pl.Expr:
    """Whether a text is among the values; False for NULL."""
    return expression.is_in(sorted(values)).fill_null(False)


def said(*expressions: pl.Expr) -> pl.Expr:
    """Whether any of the expressions has a value."""
    return pl.any_horizontal(*(expression.is_not_null() for expression in expressions))


def session_key() -> pl.Expr:
    """The session a record names itself."""
    return first(*SESSION_KEYS)


def duration_ms() -> pl.Expr:
    """How long a span took; NULL for other records and for spans that end before they start."""
    took = (pl.col("end_ns") - pl.col("time_ns")) / 1e6
    # Rounded: polars divides one row and multiplies many, and a rebuild must give the same value in any batch.
    return pl.when(pl.col("end_ns") >= pl.col("time_ns")).then(took.round(6))


def started_ns() -> pl.Expr:
    """When the record's work began, in nanoseconds since 1970."""
    return pl.coalesce("time_ns", pl.col("time").dt.epoch("us").cast(pl.UInt64, strict=False) * 1000)


def finished_ns() -> pl.Expr:
    """When the record's work was done: a span's end, any other record's time."""
    return pl.coalesce("end_ns", started_ns())


def as_time(nanoseconds: pl.Expr) -> pl.Expr:
    """Nanoseconds since 1970 as a UTC time."""
    return (nanoseconds // 1000).cast(pl.Int64, strict=False).cast(pl.Datetime("us"))


def json_object(written: Mapping[str, pl.Expr] = MappingProxyType({}), **fields: pl.Expr) -> pl.Expr:
    """The fields as one JSON text, those without a value left out; `written` are fields that are JSON texts already."""
    given = [value.alias(name) for name, value in fields.items()]
    given += [value.alias(JSON_MARK + name) for name, value in written.items()]
    return pl.struct(given).map_batches(_write, return_dtype=pl.String, is_elementwise=True)


def _write(fields: pl.Series) -> pl.Series:
    """Write a struct out of pieces: polars would print its nulls too, and taking them out again costs most of it.

    Looking at the columns first saves more: many are empty in a batch, and few texts hold what must be escaped.
    """
    columns = [column for column in fields.struct.unnest().get_columns() if column.null_count() < len(column)]
    inside = pl.concat_str([pl.lit(""), *map(_field, columns)], ignore_nulls=True).str.slice(1)
    whole = pl.concat_str(pl.lit("{"), inside, pl.lit("}"))
    return pl.select(fields.is_null().alias("null")).select(pl.when(~pl.col("null")).then(whole)).to_series()


def _field(column: pl.Series) -> pl.Expr:
    name = f',"{column.name.removeprefix(JSON_MARK)}":'
    if column.name.startswith(JSON_MARK):
        return pl.concat_str(pl.lit(name), column)
    if column.dtype != pl.String:
        finite = column.set(~column.is_finite(), None) if column.dtype.is_float() else column
        return pl.concat_str(pl.lit(name), finite.cast(pl.String))
    plain = pl.concat_str(pl.lit(name + '"'), column, pl.lit('"'))
    odd = column.str.contains(MUST_ESCAPE)
    if not odd.any():
        return plain
    # a struct of one field prints as {"t":"…"}
    escaped = pl.struct(t=column).struct.json_encode().str.slice(5).str.head(-1)
    return pl.when(odd).then(pl.concat_str(pl.lit(name), escaped)).otherwise(plain)


def exception_type(failed: pl.Expr) -> pl.Expr:
    """The type of the exception a failed span recorded among its events."""
    return pl.when(failed).then(pl.col("span_events")).str.extract(r'"exception\.type":\s*"([^"]+)"')


def events_of(records: pl.LazyFrame, *, at_start: pl.Expr | None = None, **columns: pl.Expr) -> pl.LazyFrame:
    """One event per record whose `type` is not NULL, with the envelope filled from the record unless given.

    A fact is dated when it became true: at the end of a span, or at its beginning where `at_start` says so.
    """
    when = finished_ns() if at_start is None else pl.when(at_start).then(started_ns()).otherwise(finished_ns())
    envelope = {
        "event_id": pl.col("record_id"),
        "time_ns": when,
        "session_id": session_key(),
        "trace_id": pl.col("trace_id"),
        "span_id": pl.col("span_id"),
        "parent_span_id": pl.col("parent_span_id"),
        "record_id": pl.col("record_id"),
        "signal": pl.col("signal"),
        "journal_position": pl.col("journal_position"),
    }
    made = records.select(**(envelope | columns)).filter(pl.col("type").is_not_null())
    return made.with_columns(timestamp=as_time(pl.col("time_ns")))
