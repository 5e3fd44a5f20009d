"""Checks a protobuf request: bounds, decoding, then every record; bad records are taken out, the others kept."""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any

from google.protobuf.message import DecodeError, Message

from ingest.otlp.refusals import Limits, Undecodable
from ingest.otlp.rejection import LOG_IDS, SPAN_IDS, IdRule, Rejections
from ingest.otlp.signals import METRIC_KINDS, SIGNALS, SignalName
from ingest.otlp.wire import scan

_CAUSES = {
    "bad UTF-8": "a text field is not valid UTF-8",
    "MaxDepth": "values are nested too deeply",
    "corrupt": "the protobuf is truncated or corrupt",
}
"""upb's words for a failure and ours; its own message names the type but not the cause in words for senders."""


def decode(signal: SignalName, body: bytes, limits: Limits) -> Any:
    """The request as a upb message; raises Undecodable or TooLarge."""
    scan(signal, body, limits)
    try:
        return SIGNALS[signal].request.FromString(body)
    except DecodeError as error:
        told = str(error)
        cause = next((ours for theirs, ours in _CAUSES.items() if theirs in told), "the protobuf cannot be decoded")
        raise Undecodable(cause, source=f"OTLP {signal} request") from None


def drop_bad_records(signal: SignalName, request: Any, rejections: Rejections) -> int:
    """Take out the records that cannot be stored, noting each; the number that stays."""
    match signal:
        case "traces":
            scopes = (scope.spans for resource in request.resource_spans for scope in resource.scope_spans)
            return sum(_drop(spans, SPAN_IDS, rejections) for spans in scopes)
        case "logs":
            scopes = (scope.log_records for resource in request.resource_logs for scope in resource.scope_logs)
            return sum(_drop(records, LOG_IDS, rejections) for records in scopes)
        case "metrics":
            return sum(map(_points, _metrics(request)))


def _drop(records: Any, rule: IdRule, rejections: Rejections) -> int:
    ids = list(map(attrgetter(*rule.fields), records))
    if ids and not rule.all_sound(list(zip(*ids, strict=True))):
        bad = {at: why for at, each in enumerate(ids) if (why := rule.fault(*each)) is not None}
        kept = [record for at, record in enumerate(records) if at not in bad]
        del records[:]
        records.extend(kept)
        for at, why in bad.items():
            rejections.add(at, why)
    return len(records)


def _metrics(request: Any) -> Iterable[Message]:
    return (
        metric for resource in request.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics
    )


def _points(metric: Any) -> int:
    kind = metric.WhichOneof("data")
    return len(getattr(metric, kind).data_points) if kind in METRIC_KINDS else 0
