"""The attributes of many records side by side: as JSON texts, and single keys as typed columns."""

import json
from collections.abc import Sequence
from functools import cached_property, reduce

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from ingest.batch import Dtype, from_float, from_text
from ingest.otlp.columns import TEXT, Ints, NotColumnar, concat, joined, offsets, one_array, quoted, rows
from ingest.otlp.values import array_text, bytes_text, object_text

_PLAIN = {
    "string_value": pa.string(),
    "int_value": pa.int64(),
    "double_value": pa.float64(),
    "bool_value": pa.bool_(),
}
_NESTED = ("array_value", "kvlist_value", "bytes_value")
_FOREIGN = "string_value_strindex"
"""An index into the string table of another signal; where one is sent all the same, it counts as a second value."""


class Attributes:
    """Attribute lists of many records, decoded by ptars: one Arrow list array per decoded piece."""

    def __init__(self, pieces: Sequence[pa.ListArray]) -> None:
        flat = [piece.flatten() for piece in pieces]
        keys = concat([each.field("key") for each in flat], TEXT).dictionary_encode()
        self._names: list[str] = keys.dictionary.to_pylist()
        self._codes = keys.indices.to_numpy()
        values = [_values(each) for each in flat]
        self._values = {name: concat([each[name] for each in values], kind) for name, kind in _PLAIN.items()}
        self._nested = _nested_texts(values)
        self._unset = self._checked_unset(values)
        size = np.concatenate([np.diff(offsets(piece)) for piece in pieces] or [np.zeros(0)])
        self._offsets = np.concatenate(([0], np.cumsum(size))).astype(np.int32)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def _checked_unset(self, values: Sequence[dict[str, pa.Array]]) -> pa.Array:
        """Where there is no value at all.

        Protobuf lets a sender write two kinds of value for one attribute and the last one counts, but ptars keeps both.
        """
        kinds = [*self._values.values(), *([] if self._nested is None else [self._nested])]
        unset = reduce(pc.and_, map(pc.is_null, kinds))
        given = sum(len(each) - each.null_count for piece in values for each in piece.values())
        if given + (pc.sum(unset).as_py() or 0) != len(unset):
            raise NotColumnar("an attribute has two values")
        return unset

    def json(self) -> pa.Array:
        """For each record its attributes as a JSON object, in the order sent; a repeated key stays repeated."""
        at = self._offsets
        filled = at[:-1] < at[1:]
        names = [json.dumps(name, ensure_ascii=False) for name in self._names]
        heads = pa.array([f",{name}:" for name in names] + [f"{{{name}:" for name in names], TEXT)
        code = self._codes.astype(np.int32)
        code[at[:-1][filled]] += len(names)  # the first key of a record opens the brace
        last = np.zeros(len(code), np.int8)
        last[at[1:][filled] - 1] = 1  # the last one closes it
        tails = pa.array(["", "}"]).take(pa.array(last))
        texts = rows(joined(heads.take(pa.array(code)), *self._texts(), tails), at)
        return texts if filled.all() else pc.if_else(pa.array(filled), texts, "{}")

    def _texts(self) -> list[pa.Array]:
        """JSON texts of the values by kind; at each place exactly one is not NULL."""
        texts = [quoted(self._values["string_value"])]
        texts += [self._values[name].cast(TEXT) for name in ("int_value", "bool_value") if self._has(name)]
        if self._has("double_value"):
            texts.append(_double_texts(self._values["double_value"]))
        if self._nested is not None:
            texts.append(self._nested)
        if pc.any(self._unset).as_py():
            texts.append(pc.if_else(self._unset, "null", pa.scalar(None, TEXT)))
        return texts

    def _has(self, name: str) -> bool:
        return bool(self._values[name].null_count < len(self._values[name]))

    @cached_property
    def _code_of(self) -> dict[str, int]:
        return {name: code for code, name in enumerate(self._names)}

    @cached_property
    def _by_key(self) -> tuple[Ints, Ints]:
        """All places ordered by key, and where each key's places begin."""
        few = len(self._names) < 65536
        order = np.argsort(self._codes.astype(np.uint16) if few else self._codes, kind="stable")  # 16 bits: radix sort
        counts = np.bincount(self._codes, minlength=len(self._names))
        return order, np.concatenate(([0], np.cumsum(counts)))

    @cached_property
    def _row_of(self) -> Ints:
        return np.repeat(np.arange(len(self)), np.diff(self._offsets))

    def column(self, key: str, dtype: Dtype) -> pl.Series | None:
        """See AttributeColumns."""
        code = self._code_of.get(key)
        if code is None:
            return None
        order, starts = self._by_key
        places = order[starts[code] : starts[code + 1]]
        found = self._converted(pa.array(places), dtype)
        owners = self._row_of[places]
        if len(places) != len(self) or (np.diff(owners) == 0).any():
            # Backwards, so that the first of equal keys stays.
            index = np.full(len(self), -1, np.int64)
            index[owners[::-1]] = np.arange(len(places))[::-1]
            found = found.take(pa.array(index, mask=index < 0))
        series = pl.from_arrow(found)
        assert isinstance(series, pl.Series)
        return series.cast(dtype, strict=False).alias(key)

    def _converted(self, places: pa.Array, dtype: Dtype) -> pa.Array:
        """The values at the places in the wanted type, each kind of value converted its own way."""
        native = next((name for name, kind in _NATIVE.items() if dtype == kind), "string_value")
        found = self._values[native].take(places)
        if found.null_count == 0:
            return found
        result = pl.Series(found) if dtype == _NATIVE[native] else pl.repeat(None, len(found), dtype=dtype, eager=True)
        for name in _PLAIN:
            others = self._values[name].take(places)
            if others.null_count < len(others):
                result = result.fill_null(_as(pl.Series(others), dtype))
        if dtype == pl.String and self._nested is not None:
            result = result.fill_null(pl.Series(self._nested.take(places)))
        return result.to_arrow()


_NATIVE: dict[str, Dtype] = {
    "string_value": pl.String,
    "int_value": pl.Int64,
    "double_value": pl.Float64,
    "bool_value": pl.Boolean,
}


def _as(values: pl.Series, wanted: Dtype) -> pl.Series:
    """Values of one kind as another."""
    if values.dtype == wanted:
        return values
    if values.dtype == pl.String:
        return from_text(values, wanted)
    if wanted == pl.Boolean or (values.dtype == pl.Boolean and wanted != pl.String):
        return pl.repeat(None, len(values), dtype=wanted, eager=True)  # 1 is not true, and true is not 1
    if values.dtype == pl.Float64 and wanted.is_integer():
        return from_float(values, wanted)
    return values.cast(wanted, strict=False)


def _values(flat: pa.StructArray) -> dict[str, pa.Array]:
    """The kinds of value as separate columns; the attribute may have no value at all."""
    value = flat.field("value")
    if not value.null_count:
        return {name: value.field(name) for name in (*_PLAIN, *_NESTED, _FOREIGN)}
    names = [value.type.field(at).name for at in range(value.type.num_fields)]
    return dict(zip(names, value.flatten(), strict=True))


def _double_texts(doubles: pa.Array) -> pa.Array:
    """JSON numbers that stay recognisable as floating-point; those JSON does not have become strings."""
    given = np.flatnonzero(doubles.is_valid().to_numpy(zero_copy_only=False))
    numbers = doubles.take(pa.array(given))
    texts = one_array(pl.Series(numbers).cast(pl.String).to_arrow(), TEXT)
    finite = pc.is_finite(numbers)
    if not pc.all(finite).as_py():
        spelled = pc.replace_substring(texts, "inf", "Infinity")
        texts = pc.if_else(finite, texts, pc.binary_join_element_wise('"', spelled, '"', ""))
    return _scattered(texts, given, len(doubles))


def _nested_texts(pieces: Sequence[dict[str, pa.Array]]) -> pa.Array | None:
    """JSON texts of arrays, maps and bytes, NULL for all other values; None if there are none at all."""
    places: list[Ints] = []
    texts: list[str] = []
    before = 0
    for piece in pieces:
        for name in _NESTED:
            column = piece[name]
            if column.null_count < len(column):
                at = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
                places.append(at + before)
                texts += _texts_of(name, column.take(pa.array(at)))
        before += len(piece["bytes_value"])
    if not texts:
        return None
    return _scattered(pa.array(texts, TEXT), np.concatenate(places), before)


def _scattered(texts: pa.Array, places: Ints, size: int) -> pa.Array:
    """The texts at their places, NULL between them."""
    index = np.full(size, -1, np.int32)
    index[places] = np.arange(len(texts))
    return texts.take(pa.array(index, mask=index < 0))


def _texts_of(name: str, column: pa.Array) -> list[str]:
    if name == "bytes_value":
        return [bytes_text(data) for data in column.to_pylist()]
    elements = column.field("values").to_pylist()  # what may contain itself is left encoded by ptars
    if name == "array_value":
        return [array_text(map(AnyValue.FromString, each)) for each in elements]
    return [object_text(map(KeyValue.FromString, each)) for each in elements]
