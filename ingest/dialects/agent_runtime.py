"""Our own wire form: one log record (or JSON line) per event, its payload in the body, its envelope in attributes."""

import polars as pl
from polars._typing import PolarsDataType

from ingest.dialects.dialect import Dialect
from ingest.dialects.expressions import attribute, events_of, first, json_object, sent

PREFIX = "agent_runtime."
SCOPE = "tachograph.runtime"
"""The instrumentation scope of our runtime."""

IDS = (
    "schema_version",
    "runtime_id",
    "thread_id",
    "turn_id",
    "task_id",
    "run_id",
    "attempt_id",
    "step_id",
    "tool_call_id",
    "action_id",
    "subagent_id",
    "artifact_id",
    "evidence_id",
    "model_request_id",
)
"""Envelope fields that are columns of `events` of the same name; the others stay with the record."""

TEXTS = ("event_id", "session_id", "status", "refs", "trace_id", "span_id", *IDS)

HOT = pl.Struct(
    {
        "status": pl.String,
        "provider_name": pl.String,
        "model_name": pl.String,
        "response_model": pl.String,
        "tool_name": pl.String,
        "agent_name": pl.String,
        "failure_category": pl.String,
        "duration_ms": pl.Float64,
        "cost_usd": pl.Float64,
        "cost_state": pl.String,
        "usage": pl.Struct(
            {
                "uncached_input_tokens": pl.Int64,
                "cache_read_tokens": pl.Int64,
                "cache_write_tokens": pl.Int64,
                "output_tokens": pl.Int64,
                "reasoning_tokens": pl.Int64,
            }
        ),
        "cost": pl.Struct(
            {
                "cost_usd": pl.Float64,
                "cost_state": pl.String,
                "price": pl.Struct({"entry": pl.String, "table_version": pl.String}),
            }
        ),
    }
)
"""The fields of payloads that are columns of `events`."""

UNDERSTOOD = pl.Struct([*HOT.fields, pl.Field("is_json", pl.Boolean)])


class AgentRuntime(Dialect, name="agent_runtime"):
    """Our runtime. Its spans carry GenAI attributes for other backends; to us its log records say the same better."""

    wants = {PREFIX + name: pl.String for name in TEXTS} | {PREFIX + "sequence": pl.Int64}
    claims = (
        (pl.col("signal") == "event")
        | (pl.col("scope_name") == SCOPE).fill_null(False)
        | sent(PREFIX + "event_id", PREFIX + "session_id")
    )

    def events(self, records: pl.LazyFrame) -> pl.LazyFrame:
        """The event that each log record or line is; spans are kept as records only."""
        said_so = records.filter(pl.col("signal").is_in(["log", "event"]) & pl.col("name").is_not_null())
        read = said_so.with_columns(_text=_payload_text()).with_columns(
            _hot=pl.col("_text").map_batches(_understood, return_dtype=UNDERSTOOD, is_elementwise=True)
        )
        return events_of(read, **_envelope(), **_columns())


def _envelope() -> dict[str, pl.Expr]:
    return {name: first(PREFIX + name) for name in IDS} | {
        "type": pl.col("name"),
        "event_id": pl.coalesce(first(PREFIX + "event_id"), "record_id"),
        "sequence": attribute(PREFIX + "sequence", pl.Int64),
        "session_id": first(PREFIX + "session_id"),
        "trace_id": pl.coalesce("trace_id", first(PREFIX + "trace_id")),
        "span_id": pl.coalesce("span_id", first(PREFIX + "span_id")),
        "refs": first(PREFIX + "refs"),
    }


def _columns() -> dict[str, pl.Expr]:
    """Columns of `events` that repeat fields of the payload; tokens and costs only of what is not a sum of others."""
    is_model = pl.col("name").str.starts_with("model.")
    hot = pl.col("_hot").struct
    usage, cost = hot.field("usage").struct, hot.field("cost").struct
    counts = ("uncached_input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
    told = pl.when(is_model).then(cost.field("cost_usd"))
    recorded = pl.when(pl.col("name") == "cost.recorded").then(hot.field("cost_usd"))
    price = cost.field("price").struct
    return {name: pl.when(is_model).then(usage.field(name)) for name in counts} | {
        "status": pl.coalesce(hot.field("status"), first(PREFIX + "status")),
        "agent_name": hot.field("agent_name"),
        "provider": hot.field("provider_name"),
        "model": pl.coalesce(hot.field("response_model"), hot.field("model_name")),
        "tool_name": hot.field("tool_name"),
        # A clock set back during the work is no fact about the work.
        "duration_ms": pl.when(hot.field("duration_ms") >= 0).then(hot.field("duration_ms")),
        "error": hot.field("failure_category"),
        "cost_usd": pl.coalesce(told, recorded),
        "cost_state": pl.coalesce(
            pl.when(told.is_not_null()).then(cost.field("cost_state")),
            pl.when(recorded.is_not_null()).then(hot.field("cost_state")),
        ),
        "price_entry": pl.when(told.is_not_null()).then(price.field("entry")),
        "price_version": pl.when(told.is_not_null()).then(price.field("table_version")),
        "payload": pl.when(hot.field("is_json"))
        .then(pl.col("_text"))
        .when(pl.col("_text").is_not_null())
        .then(json_object(unparsed=pl.col("_text"))),
    }


def _payload_text() -> pl.Expr:
    """The payload as it was sent: the text inside a body that is a JSON string, or a body that is the JSON itself."""
    is_text = pl.col("body").str.starts_with('"')
    return pl.when(is_text).then(pl.when(is_text).then(pl.col("body")).str.json_decode(pl.String)).otherwise("body")


def _understood(sent: pl.Series) -> pl.Series:
    """The hot fields of each payload, and whether it is JSON.

    All are read at once; if one is malformed or mistyped, they are read field by field, which is slower and forgives.
    """
    frame, text = sent.to_frame("sent"), pl.col("sent")
    try:
        return frame.select(text.str.json_decode(HOT).struct.with_fields(is_json=pl.lit(True))).to_series()
    except pl.exceptions.ComputeError:
        whole = text.str.json_path_match("$").is_not_null() | (text.str.strip_chars() == "null")
        return frame.select(_by_path(HOT, "$").struct.with_fields(is_json=whole)).to_series()


def _by_path(dtype: PolarsDataType, path: str) -> pl.Expr:
    if isinstance(dtype, pl.Struct):
        return pl.struct(_by_path(field.dtype, f"{path}.{field.name}").alias(field.name) for field in dtype.fields)
    return pl.col("sent").str.json_path_match(path).cast(dtype, strict=False)
