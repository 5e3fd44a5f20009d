"""What stands around the records of a batch (request, resource, scope), and the table made of both."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.otlp.columns import Ints, members, nanoseconds, objects, short_json, short_text, spread, times
from ingest.otlp.signals import SignalName
from store.schema import RECORDS

Nanos = npt.NDArray[np.uint64]

RECORD_SIGNALS: dict[SignalName, str] = {"traces": "span", "logs": "log", "metrics": "metric"}
"""What one record of a signal is called in `records`."""


@dataclass(frozen=True, slots=True)
class Request:
    """One accepted OTLP request, as protobuf."""

    position: int
    """Its place in the journal."""
    received_ns: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Levels:
    """Requests, resources and scopes of a batch as columns, each with the index of what it belongs to."""

    signal: SignalName
    positions: Ints
    received_ns: Nanos
    request_of_resource: Ints
    service_name: pa.Array
    resource: pa.Array
    resource_extra: pa.Array
    """Members of a JSON object without its braces, or NULL: schema URL, dropped counts, entities."""
    resource_of_scope: Ints
    scope_name: pa.Array
    scope_version: pa.Array
    scope_extra: pa.Array
    """The same for a scope; also its attributes."""
    scope_of_record: Ints

    def table(self, columns: Mapping[str, pa.Array], extra: pa.Array | None, told_ns: Mapping[str, Nanos]) -> pa.Table:
        """The records with what stands around them.

        `columns` has what is their own, `extra` the members of their `extra`, `told_ns` their times, 0 if not told.
        """
        scope, resource = self.scope_of_record, self.resource_of_scope[self.scope_of_record]
        request = self.request_of_resource[resource]
        size, received = len(scope), self.received_ns[request]
        resource_extra = self.resource_extra.take(pa.array(self.resource_of_scope))
        around = _spread_members(members(self.scope_extra, resource_extra), scope)
        made = {
            **columns,
            **{name: nanoseconds(values) for name, values in told_ns.items()},
            "signal": pa.repeat(pa.scalar(RECORD_SIGNALS[self.signal]), size),
            "time": times(*(told_ns[name] for name in ("time_ns", "observed_ns") if name in told_ns), received),
            "received": times(received),
            "service_name": spread(self.service_name, resource, short_text),
            "resource": spread(self.resource, resource, short_json),
            "scope_name": spread(self.scope_name, scope, short_text),
            "scope_version": spread(self.scope_version, scope, short_text),
            "extra": objects(extra, around, size=size),
            "journal_position": pa.array(self.positions[request], pa.int64()),
            "ordinal": pa.array(self._ordinals(request), pa.int32()),
        }
        arrays = [made[each.name] if each.name in made else pa.nulls(size, each.arrow) for each in RECORDS]
        return pa.Table.from_arrays(arrays, names=[each.name for each in RECORDS])

    def _ordinals(self, request: Ints) -> Ints:
        """The place of each record in its request."""
        counts = np.bincount(request, minlength=len(self.positions))
        return np.arange(len(request)) - (np.cumsum(counts) - counts)[request]


def _spread_members(texts: pa.Array | None, owner: Ints) -> pa.Array | None:
    if texts is None or texts.null_count == len(texts):
        return None
    return spread(texts, owner, lambda text: f'"around":{short_json(text)}')
