"""A batch of records on its way to the store, whose attributes can be asked for as columns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, cast

import orjson
import polars as pl
import pyarrow as pa

from store.schema import RECORDS, arrow_schema

Dtype = type[pl.DataType] | pl.DataType


class AttributeColumns(Protocol):
    """Where the attributes of some records are found."""

    def column(self, key: str, dtype: Dtype) -> pl.Series | None:
        """One attribute for each record, NULL where a record lacks it; None if no record has it.

        Numbers sent as text and text sent as numbers are converted to the wanted type; what cannot be is NULL.
        As text, arrays and maps are JSON. Where a record has a key twice, the first counts.
        """


@dataclass(frozen=True, slots=True)
class Part:
    """Records of one origin, exactly the columns of `records`, and their attributes."""

    records: pa.Table
    attributes: AttributeColumns


class Batch:
    """Records of one or more origins as one table."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = tuple(parts)

    @classmethod
    def of_table(cls, records: pa.Table) -> "Batch":
        """A batch of records whose attributes are only there as JSON."""
        return cls([Part(records, JsonAttributes(records["attributes"]))])

    @classmethod
    def concat(cls, batches: Iterable["Batch"]) -> "Batch":
        """Several batches as one; nothing is copied."""
        return cls([part for batch in batches for part in batch.parts])

    def __len__(self) -> int:
        return sum(part.records.num_rows for part in self.parts)

    @cached_property
    def records(self) -> pa.Table:
        """All records, with the columns of `records`."""
        empty = arrow_schema(RECORDS).empty_table()
        return pa.concat_tables([part.records for part in self.parts]) if self.parts else empty

    def frame(self, keys: Mapping[str, Any] | None = None) -> pl.DataFrame:
        """The columns of `records`, and one for each wanted attribute key that a record has, in the wanted type."""
        frame = cast(pl.DataFrame, pl.from_arrow(self.records, rechunk=False))
        found = (_column(self.parts, key, dtype) for key, dtype in (keys or {}).items())
        return frame.with_columns(series for series in found if series is not None)


def _column(parts: Sequence[Part], key: str, dtype: Dtype) -> pl.Series | None:
    found = [part.attributes.column(key, dtype) for part in parts]
    if all(series is None or series.null_count() == len(series) for series in found):
        return None
    sized = zip(parts, found, strict=True)
    return pl.concat(
        [pl.repeat(None, part.records.num_rows, dtype=dtype, eager=True) if s is None else s for part, s in sized]
    ).alias(key)


class JsonAttributes:
    """Attributes that are only there as JSON text: parsed once, when first asked for."""

    def __init__(self, texts: pa.ChunkedArray) -> None:
        self._texts = texts

    @cached_property
    def _parsed(self) -> list[dict[str, Any]]:
        return [orjson.loads(text) if text else {} for text in self._texts.to_pylist()]

    @cached_property
    def _keys(self) -> set[str]:
        return {key for attributes in self._parsed for key in attributes}

    def column(self, key: str, dtype: Dtype) -> pl.Series | None:
        """See AttributeColumns."""
        if key not in self._keys:
            return None
        texts = [_text(attributes.get(key)) for attributes in self._parsed]
        return from_text(pl.Series(key, texts, dtype=pl.String), dtype)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return orjson.dumps(value).decode()


def from_text(texts: pl.Series, dtype: Dtype) -> pl.Series:
    """Texts as the wanted type; what is none is NULL. A whole number may be written with a decimal point."""
    if dtype == pl.String:
        return texts
    if dtype == pl.Boolean:
        return texts.replace_strict({"true": True, "false": False}, default=None, return_dtype=pl.Boolean)
    if dtype.is_integer():
        whole = texts.cast(dtype, strict=False)
        if whole.null_count() > texts.null_count():
            whole = whole.fill_null(from_float(texts.cast(pl.Float64, strict=False), dtype))
        return whole
    return texts.cast(dtype, strict=False)


def from_float(numbers: pl.Series, dtype: Dtype) -> pl.Series:
    """Whole floating-point numbers as integers; others are no integers and so NULL."""
    return numbers.set(numbers != numbers.round(), None).cast(dtype, strict=False)
