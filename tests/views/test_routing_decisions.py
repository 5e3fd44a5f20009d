"""One row per decision, with the choice there was and what followed."""

from pathlib import Path

from store import open as open_store
from tests.runtime.routing.scenarios import SCENARIOS, Told, keep
from tests.store.frames import events
from views.routing_decisions import COLUMNS, TYPES, routing_decisions


def test_every_scenario_has_its_rows_in_one_table(tmp_path: Path) -> None:
    for number, scenario in enumerate(SCENARIOS):
        turn = Told(turn_id=f"t{number}-1", session_id=f"s-{number}")
        scenario(turn)
        keep(tmp_path, turn.events)
    with open_store(tmp_path) as reader:
        frame = routing_decisions(reader.events(types=TYPES)).collect()
    assert frame.columns == list(COLUMNS)
    rows = [(row["session_id"], row["outcome"], row["selected_model"], row["model_calls"]) for row in frame.to_dicts()]
    assert rows == [
        ("s-0", "selected", "claude-sonnet-4-6", 1),
        ("s-1", "single_candidate", "claude-haiku-4-5", 1),
        ("s-2", "not_possible", None, 0),
        ("s-3", "selected", "claude-sonnet-4-6", 0),
        ("s-3", "fallback", "gpt-5.4", 1),
        ("s-4", "selected", "claude-sonnet-4-6", 0),
        ("s-4", "fallback", "gpt-5.4", 1),
        ("s-5", "selected", "claude-sonnet-4-6", 2),
        ("s-5", "not_possible", None, 0),
    ]
    assert [len(row) for row in frame["excluded"]] == [1, 5, 6, 1, 1, 1, 1, 1, 6]
    fallbacks = frame.filter(outcome="fallback")
    assert (fallbacks["decision_id"] != fallbacks["event_id"]).all()


def test_nothing_decided_is_an_empty_table() -> None:
    assert routing_decisions(events().lazy()).collect().columns == list(COLUMNS)
