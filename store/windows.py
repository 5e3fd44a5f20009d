"""Time windows: few ranges that cover given times, so that a query reads only the row groups it needs."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

GAP_US = 60_000_000
"""Times closer than this share a window."""

AT_MOST = 16
"""More windows than this cost more to test than they save; then the widest holes alone divide them."""

Window = tuple[int, int]
Microseconds = npt.NDArray[np.int64]


def windows(first_us: Microseconds, last_us: Microseconds | None = None) -> list[Window]:
    """Ranges in microseconds since 1970 that cover all spans from `first_us` to `last_us` (or all single times)."""
    if len(first_us) == 0:
        return []
    order = np.argsort(first_us, kind="stable")
    first = first_us[order]
    reached = first if last_us is None else np.maximum.accumulate(last_us[order])
    holes = first[1:] - reached[:-1]
    cuts = np.flatnonzero(holes > GAP_US)
    if len(cuts) >= AT_MOST:
        cuts = np.sort(cuts[np.argsort(holes[cuts])[-(AT_MOST - 1) :]])
    starts = np.concatenate(([0], cuts + 1))
    ends = np.concatenate((cuts, [len(first) - 1]))
    return [(int(first[start]), int(reached[end])) for start, end in zip(starts, ends, strict=True)]


def within(column: str, ranges: Iterable[Window]) -> str:
    """A SQL condition: the column lies in one of the windows."""
    tests = [f"{column} between make_timestamp({low}) and make_timestamp({high})" for low, high in ranges]
    return f"({' or '.join(tests)})" if tests else "false"
