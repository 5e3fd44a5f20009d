"""The reducer: pure, total, the same by any way of folding, and every leaf knows its event."""

import random
from datetime import UTC
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.event import Correlation, Event
from models.payload import Payload, Unrecognised
from models.payloads import model, session, task, turn
from models.states import State as WorkState
from tests.models.generated_events import TIMES, filled, partly_filled
from tests.views.state.stories import Story, check, leaves
from views.state import State, apply, dump, fold, load, read_models
from views.state.reducer import HANDLERS

IDS = sorted(name for name in Correlation.model_fields if name not in ("session_id", "trace_id", "span_id"))


def test_every_type_of_the_vocabulary_is_read() -> None:
    assert set(HANDLERS) == set(Payload.registry)


@pytest.mark.req("AR-230")
def test_folding_again_or_from_any_prefix_gives_the_same_state_and_read_models(sample: list[Event]) -> None:
    whole = fold(sample)
    assert fold(sample) == whole
    state = State.empty("s")
    for count, event in enumerate(sample):
        if count % 12 == 0:
            assert fold(sample[count:], fold(sample[:count])) == whole
        state = apply(state, event)
    assert state == whole
    assert read_models(state) == read_models(whole)
    assert state != fold(sample[:-1])


def test_applying_an_event_leaves_the_state_before_it_as_it_was(sample: list[Event]) -> None:
    states, dumps = [State.empty("s")], []
    for event in sample:
        dumps.append(dump(states[-1]))
        states.append(apply(states[-1], event))
    for state, dumped in zip(states[:-1:20], dumps[::20], strict=True):
        assert load(dump(state)) == load(dumped)


def test_every_leaf_of_the_sample_knows_an_event_that_really_happened(sample: list[Event]) -> None:
    state = fold(sample)
    check(state)
    happened = {(event.event_id, event.sequence, event.type) for event in sample}
    paths = leaves(state)
    assert len(paths) > 1_000
    assert {tuple(source) for path in paths if (source := state.source(path))} <= happened
    assert not state.notes, "the sample contradicts itself nowhere"


def test_a_source_is_the_event_after_which_the_leaf_has_its_value(sample: list[Event]) -> None:
    last = fold(sample)
    states = {str(event.event_id): fold(sample[: count + 1]) for count, event in enumerate(sample)}
    before = {str(event.event_id): states[sample[count - 1].event_id] for count, event in enumerate(sample) if count}

    def value(state: State, path: tuple[Any, ...]) -> Any:
        held: Any = getattr(state, path[0])
        for part in path[1:-1]:
            held = held.get(part)
        return getattr(held, path[-1], None)

    for path in leaves(last):
        source = last.source(path)
        assert source is not None
        assert value(states[source.event_id], path) == value(last, path), path
        if source.event_id in before:
            assert value(before[source.event_id], path) != value(last, path), path


def test_the_source_of_a_leaf_is_found_by_its_path() -> None:
    story = Story(thread_id="th", turn_id="tu")
    story.tell(session.SessionCreated(title="one", metadata={"a": 1, "b": 1}), thread_id=None, turn_id=None)
    story.tell(turn.TurnSubmitted(input_ref="i", source="user", status="accepted"))
    story.tell(turn.TurnStarted(status="running"))
    story.tell(session.SessionUpdated(metadata={"b": 2}), thread_id=None, turn_id=None)
    state = story.state
    assert state.source(("turns", "tu", "status")) == ("e-3", 3, "turn.started")
    assert state.source(("turns", "tu", "input_ref")) == ("e-2", 2, "turn.submitted")
    assert state.source(("session", "title")) == ("e-1", 1, "session.created")
    assert state.source(("session", "metadata", "a")) == ("e-1", 1, "session.created")
    assert state.source(("session", "metadata", "b")) == ("e-4", 4, "session.updated")
    assert state.source(("turns", "tu", "completed_at")) is None
    assert state.source(("turns", "other", "status")) is None
    assert state.source(("nothing",)) is None
    assert state.source(()) is None


def test_events_of_other_vendors_are_counted_and_change_nothing_else() -> None:
    story = Story(thread_id="th")
    story.tell(session.SessionCreated(title="x", status="running"))
    before = story.state
    story.tell("vendor.thing", {"status": "completed"})
    story.tell("vendor.thing", ["anything"])
    state = story.state
    assert state.counts["ignored", "vendor.thing"] == 2
    assert state.sequence == 3
    assert state.session == before.session
    assert state.threads == before.threads
    assert not state.notes


def test_repeated_and_foreign_events_are_not_taken_and_a_gap_is_noted() -> None:
    story = Story(thread_id="th")
    first = story.tell(session.SessionCreated(title="x"))
    story.tell(session.SessionUpdated(title="y"))
    story.tell(session.SessionUpdated(title="z"), sequence=9)
    story.tell(session.SessionUpdated(title="old"), sequence=4)
    story.tell(session.SessionUpdated(title="theirs"), session_id="other", sequence=10)
    state = apply(story.state, first)
    assert state.session.title == "z"
    assert state.sequence == 9
    assert [note.code for note in (state.notes[key] for key in state.lane("notes"))] == [
        *("gap", "repeated", "foreign_session", "repeated"),
    ]
    assert "events 3 to 8 are missing" in state.notes[state.lane("notes").last()[0]].message


def test_events_without_numbers_are_all_taken_and_the_session_is_the_first_that_is_named() -> None:
    story = Story(sequence=None)
    story.tell(session.SessionCreated(title="x"), session_id=None)
    story.tell(session.SessionUpdated(title="y"))
    state = story.state
    assert state.sequence is None
    assert (state.session_id, state.session.title, state.last_event_id) == ("s", "y", "e-2")
    assert read_models(state).session.up_to_sequence is None


def test_a_payload_that_is_not_valid_for_its_type_tells_only_what_the_type_tells() -> None:
    story = Story(thread_id="th", turn_id="tu", model_request_id="r")
    story.tell("turn.started", {"queue_wait_ms": "long"})
    story.tell("model.completed", {"usage": {"output_tokens": -5}, "output_ref": "x"})
    story.tell("turn.completed", ["not", "a", "map"])
    state = story.state
    assert state.turns["tu"].status == "completed"
    assert state.turns["tu"].queue_wait_ms is None
    assert state.model_calls["r"].usage is None
    assert [note.code for note in state.notes.values()] == ["unreadable_payload"] * 3
    story.events[0] = story.events[0].model_copy(update={"payload": Payload()})
    assert story.state.turns["tu"].started_at is not None


def test_an_illegal_transition_makes_the_state_unknown_and_leaves_a_note() -> None:
    story = Story(task_id="t", run_id="r", thread_id="th")
    story.tell(task.TaskCreated(objective="o"))
    story.tell(task.TaskCompleted(completed_by="me", status="completed"))
    state = story.state
    assert state.tasks["t"].status == "unknown"
    assert state.tasks["t"].status_reason == "task.completed may not follow draft"
    (note,) = state.notes.values()
    assert (note.code, note.task_id, note.event_type) == ("illegal_transition", "t", "task.completed")
    story.tell(task.TaskStarted(attempt_index=1, status="running"))
    assert story.state.tasks["t"].status == "running", "a later fact is believed again"


POOL = st.sampled_from(["a", "b", "c"])


@st.composite
def odd_events(draw: st.DrawFn) -> Event:
    """Any type with any payload, valid or not, about a few things that turn up again and again."""
    event_type = draw(st.sampled_from(sorted(HANDLERS)))
    known = Payload.registry[event_type]
    payload = draw(partly_filled(known) | filled(known) | st.builds(Unrecognised, body=st.none() | st.text(max_size=3)))
    ids = draw(st.dictionaries(st.sampled_from(IDS), POOL, max_size=12))
    told = {"status": draw(st.none() | st.sampled_from([*WorkState, "odd"]))} if draw(st.booleans()) else {}
    numbers = {"sequence": draw(st.none() | st.integers(0, 40)), "event_id": draw(st.uuids().map(str))}
    return Event(type=event_type, timestamp=draw(TIMES), payload=payload, session_id="s", **ids, **told, **numbers)


@given(events=st.lists(odd_events(), max_size=12), cut=st.integers(0, 12))
@settings(max_examples=150, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
def test_no_event_however_odd_makes_it_raise_or_contradict_itself(events: list[Event], cut: int) -> None:
    state = fold(events)
    check(state)
    assert fold(events[cut:], fold(events[:cut])) == state
    assert load(dump(state)) == state
    read_models(state)
    read_models(state, window=2)


@pytest.mark.parametrize("seed", range(12))
def test_the_facts_of_the_sample_in_any_order_with_any_owners_make_a_consistent_state(
    sample: list[Event], seed: int
) -> None:
    rng = random.Random(seed)
    pools = {name: sorted({v for e in sample if (v := getattr(e, name))} | {"x"})[:6] for name in IDS}
    mixed: list[Event] = []
    for event in rng.sample(sample, len(sample)):
        swapped = {name: rng.choice(pools[name]) for name in rng.sample(IDS, 4) if rng.random() < 0.6}
        swapped |= {"sequence": None} if seed % 2 else {"sequence": len(mixed) + 1}
        mixed.append(event.model_copy(update=swapped))
    cut = rng.randrange(len(mixed))
    state = fold(mixed)
    check(state)
    assert fold(mixed[cut:], fold(mixed[:cut])) == state
    assert load(dump(state)) == state
    read_models(state)
    read_models(state, window=3)


def test_moments_of_the_state_are_in_utc() -> None:
    story = Story()
    story.tell(model.ModelRequested(provider_name="p", model_name="m"), model_request_id="r")
    state = story.state
    assert state.updated_at is not None
    assert state.updated_at.tzinfo is UTC
