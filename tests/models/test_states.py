"""The states of work and the lifecycle of a task."""

import json
from pathlib import Path

import pytest

from models.errors import IllegalTransition
from models.payload import Payload
from models.states import (
    MEANINGS,
    RULES,
    SIXTEEN,
    TASK_ONLY,
    TERMINAL,
    TRANSITIONS,
    State,
    allowed_events,
    attempt_status,
    next_state,
    task_status,
    thread_status,
)

TASK_EVENTS = {name for name in Payload.registry if name.startswith("task.")}

# The way of a task to each of the sixteen states, by the events that tell it.
WAYS: dict[str, list[str]] = {
    "accepted": ["task.created", "task.accepted"],
    "queued": ["task.created", "task.accepted", "task.queued"],
    "preparing": ["task.created", "task.accepted", "task.attempt.started"],
    "running": ["task.created", "task.accepted", "task.started"],
    "waiting_input": ["task.created", "task.accepted", "task.started", "task.waiting:input"],
    "waiting_permission": ["task.created", "task.accepted", "task.started", "task.waiting:permission"],
    "waiting_resource": ["task.created", "task.accepted", "task.started", "task.waiting:resource"],
    "blocked": ["task.created", "task.accepted", "task.started", "task.blocked"],
    "streaming": ["task.created", "task.accepted", "task.started", "model.delta"],
    "retrying": ["task.created", "task.accepted", "task.started", "task.attempt.failed", "task.retrying"],
    "lost": ["task.created", "task.accepted", "task.started", "task.lost"],
    "timed_out": ["task.created", "task.accepted", "task.started", "task.timed_out"],
    "completed": ["task.created", "task.accepted", "task.started", "task.attempt.completed", "task.completed"],
    "failed": ["task.created", "task.accepted", "task.started", "task.attempt.failed", "task.failed"],
    "cancelled": ["task.created", "task.accepted", "task.started", "task.cancel_requested", "task.cancelled"],
    "stale": ["task.created", "task.accepted", "task.started", "history.reconstructed"],
}


@pytest.mark.parametrize(
    "state",
    [pytest.param(state, marks=pytest.mark.req(f"AR-{213 + n}"), id=state) for n, state in enumerate(WAYS)],
)
def test_each_of_the_sixteen_states_is_told_apart_and_reached_by_its_own_events(state: str) -> None:
    now: str = State.UNKNOWN
    for step in WAYS[state]:
        event_type, _, waiting_for = step.partition(":")
        now = next_state(now, event_type, waiting_for or None)
    assert now == state
    assert [s for s in State if MEANINGS[s] == MEANINGS[State(state)]] == [state]


def test_there_are_sixteen_states_and_five_more_for_tasks() -> None:
    assert [str(state) for state in SIXTEEN] == list(WAYS)
    assert {"draft", "paused", "cancelling", "archived", "unknown"} == TASK_ONLY
    assert set(MEANINGS) == set(State)


def test_every_task_event_of_the_vocabulary_has_a_rule_and_every_rule_a_type() -> None:
    ruled = {rule.event_type for rule in RULES}
    assert ruled >= TASK_EVENTS
    assert ruled <= set(Payload.registry)


def test_no_two_rules_speak_about_the_same_case() -> None:
    cases = [(source, rule.event_type, rule.waiting_for) for rule in RULES for source in rule.sources]
    assert len(cases) == len(set(cases)) == len(TRANSITIONS)


def test_every_state_can_be_reached_from_a_new_task() -> None:
    reached, frontier = {State.DRAFT}, [State.DRAFT]
    while frontier:
        here = frontier.pop()
        for (source, _, _), target in TRANSITIONS.items():
            if source is here and target not in reached:
                reached.add(target)
                frontier.append(target)
    assert reached == set(State)


@pytest.mark.parametrize("state", sorted(TERMINAL))
def test_work_that_has_ended_leaves_its_end_only_to_the_archive_or_by_a_new_request(state: State) -> None:
    out = {kind for (source, kind, _), target in TRANSITIONS.items() if source is state and target is not state}
    retry = {"task.retrying"} if state in (State.FAILED, State.TIMED_OUT) else set()
    assert out == (set() if state is State.ARCHIVED else {"task.archived"} | retry)


def test_the_archive_is_closed() -> None:
    assert allowed_events(State.ARCHIVED) == frozenset()
    with pytest.raises(IllegalTransition, match="nothing: the state is closed"):
        next_state("archived", "task.started")


def test_an_illegal_step_names_what_is_allowed() -> None:
    with pytest.raises(IllegalTransition) as caught:
        next_state("completed", "task.started")
    assert caught.value.state == "completed"
    assert caught.value.event_type == "task.started"
    assert set(caught.value.allowed) == {"task.archived", "task.updated", "task.dependency.updated"}


def test_a_task_is_cancelled_only_after_the_wish_was_recorded_and_then_starts_no_children() -> None:
    with pytest.raises(IllegalTransition):
        next_state("running", "task.cancelled")
    cancelling = next_state("running", "task.cancel_requested")
    assert next_state(cancelling, "task.cancelled") == "cancelled"
    with pytest.raises(IllegalTransition):
        next_state(cancelling, "task.delegated")


def test_the_success_of_a_model_or_tool_never_completes_a_task() -> None:
    completing = {kind for (source, kind, _), target in TRANSITIONS.items() if target is State.COMPLETED is not source}
    assert completing == {"task.completed"}
    for event_type in ("model.completed", "tool.result", "turn.completed", "task.attempt.completed"):
        assert next_state("running", event_type) == "running"


def test_facts_that_are_not_about_the_lifecycle_change_nothing() -> None:
    assert next_state("completed", "model.delta") == "completed"
    assert next_state("queued", "vendor.acme.thing") == "queued"


def test_waiting_without_a_reason_is_unknown_and_a_dependency_blocks() -> None:
    assert next_state("running", "task.waiting") == "unknown"
    assert next_state("running", "task.waiting", "the moon") == "unknown"
    assert next_state("running", "task.waiting", "dependency") == "blocked"


@pytest.mark.req("CONF-5")
def test_states_project_to_the_published_words_and_the_exact_one_is_kept(shared: Path) -> None:
    defs = json.loads((shared / "conformance" / "agentruntime-snapshot.schema.json").read_text())["$defs"]
    published = {
        thread_status: defs["thread"]["properties"]["status"]["enum"],
        attempt_status: defs["statusValue"]["enum"],
        task_status: defs["taskStatusValue"]["enum"],
    }
    for project, words in published.items():
        for state in [*State, *words, "vendor_state"]:
            told = project(state)
            assert told.status in words
            assert told.native_status == (None if state in words else state)
            assert told.status == state or state not in words
    assert thread_status("waiting_permission").status == "blocked"
    assert attempt_status("lost").status == "stale"
    assert attempt_status("timed_out").status == "failed"
    assert thread_status(None).status == "unknown"
