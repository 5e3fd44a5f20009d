"""Which tools a model asked for, read from its answer: all there is where the program that ran them tells nothing."""

import polars as pl
from polars._typing import PolarsDataType

from ingest.batch import Dtype
from ingest.dialects.expressions import attribute, events_of, first, json_object, sent

PLACES = 8
"""So many calls of one answer are read from flattened attributes, which number them."""

OUTPUT = "gen_ai.output.messages"
CHOICE = "gen_ai.choice"
OPENINFERENCE = "llm.output_messages.0.message.tool_calls.{}.tool_call."
COMPLETION = "gen_ai.completion.0.tool_calls.{}."
SINGLE = "gen_ai.completion.0.function_call.name"

FLATTENED = (
    *((f"{OPENINFERENCE.format(at)}id", f"{OPENINFERENCE.format(at)}function.name") for at in range(PLACES)),
    *((f"{COMPLETION.format(at)}id", f"{COMPLETION.format(at)}name") for at in range(PLACES)),
)
WANTS: dict[str, Dtype] = dict.fromkeys((OUTPUT, SINGLE, *(key for pair in FLATTENED for key in pair)), pl.String)

ASKED = pl.List(pl.Struct({"_id": pl.String, "_name": pl.String}))
PART = pl.Struct({"type": pl.String, "id": pl.String, "name": pl.String})
MESSAGES = pl.List(pl.Struct({"parts": pl.List(PART)}))
CALL = pl.Struct({"id": pl.String, "name": pl.String, "function": pl.Struct({"name": pl.String})})
BODY = pl.Struct({"message": pl.Struct({"tool_calls": pl.List(CALL)}), "tool_calls": pl.List(CALL)})

IS_CHOICE = (pl.col("signal") == "log") & (pl.col("name") == CHOICE).fill_null(False)


def asked(records: pl.LazyFrame, is_model: pl.Expr) -> pl.LazyFrame:
    """One event per tool call that an answer asks for; only answers that ask for one are looked at closely."""
    each = (
        records.filter((is_model.fill_null(False) & _may_ask()) | (IS_CHOICE & _names_tools("body")))
        .with_columns(_asked=pl.concat_list(_in_messages(), _in_choice(), _in_attributes()))
        .filter(pl.col("_asked").list.len() > 0)
        .with_columns(_place=pl.int_ranges(0, pl.col("_asked").list.len()))
        .explode("_asked", "_place")
        .unnest("_asked")
    )
    return events_of(
        each,
        type=pl.when(pl.col("_name") != "").then(pl.lit("tool.args")),
        event_id=pl.concat_str("record_id", pl.lit(":asked:"), pl.col("_place")),
        tool_call_id=pl.col("_id"),
        tool_name=pl.col("_name"),
        status=pl.lit("requested"),
        payload=json_object({}, status=pl.lit("requested"), tool_call_id=pl.col("_id"), tool_name=pl.col("_name")),
    )


def _names_tools(column: str) -> pl.Expr:
    return pl.col(column).str.contains("tool_call", literal=True).fill_null(False)


def _may_ask() -> pl.Expr:
    return attribute(OUTPUT).str.contains('"tool_call"', literal=True).fill_null(False) | sent(
        SINGLE, *(name for _, name in FLATTENED)
    )


def _in_messages() -> pl.Expr:
    """The convention's messages: parts of type `tool_call`."""
    messages = attribute(OUTPUT).map_batches(lambda texts: _decoded(texts, MESSAGES), return_dtype=MESSAGES)
    parts = messages.list.eval(pl.element().struct.field("parts").explode())
    one = pl.element().struct
    calls = parts.list.eval(
        pl.struct(_id=one.field("id"), _name=one.field("name")).filter(one.field("type") == "tool_call")
    )
    return pl.coalesce(calls, pl.lit([], ASKED))


def _in_choice() -> pl.Expr:
    """The older event about an answer, whose body is the provider's message."""
    body = pl.when(IS_CHOICE).then(pl.col("body")).map_batches(lambda texts: _decoded(texts, BODY), return_dtype=BODY)
    told = pl.coalesce(body.struct.field("message").struct.field("tool_calls"), body.struct.field("tool_calls"))
    one = pl.element().struct
    name = pl.coalesce(one.field("function").struct.field("name"), one.field("name"))
    return pl.coalesce(told.list.eval(pl.struct(_id=one.field("id"), _name=name)), pl.lit([], ASKED))


def _in_attributes() -> pl.Expr:
    """Flattened lists, one attribute per field of each call."""
    pairs = [(first(name_id), first(name)) for name_id, name in FLATTENED]
    pairs.append((pl.lit(None, pl.String), first(SINGLE)))
    listed = pl.concat_list(pl.struct(_id=call_id, _name=name) for call_id, name in pairs)
    return listed.list.eval(pl.element().filter(pl.element().struct.field("_name").is_not_null()))


def _decoded(texts: pl.Series, dtype: PolarsDataType) -> pl.Series:
    """Texts as JSON of a shape; one that is of another shape is NULL and costs the others nothing but a second look."""
    try:
        return texts.str.json_decode(dtype)
    except pl.exceptions.ComputeError:
        if len(texts) == 1:
            return pl.Series(texts.name, [None], dtype=dtype)
        half = len(texts) // 2
        return pl.concat([_decoded(texts[:half], dtype), _decoded(texts[half:], dtype)])
