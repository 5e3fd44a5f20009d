"""The read models about the conversation: session, thread, queue, and the lines they are made of."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from models.read_models import QueueSnapshot, SessionSnapshot, ThreadReadModel
from models.shape import JsonMap
from models.summaries import Incident, PendingRequest, StepSummary, TurnSummary
from views.state.shape import State
from views.state.step import narrow
from views.state.talk_records import ActionState, Item, Turn

TITLES = {"turn_input": "Input", "assistant_output": "Answer", "compaction": "Compaction"}
KINDS = {"turn_input": "message", "assistant_output": "message"}
SHOWN_NOTES = 20
"""So many of the latest notes are shown; how many there are is told beside them."""


def head(state: State, *families: str) -> dict[str, Any]:
    """How far a read model reaches: the cursor, and when the last fact about these families happened."""
    times = [state.touched[family] for family in families if family in state.touched]
    return {"up_to_sequence": state.sequence, "updated_at": max(times) if times else None}


def session_snapshot(state: State, window: int = 50, before: int | None = None) -> SessionSnapshot:
    """The session with its latest steps; `before` is the `history_cursor` of the window after the wanted one."""
    session = state.session
    items, cursor = _window(state, window, before)
    told = {name: getattr(session, name) for name in ("runtime_id", "workspace_id", "title", "created_at", "closed_at")}
    told |= {"status_reason": session.status_reason, "native_status": session.native_status}
    if session.schema_version is not None:
        told["schema_version"] = session.schema_version
    return SessionSnapshot(
        session_id=state.session_id or "unknown",
        status=session.status,
        updated_at=state.updated_at,
        up_to_sequence=state.sequence,
        thread_ids=state.lane("threads").last(window) if state.lane("threads") else None,
        recent_steps=tuple(_step(state, item) for item in items) if state.event_count else None,
        history_cursor=cursor or (state.history.cursor if state.history.has_more else None),
        metadata=session.metadata,
        **told,
    )


def _window(state: State, window: int, before: int | None) -> tuple[list[Item], str | None]:
    """The newest items before a place, oldest first, and the place that the next older window ends before."""
    lane = state.lane("items")
    end = lane.end if before is None else max(0, min(before, lane.end))
    found: list[Item] = []
    place = end
    while place > 0 and len(found) < window:
        place -= 1
        if place in lane.entries:
            found.append(state.items[lane.entries[place]])
    older = place > 0 and any(one in lane.entries for one in range(place - 1, -1, -1))
    return found[::-1], str(place) if older else None


def _step(state: State, item: Item) -> StepSummary:
    title, status = TITLES.get(item.kind), "completed"
    if item.kind in ("tool_call", "tool_result"):
        call = state.tool_calls.get(item.tool_call_id or "")
        title, status = (call.tool_name, call.status) if call else (None, "unknown")
    elif item.kind == "turn_input":
        turn = state.turns.get(item.turn_id or "")
        status = turn.status if turn else "unknown"
    told = {name: getattr(item, name) for name in ("step_id", "turn_id", "preview", "at")}
    return StepSummary(kind=KINDS.get(item.kind, item.kind), status=status, title=title, **told)


def turn_summary(turn: Turn) -> TurnSummary:
    """A turn, in short."""
    names = ("task_id", "run_id", "started_at", "completed_at", "last_error")
    told = {name: getattr(turn, name) for name in names}
    return TurnSummary(turn_id=turn.turn_id or "unknown", status=turn.status, **told)


def pending(actions: Iterable[ActionState]) -> tuple[PendingRequest, ...]:
    """Open decisions, in short."""
    return tuple(narrow(PendingRequest, action) or PendingRequest() for action in actions)


def thread_read(state: State, thread_id: str, window: int | None = 50) -> ThreadReadModel:
    """A thread with its latest turns. One that no event names is told of as unknown."""
    thread = state.threads.get(thread_id)
    if thread is None:
        return ThreadReadModel(thread_id=thread_id or "unknown", up_to_sequence=state.sequence)
    turns = state.turn_list(thread_id, window)
    last = state.turns.get(thread.last_ended_turn_id or "")
    return ThreadReadModel(
        thread_id=thread_id,
        status=thread.status,
        status_reason=thread.status_reason,
        native_status=thread.native_status,
        active_turn_id=thread.active_turn_id,
        turns=tuple(turn_summary(turn) for turn in turns) if turns else None,
        pending_requests=pending(action for action in state.open_actions() if action.thread_id == thread_id),
        last_outcome=turn_summary(last) if last else None,
        incidents=incidents(state, thread_id, window),
        queued_turns=state.queue(thread_id),
        diagnostics=diagnostics(state, thread_id) or None,
        **head(state, "threads", "turns", "queues", "actions", "incidents"),
    )


def incidents(state: State, thread_id: str, window: int | None) -> tuple[Incident, ...]:
    """What went wrong in a thread, the oldest first."""
    found = (state.incidents[key] for key in state.lane("incidents", thread_id).last(window))
    return tuple(narrow(Incident, one) or Incident() for one in found)


def diagnostics(state: State, thread_id: str) -> JsonMap:
    """What the record itself leaves in doubt: notes of the reducer, and what is known of its completeness."""
    notes = [state.notes[key] for key in state.lane("notes").last(SHOWN_NOTES)]
    shown = [
        {"code": note.code, "message": note.message, "event_id": note.event_id, "event_type": note.event_type}
        for note in notes
        if note.thread_id in (None, thread_id)
    ]
    thread, history = state.threads[thread_id], state.history
    found: dict[str, Any] = {
        "phase": thread.phase,
        "notes": shown or None,
        "note_count": len(state.notes) or None,
        "ignored_event_types": {name: count for (kind, name), count in state.counts.items() if kind == "ignored"},
        "degraded": history.degraded,
        "reconstructed_up_to": history.reconstructed_up_to,
    }
    return {name: value for name, value in found.items() if value not in (None, {})}


def queue_snapshot(state: State, thread_id: str | None = None) -> QueueSnapshot | None:
    """The queue of a thread, or of all threads one after the other; None if no fact is about one."""
    queues = [state.queues[key] for key in sorted(state.queues) if thread_id in (None, key)]
    if not queues:
        return None
    waiting = [turn for queue in queues for turn in queue.queued_turns or ()]
    known = all(queue.queued_turns is not None for queue in queues)
    states = {queue.resume_state for queue in queues}
    policies = {queue.policy for queue in queues}
    return QueueSnapshot(
        status="unknown" if not known else "queued" if waiting else "idle",
        native_status=queues[0].status if len(queues) == 1 else None,
        queue_id=queues[0].queue_id if len(queues) == 1 else None,
        queued_turns=tuple(waiting) if known else None,
        policy=policies.pop() if len(policies) == 1 else None,
        resume_state=states.pop() if len(states) == 1 else "unknown",
        **head(state, "queues"),
    )
