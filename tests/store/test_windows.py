"""Time windows cover every time given, with few and narrow ranges."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from store.windows import AT_MOST, GAP_US, windows

TIMES = st.lists(st.integers(-(10**15), 10**16), min_size=1, max_size=200)


@given(TIMES)
def test_every_time_lies_in_a_window_and_there_are_few(times: list[int]) -> None:
    found = windows(np.array(times, dtype=np.int64))
    assert all(any(low <= time <= high for low, high in found) for time in times)
    assert len(found) <= AT_MOST
    assert all(low in times and high in times for low, high in found)


@given(TIMES, st.integers(0, 10**12))
def test_windows_of_spans_cover_them_whole(times: list[int], length: int) -> None:
    first = np.array(times, dtype=np.int64)
    found = windows(first, first + length)
    assert all(any(low <= time and time + length <= high for low, high in found) for time in times)


def test_an_outlier_gets_a_window_of_its_own() -> None:
    assert windows(np.array([0, 5, GAP_US * 3, 7], dtype=np.int64)) == [(0, 7), (GAP_US * 3, GAP_US * 3)]
