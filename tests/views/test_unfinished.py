"""Work that was cut off shows as such, and work that is done does not, whatever a client tells of ends."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from store import Store
from tests.store.frames import event, events, records


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path) as opened:
        yield opened


def told(event_id: str, type: str, second: float, dialect: str = "gemini_cli", **columns: Any) -> dict[str, Any]:
    return event(event_id, type, second, **({"session_id": "s", "signal": "log", "dialect": dialect} | columns))


def unfinished(store: Store, *rows: dict[str, Any]) -> list[str]:
    """What is not closed after these."""
    store.append(records(), events(*rows), store.position() + 1)
    store.refresh()
    with store.cursor() as cursor:
        found = cursor.execute("select subject from gaps where kind = 'not_closed' order by 1").fetchall()
    return [subject for (subject,) in found]


def test_a_request_that_nobody_answered_is_a_call_that_is_not_closed(store: Store) -> None:
    rows = [
        told("r1", "model.requested", 1),
        told("a1", "model.completed", 2, output_tokens=1),
        told("r2", "model.requested", 3),
        told("f2", "model.failed", 4),
        told("r3", "model.requested", 5),
    ]
    assert unfinished(store, *rows) == ["r3"]
    with store.cursor() as cursor:
        calls = cursor.execute("select call_id, status from model_calls order by 1").fetchall()
    assert calls == [("a1", "completed"), ("f2", "failed"), ("r3", "unknown")]
    assert unfinished(store, told("a3", "model.completed", 6, output_tokens=2)) == []


def test_a_request_that_was_cut_off_stays_when_a_later_one_is_answered(store: Store) -> None:
    assert unfinished(
        store, told("r1", "model.requested", 1), told("r2", "model.requested", 50), told("a2", "model.completed", 51)
    ) == ["r1"]


@pytest.mark.parametrize("dialect", ["gemini_cli", "transcript_gemini", "transcript_claude_code", "claude_code"])
def test_where_no_end_is_told_a_turn_is_over_when_its_last_deed_is_an_answer(store: Store, dialect: str) -> None:
    rows = [
        told("p", "turn.submitted", 1, dialect, turn_id="t"),
        told("m", "model.completed", 2, dialect, turn_id="t"),
        told("x", "tool.started", 2, dialect, turn_id="t", tool_call_id="c"),
        told("y", "tool.result", 2, dialect, turn_id="t", tool_call_id="c"),
    ]
    assert unfinished(store, *rows) == ["t"], "the model was not asked again"
    assert unfinished(store, told("n", "model.completed", 3, dialect, turn_id="t")) == []


def test_a_turn_of_a_client_that_sends_spans_ends_with_the_span_it_was_submitted_in(store: Store) -> None:
    ids = {"trace_id": "tr", "dialect": "claude_code"}
    rows = [
        told("p", "turn.submitted", 1, turn_id="t", span_id="i", **ids),
        told("m", "model.completed", 2, signal="span", span_id="l", parent_span_id="i", turn_id="t", **ids),
    ]
    assert unfinished(store, *rows) == ["t"]
    assert unfinished(store, told("e", "turn.completed", 3, signal="span", span_id="i", **ids)) == []


def test_a_turn_that_begins_and_ends_by_its_id_is_closed_only_by_it(store: Store) -> None:
    rows = [
        told("b", "turn.started", 1, "codex", turn_id="t"),
        told("m", "model.completed", 2, "codex", turn_id="t"),
    ]
    assert unfinished(store, *rows) == ["t"]
    assert unfinished(store, told("e", "turn.completed", 3, "codex", turn_id="t")) == []
