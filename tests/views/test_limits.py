"""The relation `limits`, on series whose answers are known by hand and on what a real client wrote down."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from collector.home import Home
from collector.importing import files_in, import_files
from collector.loader import Loader
from journal import Journal
from store import Store
from tests.store.frames import BASE_US, event, events, records

HOUR = 3600.0
RATES = "select event_id, window_number, burn_per_hour, time_to_limit_s, reached_before_reset from limits order by time"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path) as opened:
        yield opened


def at(second: float) -> str:
    return datetime.fromtimestamp(BASE_US / 1e6 + second, UTC).isoformat()


def told(event_id: str, second: float, used: float | None = None, **payload: Any) -> dict[str, Any]:
    """Codex's five-hour window, as a session file tells it."""
    columns = {"session_id": payload.pop("session_id", "s"), "provider": payload.pop("provider", "openai")}
    window = {"kind": "quota", "name": "codex.primary", "scope": "account", "status": "ok", "unit": "percent"}
    numbers = {"used": used, "maximum": 100} if used is not None else {}
    body = window | numbers | {"window_s": 18_000} | payload
    kind = body.pop("type", "limit.changed")
    return event(event_id, kind, second, payload=json.dumps(body), dialect="transcript_codex", signal="file", **columns)


def call(event_id: str, second: float, usd: float | None, **columns: Any) -> dict[str, Any]:
    state = {"cost_state": "unknown" if usd is None else "priced", "cost_usd": usd, "signal": "log"}
    ids = {"session_id": "s", "provider": "openai", "model": "m", "output_tokens": 1}
    return event(event_id, "model.completed", second, **(ids | state | columns))


def put(store: Store, *facts: dict[str, Any]) -> None:
    store.append(records(), events(*facts), store.position() + 1)
    store.refresh()


def ask(store: Store, query: str) -> list[tuple[Any, ...]]:
    with store.cursor() as cursor:
        return cursor.execute(query).fetchall()


def test_a_series_burns_at_its_rate_and_says_when_it_ends(store: Store) -> None:
    reset = at(5 * HOUR)
    put(store, *(told(f"p{n}", n * HOUR / 2, 10.0 + 10 * n, resets_at=reset) for n in range(3)))
    assert ask(store, RATES) == [
        ("p0", 1, None, None, None),
        ("p1", 1, 20.0, 80 / 20 * HOUR, True),  # 80 % left at 20 % an hour: four hours, half an hour from the start
        ("p2", 1, 20.0, 70 / 20 * HOUR, True),
    ]
    put(store, told("p3", 4 * HOUR, 30.0, resets_at=reset))
    assert ask(store, RATES)[-1] == ("p3", 1, 5.0, 70 / 5 * HOUR, False)


def test_one_telling_has_no_rate(store: Store) -> None:
    put(store, told("p", 0, 40.0, resets_at=at(HOUR)))
    assert ask(store, RATES) == [("p", 1, None, None, None)]
    assert ask(store, "select used, maximum, remaining, used_percent, window_s, spend_usd from limits") == [
        (40.0, 100.0, 60.0, 40.0, 18_000.0, None)
    ]


def test_a_reset_begins_a_window_anew_and_no_rate_is_negative(store: Store) -> None:
    put(
        store,
        told("a", 0, 80.0, resets_at=at(HOUR)),
        told("b", HOUR / 2, 90.0, resets_at=at(HOUR)),
        told("c", HOUR * 1.1, 5.0, resets_at=at(6 * HOUR)),
        told("d", HOUR * 1.6, 15.0, resets_at=at(6 * HOUR)),
    )
    assert [row[:3] for row in ask(store, RATES)] == [
        ("a", 1, None),
        ("b", 1, 20.0),
        ("c", 2, None),
        ("d", 2, pytest.approx(20.0)),
    ]


def test_a_reset_is_seen_though_more_is_used_than_before_or_no_time_of_it_was_told(store: Store) -> None:
    put(
        store,
        told("a", 0, 10.0, resets_at=at(HOUR)),
        told("b", 2 * HOUR, 30.0, resets_at=at(6 * HOUR)),  # the first window was over: these 30 % are all new
        told("x", 0, 50.0, name="codex.secondary"),
        told("y", HOUR, 20.0, name="codex.secondary"),  # fell, so it was reset some time
    )
    found = dict(ask(store, "select event_id, window_number from limits"))
    assert found == {"a": 1, "b": 2, "x": 1, "y": 2}
    assert ask(store, "select count(burn_per_hour) from limits") == [(0,)]


def test_seconds_by_which_a_reset_is_told_differently_are_no_reset(store: Store) -> None:
    put(store, told("a", 0, 10.0, resets_at=at(HOUR)), told("b", HOUR / 2, 15.0, resets_at=at(HOUR + 2)))
    assert [row[:3] for row in ask(store, RATES)] == [("a", 1, None), ("b", 1, 10.0)]


def test_the_order_of_arrival_makes_no_difference(store: Store, tmp_path: Path) -> None:
    facts = [told(f"p{n}", n * 600, used, resets_at=at(9 * HOUR)) for n, used in enumerate((5, 9, 9, 2, 30, 31))]
    calls = [call(f"c{n}", n * 600 + 30, 0.5) for n in range(6)]
    put(store, *facts, *calls)
    with Store.open(tmp_path / "shuffled") as other:
        arriving = [*reversed(calls), *reversed(facts)]
        for part in (arriving[::3], arriving[1::3], arriving[2::3]):
            put(other, *part)
        whole = "select * from limits order by event_id"
        assert ask(other, whole) == ask(store, whole)


def test_sessions_share_an_accounts_window_and_not_another_limit(store: Store) -> None:
    reset = at(9 * HOUR)
    put(
        store,
        told("a", 0, 10.0, resets_at=reset, session_id="one"),
        told("b", HOUR, 30.0, resets_at=reset, session_id="two"),
        told("c", HOUR, 70.0, resets_at=reset, session_id="two", provider="other"),
        told("d", 0, 1.0, name="budget", scope="session", session_id="one", unit="usd"),
        told("e", HOUR, 3.0, name="budget", scope="session", session_id="two", unit="usd"),
    )
    rates = dict(ask(store, "select event_id, burn_per_hour from limits"))
    assert rates == {"a": None, "b": 20.0, "c": None, "d": None, "e": None}


def test_two_accounts_with_other_resets_are_not_taken_for_one_window(store: Store) -> None:
    put(store, told("a", 0, 10.0, resets_at=at(5 * HOUR)), told("b", 60, 50.0, resets_at=at(3 * HOUR)))
    assert ask(store, "select count(burn_per_hour) from limits") == [(0,)]


def test_spend_beside_a_window_counts_each_call_once_from_its_first_telling_on(store: Store) -> None:
    reset = at(9 * HOUR)
    put(
        store,
        call("before", -5, 100.0),
        told("a", 0, 10.0, resets_at=reset),
        call("c1", 10, 0.25, model_request_id="r1"),
        call("c1 again", 11, 0.25, model_request_id="r1", signal="file"),
        call("c2", 20, None),
        call("elsewhere", 25, 7.0, provider="anthropic"),
        call("c3", 30, 0.5, session_id="other"),
        told("b", 60, 11.0, resets_at=reset),
        call("after", 70, 9.0),
        told("new", 10 * HOUR, 1.0, resets_at=at(15 * HOUR)),
    )
    spend = ask(store, "select event_id, spend_usd, costs_unknown from limits order by time")
    assert spend == [("a", None, 0), ("b", 0.75, 1), ("new", None, 0)]


def test_a_budget_of_ours_counts_all_calls_of_its_session_whoever_answered(store: Store) -> None:
    budget = {"name": "daily", "scope": "session:s", "unit": "usd", "kind": "budget", "provider": None}
    put(
        store,
        told("a", 0, 1.0, **budget),
        call("c1", 10, 0.25),
        call("c2", 20, 0.5, provider="anthropic"),
        call("c3", 30, 9.0, session_id="other"),
        told("b", 60, 1.75, **budget),
    )
    assert ask(store, "select event_id, spend_usd from limits order by time") == [("a", None), ("b", 0.75)]


def test_what_was_not_told_stays_unknown(store: Store) -> None:
    put(
        store,
        event("hit", "rate_limit.hit", 5, session_id="s", provider="anthropic", status="hit",
              payload='{"limiter": "provider", "kind": "rate_limit", "status": "hit", "http_status": 429}'),
        told("empty", 6, None, resets_at="not a time", window_s="long"),
    )  # fmt: skip
    unknown = "used, maximum, remaining, used_percent, window_s, resets_at, window_number, burn_per_hour, spend_usd"
    for row in ask(store, f"select {unknown}, costs_unknown, time_to_limit_s, reached_before_reset from limits"):
        assert set(row) == {None}
    assert ask(store, "select status, kind, provider, type from limits where event_id = 'hit'") == [
        ("hit", "rate_limit", "anthropic", "rate_limit.hit")
    ]


def test_where_only_what_is_left_is_told_it_burns_all_the_same(store: Store) -> None:
    left: dict[str, Any] = {"name": "credits", "unit": "credits", "kind": "budget"}
    put(store, told("a", 0, remaining=50, **left), told("b", HOUR, remaining=40, **left))
    assert ask(store, RATES) == [("a", 1, None, None, None), ("b", 1, 10.0, 4 * HOUR, None)]
    assert ask(store, "select count(used) from limits") == [(0,)]


def test_what_is_used_up_is_reached_now(store: Store) -> None:
    put(store, told("a", 0, 90.0, resets_at=at(HOUR)), told("b", 360, 100.0, resets_at=at(HOUR)))
    assert ask(store, RATES)[-1] == ("b", 1, 100.0, 0.0, True)


def imported(home: Path, folder: Path) -> list[tuple[Any, ...]]:
    """The windows that the session files in a folder tell of."""
    import_files(Home(home), files_in((folder,)), strict=False, told=lambda _: None)
    with Store.open(home) as opened, Journal(Home(home).journal, compress=False) as journal:
        loader = Loader(journal, opened)
        loader.catch_up()
        loader.close()
        query = "select limit_name, used_percent, window_s, window_number, spend_usd is not null from limits"
        return ask(opened, f"{query} order by limit_name, time")


def test_codexs_own_session_files_tell_its_windows_and_an_account_without_any_has_none(
    real_traces: Path, tmp_path: Path
) -> None:
    original = real_traces / "codex" / "cx_basic" / "transcript"
    assert imported(tmp_path / "none", original) == []  # recorded with an API key: `primary` and `secondary` are null
    lines = [json.loads(line) for path in original.rglob("*.jsonl") for line in path.read_text().splitlines()]
    used = iter((12.0, 13.5, 14.0, 15.0))
    counted = []
    for line in lines:
        if line["payload"].get("type") == "token_count":
            percent = next(used)
            counted.append(percent)
            window = {"used_percent": percent, "window_minutes": 300, "resets_at": 1_795_000_000}
            line["payload"]["rate_limits"] |= {"primary": window}
    subscribed = tmp_path / "files" / "rollout-2026-11-18T06-28-53-01a1ed58-0ca2-7c52-886e-17f889e436b0.jsonl"
    subscribed.parent.mkdir()
    whole = "\n".join(map(json.dumps, lines)) + "\n"
    subscribed.write_text(whole.replace('"model_provider": "fake"', '"model_provider": "openai"'))
    found = imported(tmp_path / "some", subscribed.parent)
    assert len(counted) > 1
    first, *rest = [("codex.primary", percent, 18_000.0, 1) for percent in counted]
    assert [row[:4] for row in found] == [first, *rest]
    assert [row[4] for row in found] == [False, *(True for _ in rest)]  # the calls between are priced
