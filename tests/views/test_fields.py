"""Payload fields become columns; what is missing or of another type is NULL and costs nothing else."""

import polars as pl
import pytest

from tests.store.frames import event, events
from views.fields import Shape, in_order, with_fields

SHAPE: Shape = {
    "count": pl.Int64,
    "share": pl.Float64,
    "name": pl.String,
    "sure": pl.Boolean,
    "list": pl.List(pl.String),
    "deep": pl.Struct({"n": pl.Int64}),
}
GOOD = '{"count": 2, "share": 1, "name": "x", "sure": true, "list": ["a"], "deep": {"n": 1}, "more": 0}'
READ = {"count": 2, "share": 1.0, "name": "x", "sure": True, "list": ["a"], "deep": {"n": 1}}


@pytest.mark.parametrize(
    ("odd", "told"),
    [
        ('{"count": "2", "share": true, "name": 3, "sure": 1, "list": {}, "deep": [1]}', {"deep": {"n": None}}),
        ('{"count": "", "list": ["a", {}]}', {"deep": {"n": None}, "list": ["a", None]}),
        ('{"count": 1e300, "share": 3, "deep": {"n": 12345678901234567890}}', {"share": 3.0, "deep": {"n": None}}),
        ("[1]", {"deep": {"n": None}}),
        ("{torn", {"deep": {"n": None}}),
    ],
)
def test_one_odd_payload_leaves_the_others_as_they_are(odd: str, told: dict[str, object]) -> None:
    frame = events(event("a", "t", payload=GOOD), event("b", "t", payload=odd), event("c", "other", payload=GOOD))
    good, bad = with_fields(frame.lazy(), ["t"], SHAPE).select("event_id", *SHAPE).collect().to_dicts()
    assert good == {"event_id": "a"} | READ
    assert bad == {"event_id": "b"} | dict.fromkeys(SHAPE) | told


def test_payloads_that_are_as_they_should_be_are_read_at_once() -> None:
    frame = events(event("a", "t", payload=GOOD), event("b", "t", payload="{}"), event("c", "t"))
    rows = with_fields(frame.lazy(), ["t"], SHAPE).select(*SHAPE).collect().to_dicts()
    assert rows == [READ, dict.fromkeys(SHAPE), dict.fromkeys(SHAPE)]


def test_the_sequence_of_a_session_comes_before_the_clock() -> None:
    frame = events(
        event("a", "t", 3, session_id="s", sequence=1),
        event("b", "t", 1, session_id="s", sequence=2),
        event("c", "t", 2, session_id="r"),
        event("d", "t", 1, session_id="r"),
    )
    assert in_order(frame.lazy()).collect()["event_id"].to_list() == ["d", "c", "a", "b"]
