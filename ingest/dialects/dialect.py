"""What a dialect is, and how a batch of records becomes events: each record is claimed by at most one dialect."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import polars as pl
import pyarrow as pa

from ingest import pricing
from ingest.batch import Batch, Dtype
from ingest.dialects.expressions import SESSION_KEYS, Wanted, session_key
from models.pricing import PriceTable
from store.schema import EVENTS, RECORDS, arrow_schema

PRIORITY = (
    "agent_runtime",
    "transcript_claude_code",
    "transcript_codex",
    "transcript_gemini",
    "transcript_inspect",
    "transcript_swe_agent",
    "transcript_langfuse",
    "transcript_agent_runner",
    "claude_code",
    "codex",
    "gemini_cli",
    "google_adk",
    "agent_framework",
    "litellm",
    "traceloop",
    "openinference",
    "gen_ai",
    "http_headers",
)
"""Who is asked first whether a record is its own: our own form, then clients, then conventions.

A client's dialect belongs between our own and the conventions, which claim anything that carries their attributes.
"""


OWN_COLUMNS = frozenset(column.name for column in RECORDS)
"""An attribute of such a name cannot be asked for: it would hide the record's own."""


@dataclass(frozen=True, slots=True)
class Translated:
    """What a batch means."""

    events: pl.DataFrame
    """Exactly the columns of `events`."""

    dialect: pl.Series
    """For each record, the dialect that claimed it, or NULL."""

    session_key: pl.Series
    """For each record, the session it names itself, or NULL."""


class Dialect:
    """How one sender or convention speaks. Declaring a subclass with a `name` registers it.

    All of it works on whole frames. A dialect sees one batch: what needs two records is left to the relations.
    """

    name: ClassVar[str]
    registry: ClassVar[dict[str, type["Dialect"]]] = {}

    wants: ClassVar[Wanted]
    """The attributes it reads, and as what; a number that arrives as a text is read as a number."""

    claims: ClassVar[pl.Expr]
    """Whether a record is its own."""

    def __init_subclass__(cls, *, name: str, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if name not in PRIORITY:
            raise TypeError(f"dialect {name!r} has no place in PRIORITY")
        if name in Dialect.registry:
            raise TypeError(f"dialect {name!r} is declared twice")
        if hidden := OWN_COLUMNS & cls.wants.keys():
            raise TypeError(f"dialect {name!r} wants attributes named like columns of records: {sorted(hidden)}")
        cls.name = name
        Dialect.registry[name] = cls

    @abstractmethod
    def events(self, records: pl.LazyFrame) -> pl.LazyFrame:
        """The events of the records it claimed, with the columns of `events` it knows; the others become NULL."""


def translate(batch: Batch, prices: PriceTable | None = None) -> Translated:
    """Find what each record of a batch means; calls are priced by the table, or by the installed one."""
    spoken = [Dialect.registry[name] for name in PRIORITY if name in Dialect.registry]
    frame = batch.frame(_wanted(tuple(spoken)))
    frame = frame.with_columns(
        dialect=pl.coalesce(pl.when(one.claims).then(pl.lit(one.name)) for one in spoken),
        session_key=session_key(),
    )
    present = set(frame["dialect"].unique())
    parts = [
        one()
        .events(frame.lazy().filter(pl.col("dialect") == one.name))
        .with_columns(dialect=pl.lit(one.name))
        .collect(engine="in-memory")  # small frames: a streaming engine costs more than it saves
        for one in spoken
        if one.name in present
    ]
    return Translated(_with_costs(_in_full(parts), prices), frame["dialect"], frame["session_key"])


@cache
def _wanted(spoken: tuple[type[Dialect], ...]) -> Wanted:
    wanted: dict[str, Dtype] = dict.fromkeys(SESSION_KEYS, pl.String)
    for one in spoken:
        for key, dtype in one.wants.items():
            if wanted.setdefault(key, dtype) != dtype:
                raise TypeError(f"dialects want {key!r} as {wanted[key]} and as {dtype}")
    return wanted


@cache
def event_schema() -> dict[str, pl.DataType]:
    """The columns of `events`, in order."""
    return dict(_empty_events().schema)


@cache
def _empty_events() -> pl.DataFrame:
    empty = pl.from_arrow(pa.Table.from_pylist([], schema=arrow_schema(EVENTS)))
    assert isinstance(empty, pl.DataFrame)
    return empty


def _in_full(parts: list[pl.DataFrame]) -> pl.DataFrame:
    """All events of the dialects in one frame, with every column and its type."""
    columns = [
        part.select(
            (pl.col(name) if name in part.columns else pl.lit(None)).cast(dtype).alias(name)
            for name, dtype in event_schema().items()
        )
        for part in parts
    ]
    return pl.concat([_empty_events(), *columns])


def _with_costs(events: pl.DataFrame, prices: PriceTable | None) -> pl.DataFrame:
    """Price the model calls whose cost the sender did not tell; a cost nobody knows is `unknown`, never 0."""
    calls = pl.col("type").is_in(["model.completed", "model.failed"]) | (
        (pl.col("type") == "model.requested") & (pl.col("status") == "unknown")
    )
    untold = events.with_row_index("at").filter(calls & pl.col("cost_usd").is_null())
    if not untold.is_empty():
        found = untold.select("at").with_columns(pricing.costs(untold, prices).get_columns())
        events = events.with_row_index("at").update(found, on="at").drop("at")
    state = (
        pl.when(pl.col("cost_usd").is_null())
        .then(pl.lit("unknown"))
        .when(pl.col("price_entry").is_not_null())
        .then(pl.lit("priced"))
        .otherwise(pl.lit("reported"))
    )
    return events.with_columns(cost_state=pl.coalesce("cost_state", pl.when(calls).then(state)))
