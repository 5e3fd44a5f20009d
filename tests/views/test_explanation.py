"""The explanation keeps apart what was recorded and what was not, and several choices of a turn."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from models.payloads.cost import CostRecorded
from models.payloads.routing import RoutingSingleCandidate
from models.values import Usage
from runtime.routing import RoutingOptions
from store import open as open_store
from tests.runtime.routing.scenarios import Told, by_model, choose, explained, keep, none, spend, told
from tests.store.frames import event, events
from views.explanation import COLUMNS, TYPES, explain, explanation


def test_two_choices_of_a_turn_are_explained_each_with_its_own_costs(tmp_path: Path) -> None:
    turn = Told()
    spend(turn, choose(turn).made)
    spend(turn, choose(turn, RoutingOptions(model="openai/gpt-5.4-mini")).made)
    keep(tmp_path, turn.events)
    first, second = explained(tmp_path, "turn_1")
    assert [row["model"] for row in first["recorded"]] == ["claude-sonnet-4-6"]
    assert [row["model"] for row in second["recorded"]] == ["gpt-5.4-mini"]
    assert second["decision"]["outcome"] == "single_candidate"


def test_a_refusal_that_ends_a_chain_belongs_to_the_choice_before_it(tmp_path: Path) -> None:
    turn = Told()
    first = choose(turn)
    refused = told(none).events[-1].payload
    turn.tell(refused)
    keep(tmp_path, turn.events)
    (choice,) = explained(tmp_path, "turn_1")
    assert choice["decision"]["selected_model"] == first.made.selected_model
    assert [row["outcome"] for row in choice["fallbacks"]] == ["not_possible"]


def test_what_a_foreign_runtime_left_out_is_not_made_up(tmp_path: Path) -> None:
    turn = Told()
    turn.tell(RoutingSingleCandidate(selected_model="m", candidate_count=1))
    turn.tell(CostRecorded(model_name="m", cost_state="unknown", usage=Usage(output_tokens=3)))
    keep(tmp_path, turn.events)
    (choice,) = explained(tmp_path, "turn_1")
    assert choice["profile"] is None
    (model,) = choice["models"]
    assert (model["role"], model["model"], model["provider"]) == ("chosen", "m", None)
    assert (model["would_have_cost_usd"], model["recorded_cost_usd"], model["recorded_calls"]) == (None, None, 1)
    assert (choice["decision"]["cost_usd"], choice["decision"]["cost_state"]) == (None, "unknown")


@pytest.mark.parametrize(
    "usage", [{"uncached_input_tokens": None}, {"cache_write_1h_tokens": 10, "cache_write_tokens": 10}]
)
def test_tokens_that_the_recorded_prices_do_not_cover_give_no_amount(tmp_path: Path, usage: dict[str, Any]) -> None:
    turn = Told()
    spend(turn, choose(turn).made, Usage(**{"uncached_input_tokens": 5, "output_tokens": 5} | usage))
    keep(tmp_path, turn.events)
    (choice,) = explained(tmp_path, "turn_1")
    assert {row["would_have_cost_usd"] for row in choice["models"]} == {None}


def test_a_mistyped_payload_costs_no_other_row() -> None:
    turn = Told()
    spend(turn, choose(turn).made)
    rows = [
        event(one.event_id, one.type, number, session_id="s-1", turn_id="turn_1", sequence=number, payload=text)
        for number, one in enumerate(turn.events)
        for text in [one.payload.model_dump_json()]
    ]
    odd = event("odd", "routing.decided", 99, session_id="s-1", turn_id="t", payload='{"candidate_count": "many"}')
    torn = event("torn", "cost.recorded", 99, session_id="s-1", turn_id="t", payload="[1")
    frame = events(*rows, odd, torn)
    (choice,) = explain(frame, "turn_1")
    assert by_model(choice)["anthropic/claude-sonnet-4-6"]["recorded_calls"] == 1
    (other,) = explain(frame, "t")
    assert other["decision"]["candidate_count"] is None


def test_without_facts_there_is_no_explanation() -> None:
    assert explain(events(), "turn_1") == []
    assert explanation(events().lazy()).collect().is_empty()


def test_the_view_has_its_columns_and_reads_the_columns_of_the_reader(tmp_path: Path) -> None:
    turn = Told()
    choose(turn)
    keep(tmp_path, turn.events)
    with open_store(tmp_path) as reader:
        frame: pl.DataFrame = explanation(reader.events(types=TYPES)).collect()
    assert frame.columns == list(COLUMNS)
    assert frame.height == 6
    assert frame["role"].to_list() == ["chosen", *["candidate"] * 4, "excluded"]
