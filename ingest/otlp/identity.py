"""Stable ids of records that bring none: log records and metric data points.

Delivered twice, a record gets the same id twice; two honest equal records of one request get two. The id comes from
the decoded message, not from the bytes sent, so it is the same however the record was encoded and batched.
"""

from collections import Counter
from hashlib import sha256
from typing import Any

_HEX_DIGITS = 32


def log_ids(request: Any) -> list[str]:
    """The ids of a request's log records, in order."""
    found = []
    for resource in request.resource_logs:
        outer = _digest(resource.resource.SerializeToString(), resource.schema_url.encode())
        for scope in resource.scope_logs:
            around = _digest(outer, scope.scope.SerializeToString(), scope.schema_url.encode())
            found += [sha256(around + each.SerializeToString()).hexdigest()[:_HEX_DIGITS] for each in scope.log_records]
    return numbered(found)


def point_id(around: bytes, metric: bytes, point: Any) -> str:
    """The id of a data point, before equal ones are numbered."""
    return _digest(around, metric, point.SerializeToString()).hex()[:_HEX_DIGITS]


def around_points(resource: Any, scope: Any) -> bytes:
    """What the ids of all points of a scope have in common."""
    outer = _digest(resource.resource.SerializeToString(), resource.schema_url.encode())
    return _digest(outer, scope.scope.SerializeToString(), scope.schema_url.encode())


def numbered(ids: list[str]) -> list[str]:
    """The ids of one request, equal ones told apart by how often they occurred before."""
    if len(set(ids)) == len(ids):
        return ids
    seen: Counter[str] = Counter()
    out = []
    for each in ids:
        occurrence = seen[each]
        seen[each] += 1
        out.append(
            each if not occurrence else _digest(bytes.fromhex(each), str(occurrence).encode()).hex()[:_HEX_DIGITS]
        )
    return out


def _digest(*parts: bytes) -> bytes:
    """One digest of several byte strings; each is hashed first, so that their borders count."""
    return sha256(b"".join([sha256(part).digest() for part in parts])).digest()
