"""The ledger has every recorded cost once, with sums that say what they leave out."""

from pathlib import Path

import pytest

from models.payloads.cost import CostRecorded
from models.values import Usage
from store import open as open_store
from tests.runtime.routing.scenarios import Told, choose, keep, spend
from tests.store.frames import events
from views.cost_ledger import COLUMNS, cost_ledger


def test_costs_add_up_in_order_and_unknown_ones_are_counted(tmp_path: Path) -> None:
    turn = Told()
    made = choose(turn).made
    spend(turn, made)
    turn.tell(CostRecorded(model_name="m", cost_state="unknown", usage=Usage(output_tokens=3), scope="model_call"))
    spend(turn, made)
    turn.tell(CostRecorded(cost_state="priced", cost_usd=9.0, usage=Usage(), scope="turn"))
    keep(tmp_path, turn.events)
    with open_store(tmp_path) as reader:
        frame = cost_ledger(reader.events("s-1")).collect()
    assert frame.columns == list(COLUMNS)
    assert frame["session_cost_usd"].to_list() == pytest.approx([0.0399, 0.0399, 0.0798])
    assert frame["session_unknown"].to_list() == [0, 1, 1]
    assert frame["cost_usd"].to_list() == pytest.approx([0.0399, None, 0.0399])
    assert frame["estimated_usd"].to_list() == pytest.approx([0.051, None, 0.051])
    assert frame["price_entry"].to_list() == ["anthropic/claude-sonnet-4-6", None, "anthropic/claude-sonnet-4-6"]
    assert frame["cache_read_tokens"].to_list() == [3_000, None, 3_000]


def test_nothing_recorded_is_an_empty_ledger() -> None:
    assert cost_ledger(events().lazy()).collect().columns == list(COLUMNS)
