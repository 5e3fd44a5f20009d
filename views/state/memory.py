"""How events change the context and the history: selection, compaction, rollback, reconstruction and repair."""

from __future__ import annotations

from collections.abc import Callable

from models.states import EXECUTING, next_state
from models.states import State as WorkState
from views.state.record import Record
from views.state.step import Step
from views.state.talk import add_item, move_turn, rest_thread
from views.state.talk_records import HistoryState, Item, ModelCall, ThreadState, ToolCall, Turn
from views.state.tasks import move_task
from views.state.work_records import CompactionState, ContextState, RollbackState, TaskState
from views.state.world_records import HookState, JobState, ProcessState, SubagentState

SELECTED = ("context_refs", "memory_refs", "knowledge_refs", "source_refs", "policy_refs")
STALE = str(WorkState.STALE)


def context_resolved(step: Step) -> None:
    """The context of a turn was selected; it takes the place of the one before."""
    key = step.event.thread_id or ""
    step.put(ContextState, key, thread_id=step.event.thread_id)
    told = step.pick(*SELECTED, "ref_count", "estimated_tokens", "warnings", "missing")
    step.assign(ContextState, key, turn_id=step.event.turn_id, **told)


def compaction_started(step: Step) -> None:
    """A compaction began."""
    compaction_id = _compaction(step)
    step.put(CompactionState, compaction_id, status="running", started_at=step.at)
    step.put(ContextState, step.event.thread_id or "", last_compaction_id=compaction_id)


def compaction_completed(step: Step) -> None:
    """A compaction left a boundary: its summary stands in the place of the turns before it."""
    compaction_id = _compaction(step)
    names = ("tokens_after", "summary_ref", "replacement_ref", "continuation_ref", "preserved_actions")
    more = ("preserved_incidents", "preserved_artifact_refs", "preserved_evidence_refs")
    status, _, _ = step.told_status("completed")
    step.put(CompactionState, compaction_id, status=status, ended_at=step.at, **step.pick(*names, *more))
    step.put(ContextState, step.event.thread_id or "", last_compaction_id=compaction_id, consecutive_failures=0)
    ref = step.told("replacement_ref") or step.told("summary_ref")
    number = add_item(step, "compaction", ref=ref, compaction_id=compaction_id)
    compaction = step.put(CompactionState, compaction_id, item_number=number)
    for turn_id in compaction.affected_turns or ():
        _mark(step, turn_id, None, compaction_id)


def compaction_failed(step: Step) -> None:
    """A compaction failed; the context is as it was."""
    compaction_id = _compaction(step)
    status, _, _ = step.told_status("failed")
    step.put(CompactionState, compaction_id, status=status, ended_at=step.at, error=step.fault())
    key = step.event.thread_id or ""
    held = step.get(ContextState, key)
    told = step.told("consecutive_failures")
    failures = told if told is not None else (held.consecutive_failures if held else 0) + 1
    step.put(ContextState, key, thread_id=step.event.thread_id, consecutive_failures=failures)


def _compaction(step: Step) -> str:
    """The compaction that an event is about: the one it names, else the one under way."""
    key = step.event.thread_id or ""
    compaction_id = step.told("compaction_id")
    if compaction_id is None:
        held = step.get(ContextState, key)
        last = step.get(CompactionState, held.last_compaction_id) if held else None
        going_on = last is not None and last.ended_at is None and not step.event.type.endswith(".started")
        compaction_id = last.compaction_id if last and going_on else f"compaction:{step.event.event_id}"
    compaction_id = str(compaction_id)
    if step.get(CompactionState, compaction_id) is None:
        step.append(("compactions",), compaction_id)
    step.put(ContextState, key, thread_id=step.event.thread_id)
    ids = {"compaction_id": compaction_id, "thread_id": step.event.thread_id, "turn_id": step.event.turn_id}
    step.put(CompactionState, compaction_id, **ids, **step.pick("trigger", "affected_turns", "tokens_before"))
    return compaction_id


def _mark(step: Step, turn_id: str, before: str | None, after: str | None) -> None:
    """Set which compaction stands for a turn and its items, where another one is held now."""
    turn = step.get(Turn, turn_id)
    if turn is None or turn.compacted_by != before:
        return
    step.assign(Turn, turn_id, compacted_by=after)
    for number in step.lane("turn_items", turn_id):
        item = step.get(Item, number)
        if item is not None and item.number != step.number and item.compacted_by == before:
            step.assign(Item, number, compacted_by=after)


def rollback_started(step: Step) -> None:
    """A return to an earlier point began."""
    step.put(RollbackState, _rollback(step), status="running", requested_by=step.told("requested_by"))


def rollback_completed(step: Step) -> None:
    """The turns after the target are taken back; what they did outside is not undone by that."""
    rollback_id = _rollback(step)
    names = ("surviving_baseline", "affected_tools", "affected_artifacts", "affected_subagents", "affected_jobs")
    status, _, _ = step.told_status("completed")
    step.put(RollbackState, rollback_id, status=status, **step.pick(*names, "repair", "degraded"))
    if step.told("degraded"):
        step.put(HistoryState, degraded=True)
    removed = step.told("removed_turns")
    if removed is None:
        step.note("unreadable_payload", "a rollback that does not tell which turns it removed")
    for turn_id in removed or ():
        _remove_turn(step, turn_id, rollback_id)


def _rollback(step: Step) -> str:
    rollback_id = step.told("rollback_id") or f"rollback:{step.event.event_id}"
    if step.get(RollbackState, rollback_id) is None:
        step.append(("rollbacks",), rollback_id)
    told = step.pick("target", "removed_turns", "reason")
    step.put(RollbackState, rollback_id, rollback_id=rollback_id, thread_id=step.event.thread_id, **told)
    return rollback_id


def _remove_turn(step: Step, turn_id: str, rollback_id: str) -> None:
    turn = step.get(Turn, turn_id)
    if turn is None or turn.removed_by is not None:
        return
    numbers = tuple(step.lane("turn_items", turn_id))
    items = [item for number in numbers if (item := step.get(Item, number)) is not None]
    for item in items:
        if item.kind == "compaction" and item.compaction_id is not None:
            _lift(step, item.compaction_id)
        step.drop(Item, item.number)
    _cut(step, ("items",), [item.place for item in items])
    if turn.thread_id is not None:
        _cut(step, ("items", turn.thread_id), [item.thread_place for item in items])
        _cut(step, ("turns", turn.thread_id), [turn.place])
    _cut(step, ("turn_items", turn_id), list(range(step.lane("turn_items", turn_id).end)))
    step.put(Turn, turn_id, removed_by=rollback_id)
    step.set_open(Turn, turn_id, False)
    _forget_in_thread(step, turn)


def _lift(step: Step, compaction_id: str) -> None:
    """A compaction was taken back itself: what it stood for is in the conversation again."""
    compaction = step.get(CompactionState, compaction_id)
    for turn_id in (compaction.affected_turns or ()) if compaction else ():
        _mark(step, turn_id, compaction_id, None)


def _cut(step: Step, lane: tuple[str, ...], places: list[int | None]) -> None:
    found = [place for place in places if place is not None]
    if found:
        step.set_lane(lane, step.lane(*lane).remove(iter(found)))


def _forget_in_thread(step: Step, turn: Turn) -> None:
    thread = step.get(ThreadState, turn.thread_id)
    if thread is None:
        return
    if thread.active_turn_id == turn.turn_id:
        rest_thread(step, thread.thread_id)
    if thread.last_ended_turn_id == turn.turn_id:
        left = (step.get(Turn, turn_id) for _, turn_id in step.lane("turns", thread.thread_id).newest())
        ended = next((one.turn_id for one in left if one is not None and one.completed_at is not None), None)
        step.assign(ThreadState, thread.thread_id, last_ended_turn_id=ended)


def window_loaded(step: Step) -> None:
    """A part of the history was loaded."""
    step.assign(HistoryState, **step.pick("cursor", "has_more"))


def reconstructed(step: Step) -> None:
    """The state was rebuilt from what was recorded: nobody has yet proven that open work goes on."""
    names = ("baseline_ref", "degraded", "unrecoverable_refs", "durable_output_refs", "unresolved_actions")
    up_to = step.told("up_to_sequence")
    step.assign(HistoryState, reconstructed_at=step.at, reconstructed_up_to=up_to, **step.pick(*names))
    for key in step.open_keys(TaskState):
        task = step.get(TaskState, key)
        if task is not None and next_state(task.status or "unknown", step.event.type) == WorkState.STALE:
            move_task(step, str(key), STALE, reason="not proven after a restart")
    for key in step.open_keys(Turn):
        turn = step.get(Turn, key)
        if turn is not None and turn.status in EXECUTING:  # one that is being cancelled stays so: the wish holds
            move_turn(step, turn.turn_id, STALE, reason="not proven after a restart")
    kinds: tuple[type[Record], ...] = (ModelCall, ToolCall, HookState, SubagentState, JobState)
    for kind in kinds:
        for key in step.open_keys(kind):
            if getattr(step.get(kind, key), "status", None) in EXECUTING:
                step.put(kind, key, status=STALE)
    alive = step.told("alive_processes")
    for key in step.open_keys(ProcessState):
        step.put(ProcessState, key, status=STALE if alive is None or key in alive else "unavailable")


def snapshot_updated(step: Step) -> None:
    """A read model was stored."""
    told = {"snapshot_ref": step.told("snapshot_ref"), "snapshot_sha256": step.told("sha256")}
    step.put(HistoryState, snapshot_up_to=step.told("up_to_sequence"), **told)


def snapshot_repaired(step: Step) -> None:
    """A read model was put right; what is missing for good is told."""
    told = {"last_repair": step.told("reason"), "degraded": step.told("degraded")}
    step.put(HistoryState, repaired_at=step.at, snapshot_ref=step.told("snapshot_ref"), **told)
    if step.told("gap_from_sequence") is not None or step.told("gap_to_sequence") is not None:
        step.note("gap", f"events {step.told('gap_from_sequence')} to {step.told('gap_to_sequence')} are missing")


HANDLERS: dict[str, Callable[[Step], None]] = {
    "context.resolved": context_resolved,
    "context.compaction.started": compaction_started,
    "context.compaction.completed": compaction_completed,
    "context.compaction.failed": compaction_failed,
    "history.window.loaded": window_loaded,
    "history.reconstructed": reconstructed,
    "history.rollback.started": rollback_started,
    "history.rollback.completed": rollback_completed,
    "snapshot.updated": snapshot_updated,
    "snapshot.repaired": snapshot_repaired,
}
