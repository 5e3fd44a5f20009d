"""The reducer: the state after an event is a function of the state before it and the event, and of nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from models.event import Event
from views.state import calls, choice, decisions, memory, talk, tasks, trouble, world
from views.state.beside import READERS, read_beside
from views.state.shape import State
from views.state.spending import charge_calls
from views.state.step import Step
from views.state.talk_records import RequestNote, SessionState

Handler = Callable[[Step], None]


def _handlers() -> dict[str, tuple[Handler, ...]]:
    found: dict[str, tuple[Handler, ...]] = {}
    for family in (talk, calls, decisions, tasks, choice, memory, world, trouble):
        for event_type, handler in family.HANDLERS.items():
            found[event_type] = (*found.get(event_type, ()), handler)
    found["task.profile.resolved"] += (choice.profile_resolved,)
    return found


HANDLERS: dict[str, tuple[Handler, ...]] = _handlers()
"""What each type of event changes."""


def apply(state: State, event: Event) -> State:
    """The state after one more event. Pure, and total: what cannot be taken at face value leaves a note."""
    step = Step(state, event)
    if (refused := _refusal(state, event)) is not None:
        step.note(*refused)
        return step.finish(taken=False)
    _envelope(step)
    handlers = HANDLERS.get(event.type)
    if handlers is None:
        step.count("ignored", event.type)
    else:
        if not step.readable:
            step.note("unreadable_payload", getattr(event.payload, "problem", None) or "not of its type")
        for handler in handlers:
            handler(step)
        trouble.incident(step)
    if not event.model_fields_set.isdisjoint(READERS):
        read_beside(step)
    charge_calls(step)
    tasks.follow_task(step)
    talk.follow_turn(step)
    return step.finish()


def fold(events: Iterable[Event], start: State | None = None) -> State:
    """The state after events in their order; without a start, of the session that the first of them names."""
    state = start if start is not None else State()
    for event in events:
        state = apply(state, event)
    return state


def _refusal(state: State, event: Event) -> tuple[str, str] | None:
    """Why an event is not taken: it is of another session, or was taken before."""
    if state.session_id and event.session_id not in (None, state.session_id):
        return "foreign_session", f"an event of session {event.session_id}"
    if event.event_id == state.last_event_id:
        return "repeated", "the same event again"
    if event.sequence is not None and state.sequence is not None and event.sequence <= state.sequence:
        return "repeated", f"event {event.sequence} after event {state.sequence}"
    return None


def _envelope(step: Step) -> None:
    """What the envelope itself tells."""
    event, state = step.event, step.state
    step.put(SessionState, runtime_id=event.runtime_id, schema_version=event.schema_version)
    if event.sequence is not None and state.sequence is not None and event.sequence > state.sequence + 1:
        step.note("gap", f"events {state.sequence + 1} to {event.sequence - 1} are missing")
    if event.trace_id is not None:
        step.append_once(("traces",), event.trace_id)
    talk.mention(step)
    tasks.mention_task(step)
    if event.request_id is not None:
        _request(step, event.request_id)


def _request(step: Step, request_id: str) -> None:
    event = step.event
    known = step.get(RequestNote, request_id)
    if known is None:
        refs = event.refs or {}
        told = {name: value for name in ("command", "command_sha256") if isinstance(value := refs.get(name), str)}
        first = {"first_sequence": event.sequence, "first_event_id": event.event_id}
        known = step.put(RequestNote, request_id, request_id=request_id, **first, **told)
    step.put(RequestNote, request_id, last_sequence=event.sequence, events=known.events + 1)
