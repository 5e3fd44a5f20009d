"""Metric data points as rows of `records`."""

from collections.abc import Iterator
from typing import Any

from ingest.otlp.columns import short_text
from ingest.otlp.identity import point_id
from ingest.otlp.names import TEMPORALITIES, lookup
from ingest.otlp.values import number_text, object_text, quote

_LONG_CHARS = 4096
"""A longer name, description or unit is kept with the first point of its metric only."""


def rows(metric: Any, around: bytes) -> Iterator[dict[str, Any]]:
    """One row per data point; `around` stands for resource and scope in its id."""
    kind = metric.WhichOneof("data")
    if kind is None:
        return
    data = getattr(metric, kind)
    head = _head(metric, kind, data)
    identity = ",".join([quote(metric.name), kind, *head]).encode()
    name = metric.name
    for point in data.data_points:
        yield {
            "record_id": point_id(around, identity, point),
            "time_ns": point.time_unix_nano,
            "name": name,
            "kind": kind,
            "value": _value(kind, point),
            "attributes": object_text(point.attributes),
            "attribute_list": point.attributes,
            "point": f"{{{','.join([*head, *_POINTS[kind](point)])}}}",
            "extra": {"flags": str(point.flags) if point.flags else None},
        }
        head = [part for part in head if len(part) <= _LONG_CHARS]
        if len(name) > _LONG_CHARS:
            name = short_text(name)


def _head(metric: Any, kind: str, data: Any) -> list[str]:
    """What all points of a metric share, as members of a JSON object."""
    head = []
    if metric.unit:
        head.append(f'"unit":{quote(metric.unit)}')
    if metric.description:
        head.append(f'"description":{quote(metric.description)}')
    if kind in ("sum", "histogram", "exponential_histogram"):
        head.append(f'"temporality":{quote(lookup(TEMPORALITIES, data.aggregation_temporality))}')
    if kind == "sum":
        head.append(f'"monotonic":{"true" if data.is_monotonic else "false"}')
    if metric.metadata:
        head.append(f'"metadata":{object_text(metric.metadata)}')
    return head


def _value(kind: str, point: Any) -> float | None:
    if kind not in ("gauge", "sum"):
        return None
    which = point.WhichOneof("value")
    return None if which is None else float(getattr(point, which))


def _number(point: Any) -> list[str]:
    whole = [f'"int_value":{point.as_int}'] if point.WhichOneof("value") == "as_int" else []
    return [*_start(point), *whole, *_exemplars(point)]


def _histogram(point: Any) -> list[str]:
    buckets = [
        f'"bucket_counts":[{",".join(map(str, point.bucket_counts))}]',
        f'"explicit_bounds":[{",".join(map(number_text, point.explicit_bounds))}]',
    ]
    return [
        *_start(point),
        f'"count":{point.count}',
        *_optional(point, "sum", "min", "max"),
        *buckets,
        *_exemplars(point),
    ]


def _exponential(point: Any) -> list[str]:
    buckets = [
        f'"{name}":{{"offset":{side.offset},"bucket_counts":[{",".join(map(str, side.bucket_counts))}]}}'
        for name, side in (("positive", point.positive), ("negative", point.negative))
        if point.HasField(name)
    ]
    zero = [f'"zero_count":{point.zero_count}', f'"zero_threshold":{number_text(point.zero_threshold)}']
    numbers = [f'"count":{point.count}', *_optional(point, "sum", "min", "max"), f'"scale":{point.scale}']
    return [*_start(point), *numbers, *zero, *buckets, *_exemplars(point)]


def _summary(point: Any) -> list[str]:
    quantiles = [
        f'{{"quantile":{number_text(each.quantile)},"value":{number_text(each.value)}}}'
        for each in point.quantile_values
    ]
    totals = [f'"count":{point.count}', f'"sum":{number_text(point.sum)}']
    return [*_start(point), *totals, f'"quantiles":[{",".join(quantiles)}]']


_POINTS = {
    "gauge": _number,
    "sum": _number,
    "histogram": _histogram,
    "exponential_histogram": _exponential,
    "summary": _summary,
}


def _start(point: Any) -> list[str]:
    return [f'"start_ns":{point.start_time_unix_nano}'] if point.start_time_unix_nano else []


def _optional(point: Any, *names: str) -> list[str]:
    return [f'"{name}":{number_text(getattr(point, name))}' for name in names if point.HasField(name)]


def _exemplars(point: Any) -> list[str]:
    return [f'"exemplars":[{",".join(map(_exemplar, point.exemplars))}]'] if point.exemplars else []


def _exemplar(exemplar: Any) -> str:
    parts = [f'"time_ns":{exemplar.time_unix_nano}']
    match exemplar.WhichOneof("value"):
        case "as_int":
            parts.append(f'"value":{exemplar.as_int}')
        case "as_double":
            parts.append(f'"value":{number_text(exemplar.as_double)}')
    parts += [f'"{name}":"{value.hex()}"' for name in ("trace_id", "span_id") if (value := getattr(exemplar, name))]
    if exemplar.filtered_attributes:
        parts.append(f'"attributes":{object_text(exemplar.filtered_attributes)}')
    return f"{{{','.join(parts)}}}"
