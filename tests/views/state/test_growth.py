"""What a turn costs does not grow with the session: counted in calls and bytes, not in time."""

import sys
import tracemalloc
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from models.event import Event
from tests.views.state.stories import Story
from views.state import State, apply, fold, read_models, session_snapshot, thread_read

SHORT, LONG = 100, 3_000


@pytest.fixture(scope="module")
def story() -> Story:
    told = Story(runtime_id="rt", task_id="t")
    for number in range(LONG + 1):
        told.turn(f"t{number}")
    return told


@pytest.fixture(scope="module")
def states(story: Story) -> dict[int, State]:
    per_turn = len(story.events) // (LONG + 1)
    short = fold(story.events[: SHORT * per_turn])
    return {SHORT: short, LONG: fold(story.events[SHORT * per_turn : LONG * per_turn], short)}


def counted(work: Callable[[], Any]) -> tuple[int, int]:
    """How many calls some work makes, those of C functions included, and the most bytes it holds at a time."""
    calls = 0

    def count(frame: FrameType, what: str, argument: Any) -> None:
        nonlocal calls
        calls += what in ("call", "c_call")

    work()  # once before, so that nothing is made that is made only once
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    tracemalloc.start()
    try:
        kept = work()
        held = tracemalloc.get_traced_memory()[1]
        del kept
    finally:
        tracemalloc.stop()
    return calls, held


def next_turn(story: Story, length: int) -> list[Event]:
    per_turn = len(story.events) // (LONG + 1)
    return story.events[length * per_turn : (length + 1) * per_turn]


def test_a_turn_of_a_long_session_costs_about_what_one_of_a_short_session_costs(
    story: Story, states: dict[int, State]
) -> None:
    short = counted(lambda: fold(next_turn(story, SHORT), states[SHORT]))
    long = counted(lambda: fold(next_turn(story, LONG), states[LONG]))
    assert long[0] <= short[0] * 1.05
    assert long[1] <= short[1] * 1.8, "30 times as long: only the depth of the maps may show"


@pytest.mark.parametrize(
    "read",
    [
        lambda state: session_snapshot(state, window=50),
        lambda state: session_snapshot(state, window=50, before=200),
        lambda state: thread_read(state, "th", window=50),
        lambda state: read_models(state, window=20),
    ],
)
def test_reading_a_window_costs_the_same_however_long_the_session(
    states: dict[int, State], read: Callable[[State], Any]
) -> None:
    short, long = (counted(lambda state=states[length]: read(state)) for length in (SHORT, LONG))  # type: ignore[misc]  # bound early
    assert long[0] <= short[0] * 1.05
    assert long[1] <= short[1] * 1.5


def test_the_count_would_show_a_list_that_is_copied(states: dict[int, State]) -> None:
    copying = {length: counted(lambda state=state: tuple(state.items)) for length, state in states.items()}  # type: ignore[misc]  # bound early
    assert copying[LONG][1] > copying[SHORT][1] * 10


def test_a_step_back_shares_what_did_not_change(story: Story, states: dict[int, State]) -> None:
    before = states[LONG]
    after = apply(before, next_turn(story, LONG)[0])
    untouched = [name for name in before.__dict__ if getattr(before, name) is getattr(after, name)]
    assert {"artifacts", "edges", "model_calls", "tool_calls", "spending", "limits"} <= set(untouched)
