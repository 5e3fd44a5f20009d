"""One row per try at a task, with its end and what it used."""

import json
from typing import Any

import pytest

from tests.store.frames import event, events
from views.attempts import COLUMNS, attempts


def task(event_id: str, type: str, second: float, run: str | None, payload: Any = None, **other: Any) -> dict[str, Any]:
    ids = {"session_id": "s", "task_id": "t", "run_id": run, "sequence": int(second)}
    return event(event_id, type, second, payload=json.dumps(payload or {}), **(ids | other))


def rows(*told: dict[str, Any]) -> list[dict[str, Any]]:
    frame = attempts(events(*told).lazy()).collect()
    assert frame.columns == list(COLUMNS)
    return frame.to_dicts()


def test_a_failed_try_and_its_retry_are_two_rows() -> None:
    failed = {"attempt_index": 1, "failure_category": "timeout", "message": "Too slow.", "retryable": True}
    used = {"scope": "model_call", "cost_usd": 0.25, "cost_state": "priced", "usage": {"output_tokens": 7}}
    first, second = rows(
        task("a", "task.attempt.started", 1, "r1", {"attempt_index": 1, "cause": "first"}),
        task("b", "task.started", 2, "r1", {"attempt_index": 1, "status": "running"}),
        task("c", "cost.recorded", 3, "r1", used),
        task("d", "cost.recorded", 4, "r1", {"scope": "model_call", "cost_state": "unknown"}),
        task("e", "task.attempt.failed", 5, "r1", failed | {"duration_ms": 4000}),
        task(
            "f", "task.attempt.started", 6, "r2", {"attempt_index": 2, "cause": "retry", "worker": {"worker_id": "w"}}
        ),
        task("g", "task.attempt.completed", 9, "r2", {"attempt_index": 2, "status": "completed"}),
    )
    assert (first["status"], first["failure_category"], first["message"]) == ("failed", "timeout", "Too slow.")
    assert (first["model_calls"], first["costs_unknown"], first["output_tokens"]) == (2, 1, 7)
    assert first["cost_usd"] == pytest.approx(0.25)
    assert (first["ended"] - first["started"]).total_seconds() == 4
    assert (second["attempt_index"], second["cause"], second["status"], second["worker_id"]) == (
        2,
        "retry",
        "completed",
        "w",
    )
    assert (second["cost_usd"], second["model_calls"]) == (None, 0)


@pytest.mark.parametrize(
    ("end", "status"),
    [("task.lost", "lost"), ("task.timed_out", "timed_out"), ("task.cancelled", "cancelled"), (None, "running")],
)
def test_a_try_that_did_not_end_by_itself_says_how_it_stands(end: str | None, status: str) -> None:
    told = [task("a", "task.started", 1, "r", {"status": "running"})]
    (row,) = rows(*told, *([task("b", end, 2, "r", {"reason": "No sign of life."})] if end else []))
    assert (row["status"], row["ended"] is None) == (status, end is None)
    assert row["message"] == ("No sign of life." if end else None)


def test_a_source_that_names_attempts_but_no_runs_is_understood() -> None:
    (row,) = rows(task("a", "task.attempt.started", 1, None, {}, attempt_id="a-1"))
    assert (row["run_id"], row["attempt_id"], row["status"]) == ("a-1", "a-1", "unknown")
    assert rows(task("a", "task.cancelled", 1, None)) == []
