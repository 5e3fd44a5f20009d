"""How events change the session, its threads, turns and queues."""

from __future__ import annotations

from collections.abc import Callable

from models.states import EXECUTING, TERMINAL, WAITING, next_state
from models.states import State as WorkState
from models.values import QueuedTurn
from views.state.step import Step
from views.state.talk_records import Item, QueueState, SessionState, ThreadState, Turn

ENDED = TERMINAL - {WorkState.ARCHIVED}
RUNS_AGAIN = frozenset({"model.requested", "tool.started", "context.resolved", "turn.started"})
"""What proves that a turn goes on whose state was in doubt after a restart."""

HELD, RUNNING, WAITS = "held", "running", "waiting_resume"
RESUME_STATES = {"paused": HELD, "resumed": RUNNING, "started": RUNNING, "restored": WAITS}


def mention(step: Step) -> None:
    """Threads and turns exist from the first event that names them; nothing else is known of them then."""
    event = step.event
    if event.thread_id is not None and step.get(ThreadState, event.thread_id) is None:
        step.put(ThreadState, event.thread_id, thread_id=event.thread_id)
        step.append(("threads",), event.thread_id)
    if event.turn_id is None:
        return
    turn = step.get(Turn, event.turn_id)
    if turn is None or (turn.thread_id is None and event.thread_id is not None):
        place = step.append(("turns", event.thread_id), event.turn_id) if event.thread_id else None
        step.put(Turn, event.turn_id, turn_id=event.turn_id, thread_id=event.thread_id, place=place)


def session_created(step: Step) -> None:
    """A session began."""
    names = ("title", "workspace_id", "source", "client_name", "client_version", "cwd", "resumed_from")
    status, native, reason = step.told_status("unknown")
    step.assign(SessionState, status=status, native_status=native, status_reason=reason)
    step.put(SessionState, created_at=step.at, **step.pick(*names))
    step.put_map(SessionState, "", "metadata", step.told("metadata"))


def session_updated(step: Step) -> None:
    """Something about the session changed."""
    if step.maybe("status") or step.event.status:
        status, native, reason = step.told_status("unknown")
        step.assign(SessionState, status=status, native_status=native, status_reason=reason)
    step.put(SessionState, **step.pick("title", "closed_at"))
    step.put_map(SessionState, "", "metadata", step.told("metadata"))


def thread_started(step: Step) -> None:
    """A thread started."""
    if (thread_id := _thread(step)) is None:
        return
    status, native, reason = step.told_status("unknown")
    step.assign(ThreadState, thread_id, status=status, native_status=native, status_reason=reason)
    step.put(ThreadState, thread_id, started_at=step.at, **step.pick("title", "source", "parent_thread_id"))
    step.put_map(ThreadState, thread_id, "metadata", step.told("metadata"))


def thread_updated(step: Step) -> None:
    """What is shown of a thread changed."""
    if (thread_id := _thread(step)) is None:
        return
    if step.maybe("status") or step.event.status:
        status, native, reason = step.told_status("unknown")
        reason = reason or step.told("reason")
        step.assign(ThreadState, thread_id, status=status, native_status=native, status_reason=reason)
    step.put(ThreadState, thread_id, **step.pick("active_turn_id"))
    step.put_map(ThreadState, thread_id, "metadata", step.told("metadata"))


def turn_submitted(step: Step) -> None:
    """An input was accepted or queued."""
    if (turn_id := _turn(step)) is None:
        return
    known = step.get(Turn, turn_id)
    if known is not None and known.submitted_at is not None:
        step.note("contradiction", f"turn {turn_id} was submitted before")
        return
    names = ("input_ref", "input_refs", "input_chars", "source", "queued_turn_id", "idempotency_key", "options")
    ids = {"task_id": step.event.task_id, "run_id": step.event.run_id}
    step.put(Turn, turn_id, submitted_at=step.at, **step.pick(*names), **ids)
    step.put_map(Turn, turn_id, "metadata", step.told("metadata"))
    if key := step.told("idempotency_key"):
        step.name(("idempotency", key), turn_id)
    if queued := step.told("queued_turn_id"):
        step.name(("queued_turn", queued), turn_id)
    status, native, reason = step.told_status("unknown")
    move_turn(step, turn_id, status, native, reason)
    step.set_open(Turn, turn_id, status not in ENDED)
    add_item(step, "turn_input", ref=step.told("input_ref"), refs=step.told("input_refs"))
    if status == "queued":
        _enqueue(step, step.told("queued_turn_id") or turn_id)


def turn_started(step: Step) -> None:
    """Execution of a turn began, or began again."""
    if (turn_id := _turn(step)) is None:
        return
    turn = step.get(Turn, turn_id)
    ids = {"task_id": step.event.task_id, "run_id": step.event.run_id}
    step.put(Turn, turn_id, queue_wait_ms=step.told("queue_wait_ms"), **ids)
    if turn is None or turn.started_at is None:
        step.put(Turn, turn_id, started_at=step.at)
    step.assign(Turn, turn_id, completed_at=None)
    thread_id = step.event.thread_id
    if thread_id is not None and not (turn and turn.removed_by):
        thread = step.get(ThreadState, thread_id)
        if thread and thread.active_turn_id not in (None, turn_id) and step.is_open(Turn, thread.active_turn_id):
            step.note("contradiction", f"turn {thread.active_turn_id} had not ended")
        step.put(ThreadState, thread_id, active_turn_id=turn_id)
        _leave_queue(step, thread_id, turn_id)
    move_turn(step, turn_id, *step.told_status("running"))
    step.set_open(Turn, turn_id, True)


def turn_completed(step: Step) -> None:
    """A turn ended successfully."""
    if (turn_id := _turn(step)) is None:
        return
    step.put(Turn, turn_id, **step.pick("stop_reason", "output_ref", "output_chars", "duration_ms"))
    _end_turn(step, turn_id, "completed", frozenset({"completed"}))


def turn_failed(step: Step) -> None:
    """A turn ended in failure, or was stopped."""
    if (turn_id := _turn(step)) is None:
        return
    step.put(Turn, turn_id, last_error=step.fault(), **step.pick("interrupted", "duration_ms"))
    default = "cancelled" if step.told("interrupted") else "failed"
    _end_turn(step, turn_id, default, frozenset({"failed", "cancelled", "timed_out"}))


def run_status(step: Step) -> None:
    """What the run of a thread is at."""
    event = step.event
    if event.thread_id is not None:
        step.put(ThreadState, event.thread_id, phase=step.told("phase"), phase_title=step.told("title"))
    turn = step.get(Turn, event.turn_id)
    if turn is None or event.turn_id is None:
        return
    step.put(Turn, event.turn_id, phase=step.told("phase"))
    if step.is_open(Turn, event.turn_id):
        status, native, reason = step.told_status(turn.status)
        if status in ENDED:  # a turn ends by its own event only
            native, status = native or status, turn.status
        move_turn(step, event.turn_id, status, native, reason or step.told("detail"))


def queue_changed(step: Step) -> None:
    """Order, state or policy of the waiting turns changed."""
    thread_id = step.event.thread_id or ""
    change, turn_id = step.told("change"), step.told("queued_turn_id")
    step.put(QueueState, thread_id, thread_id=step.event.thread_id, queue_id=step.event.queue_id)
    step.put(QueueState, thread_id, policy=step.told("policy"), last_change=change, status=step.told("status"))
    step.put(QueueState, thread_id, resume_state=RESUME_STATES.get(change or ""))
    if step.told("queued_turns") is not None:
        step.put(QueueState, thread_id, queued_turns=step.told("queued_turns"))
    elif change == "added" and turn_id:
        _enqueue(step, turn_id)
    elif change in ("removed", "started") and turn_id:
        _leave_queue(step, thread_id, turn_id)
    else:
        step.assign(QueueState, thread_id, queued_turns=None)
    if turn_id is None:
        return
    turn_id = step.look_up("queued_turn", turn_id) or turn_id
    turn = step.get(Turn, turn_id)
    if turn and change == "added" and turn.status in ("unknown", "accepted"):
        move_turn(step, turn_id, "queued")
        step.set_open(Turn, turn_id, True)
    elif turn and change == "removed" and turn.started_at is None:
        move_turn(step, turn_id, "cancelled", reason=step.told("reason"))
        step.set_open(Turn, turn_id, False)


def follow_turn(step: Step) -> None:
    """What facts about the work inside a turn mean for its state."""
    event = step.event
    turn = step.get(Turn, event.turn_id)
    if turn is None or not step.is_open(Turn, event.turn_id) or event.type.startswith(("turn.", "task.")):
        return
    status = turn.status
    if status == WorkState.STALE and event.type in RUNS_AGAIN:
        move_turn(step, turn.turn_id, "running")
    elif status in EXECUTING and event.type != "history.reconstructed":
        after = next_state(status, event.type)
        if after != status:
            move_turn(step, turn.turn_id, after, turn.native_status, turn.status_reason)


def wait_in_turn(step: Step, turn_id: str | None, status: str, opened: int) -> None:
    """A decision of a turn was opened (1) or closed (-1); the turn waits as long as one is open."""
    turn = step.get(Turn, turn_id)
    if turn is None or turn_id is None:
        return
    left = max(turn.open_actions + opened, 0)
    step.put(Turn, turn_id, open_actions=left)
    if not step.is_open(Turn, turn_id):
        return
    if opened > 0 and turn.status in EXECUTING:
        move_turn(step, turn_id, status)
    elif opened < 0 and not left and turn.status in WAITING:
        move_turn(step, turn_id, "running")


def move_turn(step: Step, turn_id: str, status: str, native: str | None = None, reason: str | None = None) -> None:
    """Set the state of a turn, and of its thread if the turn is the one under way."""
    turn = step.assign(Turn, turn_id, status=str(status), native_status=native, status_reason=reason)
    thread = step.get(ThreadState, turn.thread_id)
    if thread is not None and thread.active_turn_id == turn_id:
        values = {"status": str(status), "native_status": native, "status_reason": reason}
        step.assign(ThreadState, thread.thread_id, **values)


def rest_thread(step: Step, thread_id: str) -> None:
    """No turn of a thread is under way any more."""
    queue = step.get(QueueState, thread_id)
    status = "queued" if queue and queue.queued_turns else "idle"
    values = {"active_turn_id": None, "status": status, "native_status": None, "status_reason": None}
    step.assign(ThreadState, thread_id, **values)


def add_item(step: Step, kind: str, /, **told: object) -> int | None:
    """Add a piece to the conversation; gives its number. What is said in a turn that was taken back is not added."""
    event, number = step.event, step.number
    turn = step.get(Turn, event.turn_id)
    if turn is not None and turn.removed_by is not None:
        return None
    place = step.append(("items",), number)
    thread_place = step.append(("items", event.thread_id), number) if event.thread_id else None
    if event.turn_id is not None:
        step.append(("turn_items", event.turn_id), number)
    names = ("thread_id", "turn_id", "task_id", "step_id", "event_id", "sequence")
    ids = {name: getattr(event, name) for name in names}
    places = {"number": number, "place": place, "thread_place": thread_place}
    step.put(Item, number, kind=kind, at=step.at, **places, **ids, **told)
    return number


def _end_turn(step: Step, turn_id: str, default: str, possible: frozenset[str]) -> None:
    ids = {"task_id": step.event.task_id, "run_id": step.event.run_id}
    turn = step.put(Turn, turn_id, completed_at=step.at, **ids)
    status, native, reason = step.told_status(default)
    if status not in possible:
        step.note("contradiction", f"{step.event.type} says that turn {turn_id} is {status}")
        status, native = "unknown", native or status
    move_turn(step, turn_id, status, native, reason)
    step.set_open(Turn, turn_id, False)
    if turn.thread_id is None or turn.removed_by is not None:
        return
    thread = step.get(ThreadState, turn.thread_id)
    if thread is not None:
        step.put(ThreadState, turn.thread_id, last_ended_turn_id=turn_id)
        _leave_queue(step, turn.thread_id, turn_id)
        if thread.active_turn_id in (None, turn_id):
            rest_thread(step, turn.thread_id)


def _enqueue(step: Step, queued_turn_id: str) -> None:
    thread_id = step.event.thread_id or ""
    queue = step.get(QueueState, thread_id)
    waiting = (queue.queued_turns or ()) if queue else ()
    if any(one.queued_turn_id == queued_turn_id for one in waiting):
        return
    entry = QueuedTurn.model_construct(
        queued_turn_id=queued_turn_id, position=len(waiting), source=step.maybe("source"), status="queued",
        queued_at=step.at,
    )  # fmt: skip
    step.put(QueueState, thread_id, thread_id=step.event.thread_id, queued_turns=(*waiting, entry))


def _leave_queue(step: Step, thread_id: str, turn_id: str) -> None:
    queue = step.get(QueueState, thread_id)
    if queue is None or not queue.queued_turns:
        return
    turn = step.get(Turn, turn_id)
    names = {turn_id, turn.queued_turn_id if turn else None}
    rest = [one for one in queue.queued_turns if one.queued_turn_id not in names]
    if len(rest) < len(queue.queued_turns):
        placed = tuple(one.model_copy(update={"position": place}) for place, one in enumerate(rest))
        step.put(QueueState, thread_id, queued_turns=placed)


def _thread(step: Step) -> str | None:
    if step.event.thread_id is None:
        step.note("no_identity", "the event names no thread")
    return step.event.thread_id


def _turn(step: Step) -> str | None:
    if step.event.turn_id is None:
        step.note("no_identity", "the event names no turn")
    return step.event.turn_id


HANDLERS: dict[str, Callable[[Step], None]] = {
    "session.created": session_created,
    "session.updated": session_updated,
    "thread.started": thread_started,
    "thread.updated": thread_updated,
    "turn.submitted": turn_submitted,
    "turn.started": turn_started,
    "turn.completed": turn_completed,
    "turn.failed": turn_failed,
    "run.status": run_status,
    "queue.changed": queue_changed,
}
