"""Arrow columns of JSON text, ids and times, made for whole batches at once.

The techniques were measured: a row's JSON text is no join of lists but one new offset into a buffer in which the
fragments of all rows lie in order.
"""

import threading
from collections.abc import Callable, Sequence
from functools import reduce
from hashlib import sha256
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.otlp.values import quote

Ints = npt.NDArray[np.int64]
Offsets = npt.NDArray[np.int32]

TEXT = pa.string()
MICROS = pa.timestamp("us")
_NIBBLES = np.frombuffer(b"0123456789abcdef", np.uint8).astype("<u2")
_BYTE_AS_HEX = _NIBBLES[np.arange(256) >> 4] | _NIBBLES[np.arange(256) & 15] << 8
_NO_ID = pa.array(["", "0" * 16, "0" * 32])
_FEW = 1000
"""Up to this many texts a query would cost more than a loop."""
_ALWAYS_SPREAD_BYTES = 4096
_SPREAD_BYTES = 32 * 1024 * 1024
"""What a resource or scope says is repeated for each record below it, but not past this many bytes in all."""

_local = threading.local()


class NotColumnar(Exception):
    """ptars cannot read a request, or reads it otherwise than protobuf prescribes."""


def offsets(array: pa.Array) -> Offsets:
    """Where each list or text of an array begins and the last one ends."""
    if not len(array):
        return np.zeros(1, np.int32)
    return np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]


def sizes(arrays: Sequence[pa.Array]) -> Ints:
    """The length of each list of several arrays."""
    return np.concatenate([np.diff(offsets(array)) for array in arrays] or [np.zeros(0)]).astype(np.int64)


def concat(arrays: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    """The arrays one after the other, also if there are none."""
    return pa.concat_arrays(arrays) if arrays else pa.array([], kind)


def hex_texts(ids: pa.Array) -> pa.Array:
    """Bytes as lower-case hexadecimal digits."""
    at = offsets(ids)
    buffer = ids.buffers()[2] if len(ids) else None
    raw = np.frombuffer(buffer, np.uint8)[at[0] : at[-1]] if buffer is not None else np.zeros(0, np.uint8)
    return pa.StringArray.from_buffers(len(ids), pa.py_buffer((at - at[0]) * 2), pa.py_buffer(_BYTE_AS_HEX[raw]))


def hex_ids(ids: pa.Array) -> pa.Array:
    """Ids as hexadecimal digits; empty or all zero means there is none."""
    texts = hex_texts(ids)
    return pc.if_else(pc.is_in(texts, value_set=_NO_ID), pa.scalar(None, TEXT), texts)


def quoted(texts: pa.Array) -> pa.Array:
    """Texts as JSON strings; NULL stays NULL."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), TEXT)
    if len(texts) <= _FEW:
        return pa.array([None if text is None else quote(text) for text in texts.to_pylist()], TEXT)
    connection = _connection()
    connection.register("texts", pa.table({"text": texts}))
    query = "select case when text is not null then to_json(text)::varchar end as json from texts"
    result = connection.sql(query).to_arrow_table()["json"].combine_chunks()
    connection.unregister("texts")
    return one_array(result, TEXT)


def one_array(array: Any, kind: pa.DataType) -> pa.Array:
    """A plain array of the type, whatever form the column has."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = concat(array.chunks, array.type)
    return array if array.type == kind else array.cast(kind)


def _connection() -> duckdb.DuckDBPyConnection:
    """DuckDB only as a fast JSON writer; each thread has its own."""
    if not hasattr(_local, "connection"):
        _local.connection = duckdb.connect(":memory:", config={"threads": 1})
    connection: duckdb.DuckDBPyConnection = _local.connection
    return connection


def joined(*parts: Any) -> pa.Array:
    """The parts of each row one after the other; NULL parts are left out, but in no row may all be NULL."""
    return pc.binary_join_element_wise(*parts, "", null_handling="skip")


def rows(fragments: pa.Array, at: Offsets) -> pa.Array:
    """For each row the fragments between two offsets as one text; empty where there are none. Copies nothing."""
    ends = offsets(fragments)[at]
    return pa.StringArray.from_buffers(len(at) - 1, pa.py_buffer(ends), fragments.buffers()[2] or pa.py_buffer(b""))


def lists(elements: pa.Array, at: Offsets) -> pa.Array:
    """For each row a JSON array of its elements; NULL where there are none."""
    filled = at[:-1] < at[1:]
    opens, closes = np.zeros(len(elements), np.int8), np.zeros(len(elements), np.int8)
    opens[at[:-1][filled]] = 1
    closes[at[1:][filled] - 1] = 1
    heads, tails = pa.array([",", "["]).take(pa.array(opens)), pa.array(["", "]"]).take(pa.array(closes))
    texts = rows(joined(heads, elements, tails), at)
    return texts if filled.all() else pc.if_else(pa.array(filled), texts, pa.scalar(None, TEXT))


def member(name: str, values: pa.Array | None) -> pa.Array | None:
    """`"name":value` for each JSON value; NULL where there is none."""
    if values is None or values.null_count == len(values):
        return None
    return pc.binary_join_element_wise(f'"{name}":', values, "")


def members(*parts: pa.Array | None) -> pa.Array | None:
    """Members separated by commas, without the braces; NULL where there are none."""
    present = [part for part in parts if part is not None]
    if len(present) < 2:
        return present[0] if present else None
    none = reduce(pc.and_, map(pc.is_null, present))
    first = pc.if_else(none, "", present[0])  # pyarrow 26 leaves out rows in which all parts are NULL
    text = pc.binary_join_element_wise(first, *present[1:], ",", null_handling="skip")
    return pc.if_else(none, pa.scalar(None, TEXT), text)


def objects(*parts: pa.Array | None, size: int) -> pa.Array:
    """JSON objects of the members; NULL where there are none."""
    inside = members(*parts)
    return pa.nulls(size, TEXT) if inside is None else pc.binary_join_element_wise("{", inside, "}", "")


def numbers(values: pa.Array) -> pa.Array | None:
    """Whole numbers as JSON, NULL where 0; None if all are."""
    given = pc.not_equal(values, 0)
    if not pc.any(given).as_py():
        return None
    return pc.if_else(given, values.cast(TEXT), pa.scalar(None, TEXT))


def texts_given(values: pa.Array) -> pa.Array | None:
    """Texts as JSON, NULL where empty; None if all are."""
    given = pc.and_kleene(pc.is_valid(values), pc.not_equal(values, ""))
    if not pc.any(given).as_py():
        return None
    return quoted(pc.if_else(given, values, pa.scalar(None, TEXT)))


def filled_texts(values: pa.Array) -> pa.Array:
    """Texts, NULL where empty."""
    return pc.if_else(pc.equal(values, ""), pa.scalar(None, TEXT), values)


def nanoseconds(values: npt.NDArray[np.uint64]) -> pa.Array:
    """Times as sent, NULL where not told."""
    return pa.array(values, pa.uint64(), mask=values == 0)


def times(*choices: npt.NDArray[np.uint64]) -> pa.Array:
    """UTC times from the first choice, in nanoseconds, that is told (not 0)."""
    chosen = reduce(lambda first, second: np.where(first == 0, second, first), choices)
    return pa.array((chosen // 1000).astype(np.int64)).view(MICROS)


def spread(texts: pa.Array, owner: Ints, shorten: Callable[[str], str]) -> pa.Array:
    """For each record the text of what it belongs to.

    A request may hold a huge resource and many records: past a bound only the first record of a resource or scope
    keeps the text, the others a shortened one.
    """
    length = np.diff(offsets(texts)).astype(np.int64)
    if not len(owner) or length.max() <= _ALWAYS_SPREAD_BYTES:
        return texts.take(pa.array(owner))
    heavy = (length > _ALWAYS_SPREAD_BYTES) & (length * np.bincount(owner, minlength=len(length)) > _SPREAD_BYTES)
    if not heavy.any():
        return texts.take(pa.array(owner))
    cut = np.zeros(len(length), np.int64)
    cut[heavy] = len(length) + np.arange(heavy.sum())
    later = np.concatenate(([False], owner[1:] == owner[:-1])) & heavy[owner]
    index = np.where(later, cut[owner], owner)
    short = [shorten(texts[int(at)].as_py()) for at in np.flatnonzero(heavy)]
    return pa.concat_arrays([texts, pa.array(short, TEXT)]).take(pa.array(index))


def short_json(text: str) -> str:
    """What stands for a JSON text that was cut."""
    data = text.encode()
    return f'{{"truncated":true,"size_bytes":{len(data)},"sha256":"{sha256(data).hexdigest()}"}}'


def short_text(text: str) -> str:
    """What stands for a plain text that was cut."""
    data = text.encode()
    return f"{text[:256]} [truncated: {len(data)} bytes, sha256 {sha256(data).hexdigest()}]"
