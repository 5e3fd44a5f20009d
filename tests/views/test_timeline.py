"""The timeline view equals the relation, whatever order and numbers the events have."""

from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store import Reader, Store
from store import open as open_reader
from tests.store.frames import event, events, records
from views.relations import relations
from views.timeline import COLUMNS, timeline

EVENT = st.fixed_dictionaries(
    {
        "second": st.integers(0, 6).map(lambda tenth: tenth / 10),
        "type": st.sampled_from(["model.completed", "tool.result", "subagent.spawned", "turn.started"]),
        "sequence": st.none() | st.integers(0, 9),
        "duration_ms": st.none() | st.sampled_from([0.0, 1.5, 0.0005, 1e300, -3.0]) | st.floats(0, 1e6),
        "model": st.none() | st.just("m"),
        "tool_name": st.none() | st.just("grep"),
    }
)


def both(reader: Reader) -> tuple[pl.DataFrame, pl.DataFrame]:
    relation = reader.frame("select * from timeline where session_id = 's' order by place")
    return timeline(reader.events("s")).collect(), relation


def stored(home: Path, rows: list[dict[str, Any]]) -> tuple[pl.DataFrame, pl.DataFrame]:
    with Store.open(home) as store:
        told = [event(f"e{at}", session_id="s", signal="log", **row) for at, row in enumerate(rows)]
        store.append(records(), events(*told), 1)
    with open_reader(home) as reader:
        return both(reader)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(EVENT, min_size=1, max_size=30))
def test_the_view_equals_the_relation(tmp_path_factory: Any, rows: list[dict[str, Any]]) -> None:
    view, relation = stored(tmp_path_factory.mktemp("home"), rows)
    assert view.height == len(rows)
    assert view.to_dicts() == relation.to_dicts()


def test_the_columns_are_those_of_the_relation() -> None:
    assert list(COLUMNS) == list(relations()["timeline"].columns)


def test_the_sequence_comes_before_the_clock_and_unnumbered_events_find_their_place(tmp_path: Path) -> None:
    rows = [
        {"type": "turn.started", "second": 1.0, "sequence": 1},
        {"type": "model.completed", "second": 2.5, "model": "m"},
        {"type": "tool.result", "second": 2.0, "sequence": 2, "tool_name": "grep"},
        {"type": "turn.completed", "second": 1.5, "sequence": 3},
    ]
    view, _ = stored(tmp_path, rows)
    assert view["label"].to_list() == ["turn.started", "grep", "turn.completed", "m"]
    assert view["place"].to_list() == [1, 2, 3, 4]
