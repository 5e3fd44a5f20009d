"""What a start does about the work that was under way when the runtime ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

from models.event import Correlation
from models.payloads.history import HistoryReconstructed
from models.payloads.snapshot import SnapshotRepaired
from runtime.kernel import Draft
from runtime.tasks.recovery import after_restart
from views.state import State

if TYPE_CHECKING:
    from runtime.runtime import Runtime

RECENT_ITEMS = 500
"""So many of the latest pieces of the conversation are looked at for content that is missing."""


async def recover(runtime: Runtime) -> None:
    """Tell which sessions with open work were rebuilt and what cannot be proven any more; go on with their turns."""
    kernel = runtime.kernel
    for session_id in sorted(kernel.unfinished):
        async with kernel.writing(session_id) as state:
            if not has_open_work(state):
                continue
            await kernel.commit(session_id, [*_repaired(runtime, session_id), _reconstructed(runtime, state)])
            rebuilt = kernel.state(session_id)
            tasks = after_restart(rebuilt, kernel.clock(), kernel.new_id, runtime.telemetry.runtime_id)
            await kernel.commit(session_id, tasks)
        for thread_id in state.lane("threads"):
            runtime.engine.wake(session_id, thread_id)


def has_open_work(state: State) -> bool:
    """Whether a turn, a task or a decision has not ended."""
    return any(state.open_keys(family) for family in ("turns", "tasks", "actions"))


def _reconstructed(runtime: Runtime, state: State) -> Draft:
    refs = {item.ref for item in state.conversation(count=RECENT_ITEMS) if item.ref is not None}
    missing = tuple(sorted(ref for ref in refs if not runtime.contents.has(ref)))
    payload = HistoryReconstructed(
        source="event log",
        event_count=state.event_count,
        up_to_sequence=state.sequence,
        baseline_ref=_baseline(state),
        unresolved_actions=tuple(action.action_id for action in state.open_actions()),
        unrecoverable_refs=missing or None,
        degraded=bool(missing),
        status="degraded" if missing else "completed",
    )
    return Draft(payload, Correlation())


def _baseline(state: State) -> str | None:
    """The summary that the latest conversation goes on from: of the last compaction that worked and still holds."""
    for _, name in state.lane("compactions").newest():
        compaction = state.compactions[name]
        if compaction.item_number in state.items:
            return compaction.summary_ref
    return None


def _repaired(runtime: Runtime, session_id: str) -> list[Draft]:
    """The fact that a snapshot was wrong and was made again from the facts."""
    reason = runtime.checkpoints.damaged.pop(session_id, None)
    if reason is None:
        return []
    return [Draft(SnapshotRepaired(reason=reason, read_model="session_snapshot", degraded=False, status="completed"))]
