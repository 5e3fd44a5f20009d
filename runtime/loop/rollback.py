"""A return to an earlier turn: which turns it takes back, and what they did that it cannot undo."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from models.errors import Conflict, NotFound
from models.event import Correlation
from models.payloads.history import HistoryRollbackCompleted, HistoryRollbackStarted
from runtime.kernel import Draft
from views.state import State


@dataclass(frozen=True)
class Rollback:
    """What a rollback does."""

    rollback_id: str
    drafts: list[Draft]
    removed_turns: tuple[str, ...]
    affected_artifacts: tuple[str, ...]
    repair: str | None


def roll_back(state: State, thread_id: str, turn_id: str, reason: str | None, new_id: Callable[[str], str]) -> Rollback:
    """The facts of going back to the end of a turn; raises NotFound or Conflict."""
    removed = _after(state, thread_id, turn_id)
    tools, paths, artifacts = _effects(state, removed)
    repair = None
    if paths:
        repair = f"files stay as they were written and are to be put right by hand: {', '.join(sorted(paths))}"
    rollback_id = new_id("rollback")
    told = {"rollback_id": rollback_id, "target": turn_id, "removed_turns": removed, "reason": reason}
    ids = Correlation(thread_id=thread_id)
    started = HistoryRollbackStarted(**told, requested_by="user")
    completed = HistoryRollbackCompleted(
        **told,
        surviving_baseline=turn_id,
        affected_tools=tools,
        affected_artifacts=artifacts,
        repair=repair,
        degraded=bool(paths),
        status="completed",
    )
    return Rollback(rollback_id, [Draft(started, ids), Draft(completed, ids)], removed, artifacts, repair)


def _after(state: State, thread_id: str, turn_id: str) -> tuple[str, ...]:
    """The turns of a thread after one, the oldest first."""
    turn = state.turns.get(turn_id)
    if thread_id not in state.threads:
        raise NotFound("thread", thread_id)
    if turn is None or turn.thread_id != thread_id:
        raise NotFound("turn", turn_id)
    if turn.removed_by is not None:
        raise Conflict(f"turn {turn_id} was taken back before")
    removed: list[str] = []
    for _, name in state.lane("turns", thread_id).newest():
        if name == turn_id:
            break
        if state.turns[name].completed_at is None and state.turns[name].status != "cancelled":
            raise Conflict(
                f"turn {name} has not ended", next_step="interrupt it, or remove it from the queue, and try again"
            )
        removed.append(name)
    if turn.completed_at is None:
        raise Conflict(f"turn {turn_id} has not ended", next_step="interrupt it and try again")
    if not removed:
        raise Conflict(f"turn {turn_id} is the last one: there is nothing to take back")
    return tuple(reversed(removed))


def _effects(state: State, removed: tuple[str, ...]) -> tuple[tuple[str, ...], list[str], tuple[str, ...]]:
    """Calls that changed something, the files they changed, and the deliverables those are."""
    tools: list[str] = []
    for turn_id in removed:
        for number in state.lane("turn_items", turn_id):
            call = state.tool_calls.get(state.items[number].tool_call_id or "")
            if call is not None and state.items[number].kind == "tool_call" and call.is_read_only is False:
                tools.append(call.tool_call_id)
    touched = [artifact for artifact in state.artifacts.values() if artifact.turn_id in removed]
    paths = [artifact.path for artifact in touched if artifact.path]
    names = tuple(artifact.artifact_id for artifact in touched if artifact.artifact_id)
    return tuple(tools), paths, names
