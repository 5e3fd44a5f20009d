"""Figures in words."""

from datetime import UTC, datetime, timedelta

import pytest

from dashboard.wording import ago, cost, duration, money, short_count, size, status_word, utc


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (None, "unknown"),
        (-5, "unknown"),
        (float("nan"), "unknown"),
        (0.42, "0.42 ms"),
        (435.5, "436 ms"),
        (12_910, "12.9 s"),
        (252_000, "4 min 12 s"),
        (11_100_000, "3 h 05 min"),
        (187_200_000, "2 d 4 h"),
    ],
)
def test_durations(milliseconds: float | None, words: str) -> None:
    assert duration(milliseconds) == words


@pytest.mark.parametrize(
    ("usd", "words"),
    [
        (None, "unknown"),
        (0.0, "$0.00"),
        (0.00002, "< $0.0001"),
        (0.0042, "$0.0042"),
        (1.838, "$1.84"),
        (1234.5, "$1,234.50"),
    ],
)
def test_money_has_four_digits_under_a_cent_and_is_never_zero_by_absence(usd: float | None, words: str) -> None:
    assert money(usd) == words


def test_a_cost_that_lacks_calls_is_a_lower_bound() -> None:
    assert cost(0.5, "partial") == "≥ $0.50"
    assert cost(None, "unknown") == "unknown"
    assert cost(None, None) == "none"


def test_an_end_that_was_not_recorded_is_never_ok() -> None:
    assert [status_word(status) for status in (None, "", "unknown", "stale")] == [
        "unknown",
        "unknown",
        "unknown",
        "stale",
    ]
    assert status_word("completed") == "ok"
    assert status_word("waiting_permission") == "waiting for permission"
    assert status_word("cancelled") == "stopped"


def test_counts_sizes_and_times() -> None:
    assert [short_count(number) for number in (None, 7, 885, 999_950, 35_210)] == [
        "unknown",
        "7",
        "885",
        "1 M",
        "35.2 k",
    ]
    assert [size(number) for number in (12, 4_300_000)] == ["12 B", "4.3 MB"]
    now = datetime(2026, 1, 1, tzinfo=UTC)
    passed = (timedelta(seconds=1), timedelta(seconds=40), timedelta(minutes=13), timedelta(hours=5), timedelta(days=3))
    assert [ago(now - each, now) for each in passed] == ["just now", "40 s ago", "13 min ago", "5 h ago", "3 d ago"]
    assert ago(None, now) == "never"
    assert utc(datetime(2026, 1, 1, 12)) == "2026-01-01 12:00:00.000 UTC"
