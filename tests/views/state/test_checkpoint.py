"""Checkpoints: bytes and back, the state at a sequence, a moment or an event, and cheap steps back."""

from dataclasses import fields
from datetime import timedelta

import pytest

from models.event import Event
from tests.views.state.stories import Story
from views.state import Checkpoints, State, apply, at, dump, fold, load


def test_a_state_survives_its_bytes_field_by_field_at_every_prefix(sample: list[Event]) -> None:
    state = State.empty("s")
    for event in sample:
        state = apply(state, event)
        again = load(dump(state))
        for one in fields(State):
            assert getattr(again, one.name) == getattr(state, one.name), one.name
    assert fold(sample[200:], load(dump(fold(sample[:200])))) == fold(sample)


def test_a_difference_in_one_leaf_or_one_source_is_a_difference(sample: list[Event]) -> None:
    state = fold(sample)
    other = [*sample[:-1], sample[-1].model_copy(update={"event_id": "another"})]
    assert fold(other) != state
    assert fold(other).session == state.session


@pytest.mark.parametrize("data", [b"{}", b"[]", b'{"version": 0}', b"not json"])
def test_bytes_that_are_no_checkpoint_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        load(data)


def test_a_damaged_checkpoint_is_refused(sample: list[Event]) -> None:
    data = dump(fold(sample))
    for place in range(0, len(data), len(data) // 50):
        damaged = bytearray(data)
        damaged[place] ^= 1
        with pytest.raises(ValueError):
            load(bytes(damaged))
    with pytest.raises(ValueError):
        load(data[:-10])


def test_the_state_at_a_sequence_a_moment_or_an_event_is_the_fold_up_to_it(sample: list[Event]) -> None:
    kept = Checkpoints(sample, every=25)
    for count in (1, 24, 25, 26, 120, len(sample)):
        event, wanted = sample[count - 1], fold(sample[:count])
        cursors = (event.sequence or 0, event.timestamp, event.event_id)
        for cursor in cursors:
            assert at(sample, cursor) == wanted
            assert kept.at(cursor) == wanted
    just_before = sample[50].timestamp - timedelta(microseconds=1)
    assert kept.at(just_before) == fold([event for event in sample if event.timestamp <= just_before])
    assert kept.at(0) == State()
    assert kept.at(10_000) == kept.last == fold(sample)
    with pytest.raises(LookupError, match="no event nowhere"):
        kept.at("nowhere")


def test_a_sequence_is_a_cursor_in_a_session_that_lost_events() -> None:
    story = Story()
    for number in (1, 5, 6, 9):
        story.tell("session.updated", {"title": str(number)}, sequence=number)
    kept = Checkpoints(story.events)
    assert [kept.at(cursor).session.title for cursor in (1, 4, 5, 8, 9)] == ["1", "1", "5", "6", "9"]


def test_a_step_back_applies_no_more_events_than_lie_between_two_checkpoints(
    sample: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = Checkpoints(every=20)
    kept.extend(sample)
    applied = 0

    def counting(state: State, event: Event) -> State:
        nonlocal applied
        applied += 1
        return apply(state, event)

    monkeypatch.setattr("views.state.checkpoint.apply", counting)
    for count in range(len(kept), -1, -7):
        applied = 0
        kept.after(count)
        assert applied < 20
