"""The one reducer: what a session's events tell, at any cursor, each leaf with the event that set it."""

from views.state.checkpoint import Checkpoints, Cursor, at, dump, load
from views.state.lane import Lane
from views.state.lists import queue_snapshot, session_snapshot, thread_read
from views.state.record import Key, Record, Source
from views.state.reducer import apply, fold
from views.state.shape import State
from views.state.spending import total_cost
from views.state.summaries import (
    artifact_summary,
    channel_summary,
    context_boundary,
    environment_snapshot,
    evidence_summary,
    permission_summary,
    read_models,
    routing_summary,
    subagent_summary,
    tool_inventory,
)
from views.state.task_list import task_snapshot

__all__ = [
    "Checkpoints",
    "Cursor",
    "Key",
    "Lane",
    "Record",
    "Source",
    "State",
    "apply",
    "artifact_summary",
    "at",
    "channel_summary",
    "context_boundary",
    "dump",
    "environment_snapshot",
    "evidence_summary",
    "fold",
    "load",
    "permission_summary",
    "queue_snapshot",
    "read_models",
    "routing_summary",
    "session_snapshot",
    "subagent_summary",
    "task_snapshot",
    "thread_read",
    "tool_inventory",
    "total_cost",
]
