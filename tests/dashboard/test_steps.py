"""Steps: the events of a call are one row, nested by recorded spans, and nothing is lost."""

from pathlib import Path

import polars as pl
import pytest

from dashboard import reading
from dashboard.picture import MOST_BARS, waterfall
from dashboard.steps import steps
from store import Store
from tests.store.frames import event, events, records


def story(home: Path, session_id: str) -> dict[str, pl.DataFrame]:
    row = reading.session(home, session_id)
    assert row is not None
    return reading.story(home, session_id, row["first_time"], row["last_time"])


def steps_of(home: Path, session_id: str) -> pl.DataFrame:
    told = story(home, session_id)
    return steps(told["events"], told["model_calls"], told["tool_calls"])


def stored(home: Path, *rows: dict[str, object]) -> Path:
    with Store.open(home) as store:
        store.append(records(), events(*rows), position=1)
        store.refresh()
    return home


def test_a_call_is_one_step_however_often_it_was_seen(recorded_home: Path) -> None:
    for session_id in reading.sessions(recorded_home)[0]["session_id"]:
        told = story(recorded_home, session_id)
        if not told["events"].height:
            continue
        found = steps(told["events"], told["model_calls"], told["tool_calls"])
        assert found.filter(pl.col("kind") == "model").height == told["model_calls"].height
        assert found.filter(pl.col("kind") == "tool").height == told["tool_calls"].height
        assert found["output_tokens"].sum() == told["model_calls"]["output_tokens"].sum()
        shown = set(found["event_id"])
        assert len(shown) == found.height
        assert shown <= set(told["events"]["event_id"])


def test_steps_are_nested_as_the_spans_are(recorded_home: Path) -> None:
    found = steps_of(recorded_home, "sess-str")
    outline = list(zip(found["depth"], found["label"], strict=True))[:4]
    assert outline == [
        (0, "weather_agent"),
        (1, "execute_event_loop_cycle"),
        (2, "gpt-4o-mini"),
        (2, "get_weather"),
    ]


def test_a_turn_is_one_step_from_its_start_to_its_end(tmp_path: Path) -> None:
    turn = {"session_id": "s", "turn_id": "t1"}
    home = stored(
        tmp_path,
        event("a", "turn.started", 1, **turn, status="running"),
        event("b", "turn.completed", 4, **turn, status="completed"),
        event("c", "turn.started", 5, session_id="s", turn_id="t2", status="running"),
    )
    first, second = steps_of(home, "s").iter_rows(named=True)
    assert (first["status"], first["duration_ms"], first["sightings"]) == ("completed", 3000.0, 2)
    assert (second["status"], second["duration_ms"]) == ("running", None)


def test_spans_that_name_each_other_as_parents_are_kept(tmp_path: Path) -> None:
    ids = [("a" * 16, "b" * 16), ("b" * 16, "a" * 16), ("c" * 16, "c" * 16)]
    home = stored(
        tmp_path,
        *(
            event(f"e{at}", "run.status", at, session_id="s", span_id=own, parent_span_id=parent, duration_ms=1.0)
            for at, (own, parent) in enumerate(ids)
        ),
    )
    assert sorted(steps_of(home, "s")["event_id"]) == ["e0", "e1", "e2"]


def test_a_deep_trace_is_walked(tmp_path: Path) -> None:
    deep = 2000
    home = stored(
        tmp_path,
        *(
            event(f"e{at}", "run.status", at, session_id="s", span_id=f"{at + 1:016x}", parent_span_id=f"{at:016x}")
            for at in range(deep)
        ),
    )
    found = steps_of(home, "s")
    assert found["depth"].to_list() == list(range(deep))
    drawn = waterfall(found, None).to_dict()
    assert {len(rows) for rows in drawn["datasets"].values()} == {MOST_BARS}


@pytest.mark.parametrize("duration_ms", [None, -1.0, float("nan"), float("inf"), 1e300])
def test_impossible_durations_are_drawn_as_a_moment(duration_ms: float | None, tmp_path: Path) -> None:
    home = stored(tmp_path, event("e", "run.status", 1, session_id="s", duration_ms=duration_ms))
    ((row,),) = waterfall(steps_of(home, "s"), None).to_dict()["datasets"].values()
    assert row["begin"] == row["end"] == 0
