"""Pricing what is stored again: costs that a table gave change, with every sum made of them, and nothing else does."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import store.repricing
from store import Layout, Store
from store.repricing import Repricing, version_of
from tests.store.frames import event, events, record, records

SUMS = "select session_id, cost_usd, costs_unknown, costs_reported, costs_priced from session_rollup order by 1"
COSTS = "select cost_usd, cost_state, price_entry, price_version from events where event_id = '{}'"
PROJECT = Path(__file__).resolve().parents[2]


def flat(usd: float, *known: str, version: str = "v1") -> store.repricing.Costs:
    """Prices that give every call of the models known the same cost."""

    def costs(calls: pl.DataFrame) -> pl.DataFrame:
        matched = pl.col("model").is_in(known)
        return calls.select(
            cost_usd=pl.when(matched).then(pl.lit(usd)),
            price_entry=pl.when(matched).then("x/" + pl.col("model")),
            price_version=pl.when(matched).then(pl.lit(version)),
        )

    return costs


def call(event_id: str, second: float, session: str | None = "s", **columns: Any) -> dict[str, Any]:
    told = {"session_id": session, "model": "m", "uncached_input_tokens": 5, "output_tokens": 7, "signal": "log"}
    priced = {"cost_usd": 1.0, "cost_state": "priced", "price_entry": "old/m", "price_version": "v0"}
    return event(event_id, "model.completed", second, **(told | priced | columns))


def unknown(event_id: str, second: float, session: str | None = "s", **columns: Any) -> dict[str, Any]:
    nothing = {"cost_usd": None, "cost_state": "unknown", "price_entry": None, "price_version": None}
    return call(event_id, second, session, **(nothing | columns))


def reported(event_id: str, second: float, session: str | None = "s") -> dict[str, Any]:
    return call(event_id, second, session, cost_usd=9.0, cost_state="reported", price_entry=None, price_version=None)


@pytest.fixture
def filled(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path) as opened:
        told = [
            call("a", 1),
            unknown("b", 2, model="n"),
            reported("c", 3),
            call("d", 4, "t"),
            event("e", "tool.result", 5, session_id="t", tool_name="x"),
            unknown("f", 6, None, trace_id="1" * 32, span_id="2" * 16, signal="span"),
        ]
        opened.append(records(record("r", 1)), events(*told), 1)
        opened.refresh()
        yield opened


def ask(opened: Store, query: str) -> list[tuple[Any, ...]]:
    with opened.cursor() as cursor:
        return cursor.execute(query).fetchall()


def reprice(opened: Store, costs: store.repricing.Costs, version: str = "v1") -> store.repricing.Outcome:
    work = Repricing(opened, version, costs)
    while work.step():
        pass
    assert work.outcome is not None
    return work.outcome


def rows_of(opened: Store) -> dict[str, list[tuple[Any, ...]]]:
    tables = ("records", "events", "session_rollup", "cost_rollup", "call_links", "session_gaps")
    return {table: sorted(ask(opened, f"select t::varchar from {table} as t")) for table in tables}


def test_priced_and_unknown_calls_get_the_new_prices_and_reported_costs_stay(filled: Store) -> None:
    outcome = reprice(filled, flat(2.5, "m", "n"))
    assert ask(filled, COSTS.format("a")) == [(2.5, "priced", "x/m", "v1")]
    assert ask(filled, COSTS.format("b")) == [(2.5, "priced", "x/n", "v1")]
    assert ask(filled, COSTS.format("c")) == [(9.0, "reported", None, None)]
    assert ask(filled, COSTS.format("e")) == [(None, None, None, None)]
    assert (outcome.changed, outcome.version_before, outcome.version) == (4, None, "v1")
    assert (outcome.before.calls, outcome.before.priced, outcome.before.unpriced) == (5, 3, 2)
    assert (outcome.after.calls, outcome.after.priced, outcome.after.unpriced) == (5, 5, 0)
    assert (outcome.before.cost_usd, outcome.after.cost_usd) == (11.0, 19.0)


def test_every_sum_follows_the_costs_also_in_sessions_known_by_their_trace_only(filled: Store) -> None:
    reprice(filled, flat(2.5, "m"))
    assert ask(filled, SUMS) == [("s", 11.5, 1, 1, 1), ("t", 2.5, 0, 0, 1), ("trace:" + "1" * 32, 2.5, 0, 0, 1)]
    by_entry = "select price_entry, price_version, calls, cost_usd, costs_unknown from costs"
    assert ask(filled, f"{by_entry} where session_id = 's' order by calls, cost_usd nulls last") == [
        ("x/m", "v1", 1, 2.5, 0),
        (None, None, 1, 9.0, 0),
        (None, None, 1, None, 1),
    ]
    assert ask(filled, "select sum(cost_usd), sum(costs_unknown), sum(calls_priced) from costs") == [(16.5, 1, 4)]


def test_a_model_that_the_new_table_lacks_becomes_unknown_and_not_free(filled: Store) -> None:
    outcome = reprice(filled, flat(2.5, "nothing"))
    assert ask(filled, COSTS.format("a")) == [(None, "unknown", None, None)]
    assert (outcome.after.unpriced, outcome.after.cost_usd) == (4, 9.0)


def test_pricing_again_by_the_same_table_changes_nothing(filled: Store) -> None:
    reprice(filled, flat(2.5, "m"))
    before = rows_of(filled)
    again = reprice(filled, flat(2.5, "m"))
    assert (again.changed, again.before) == (0, again.after)
    ask(filled, "update meta set value = 'another' where key = 'prices'")  # so that it looks at each call again
    assert reprice(filled, flat(2.5, "m")).changed == 0
    assert rows_of(filled) == before


def test_going_back_to_the_first_prices_gives_the_first_costs(filled: Store) -> None:
    reprice(filled, flat(1.0, "m", version="v0"), "v0")
    first = rows_of(filled)
    reprice(filled, flat(2.5, "m"))
    assert rows_of(filled) != first
    reprice(filled, flat(1.0, "m", version="v0"), "v0")
    assert rows_of(filled) == first


def test_records_are_not_touched(filled: Store) -> None:
    before = rows_of(filled)["records"]
    reprice(filled, flat(2.5, "m"))
    assert rows_of(filled)["records"] == before


def test_a_cost_that_our_runtime_recorded_with_its_price_is_told_and_stays(tmp_path: Path) -> None:
    payload = '{"cost": {"cost_usd": 1.0, "cost_state": "priced"}}'
    with Store.open(tmp_path) as opened:
        told = [call("own", 1, dialect="agent_runtime", payload=payload), call("ours", 2, dialect="agent_runtime")]
        opened.append(records(), events(*told), 1)
        assert reprice(opened, flat(2.5, "m")).changed == 1
        assert ask(opened, COSTS.format("own")) == [(1.0, "priced", "old/m", "v0")]
        assert ask(opened, COSTS.format("ours")) == [(2.5, "priced", "x/m", "v1")]


def test_a_call_seen_twice_counts_as_one_change(tmp_path: Path) -> None:
    with Store.open(tmp_path) as opened:
        one = {"model_request_id": "r1"}
        opened.append(records(), events(call("log", 1, **one), call("file", 1, signal="file", **one)), 1)
        outcome = reprice(opened, flat(2.5, "m"))
        assert (outcome.changed, outcome.before.cost_usd, outcome.after.cost_usd) == (1, 1.0, 2.5)


def test_it_is_done_part_by_part_and_what_comes_in_between_is_left_to_its_own_prices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store.repricing, "PART_ROWS", 10)
    with Store.open(tmp_path) as opened:
        opened.append(records(), events(*(call(f"e{n}", n, f"s{n % 3}") for n in range(35))), 1)
        work = Repricing(opened, "v1", flat(2.0, "m"))
        assert work.step()
        assert (work.done, work.rows) == (10, 35)
        new = call("late", 99, cost_usd=7.0, price_version="v1")
        opened.append(records(), events(new), 2)
        while work.step():
            assert work.outcome is None
        assert ask(opened, "select cost_usd, count(*) from events group by 1 order by 1") == [(2.0, 35), (7.0, 1)]
        assert work.outcome is not None
        assert (work.outcome.changed, work.outcome.before.cost_usd, work.outcome.after.cost_usd) == (35, 35.0, 70.0)
        assert ask(opened, "select sum(cost_usd) from session_rollup") == [(77.0,)]


CRASHING = """
import sys
from pathlib import Path
import store.repricing
from store import Store
from store.repricing import Repricing
from tests.store.test_repricing import flat
store.repricing.PART_ROWS = 10
opened = Store.open(Path(sys.argv[1]))
work = Repricing(opened, "v1", flat(2.0, "m"))
while work.step():
    opened.checkpoint()  # as a busy loader does between parts
opened.close()
"""


def test_after_a_crash_it_begins_again_and_ends_as_if_there_had_been_none(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Store.open(home) as opened:
        opened.append(records(), events(*(call(f"e{n}", n, f"s{n % 3}") for n in range(35))), 1)
    shutil.copytree(home, tmp_path / "spared")
    program = [sys.executable, "-c", CRASHING, str(home)]
    ended = subprocess.run(program, cwd=PROJECT, env={"TACHOGRAPH_FAILPOINT": "store.repriced.part:2"}, check=False)
    assert ended.returncode == -9
    with Store.open(home) as opened, Store.open(tmp_path / "spared") as spared:
        with opened.cursor() as cursor:
            assert version_of(cursor) is None
        sums = ask(opened, "select sum(cost_usd) from events"), ask(opened, "select sum(cost_usd) from session_rollup")
        assert sums[0] == sums[1]
        reprice(opened, flat(2.0, "m"))
        reprice(spared, flat(2.0, "m"))
        assert rows_of(opened) == rows_of(spared)
        assert Layout(home).database.exists()
