"""The state of a session at one moment: frozen, cheap to extend, and every leaf remembers the event that set it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from math import inf
from typing import Any

from immutables import Map

from models.task_values import Attempt, Edge, TaskRecord
from models.values import QueuedTurn
from views.state.lane import Lane
from views.state.record import Key, Record, Source
from views.state.talk_records import (
    ActionState,
    HistoryState,
    IncidentState,
    Item,
    ModelCall,
    Note,
    QueueState,
    RequestNote,
    SessionState,
    StoredOutput,
    ThreadState,
    ToolCall,
    Turn,
)
from views.state.work_records import (
    AttemptState,
    Bill,
    CompactionState,
    ContextState,
    EdgeState,
    LimitEntry,
    RollbackState,
    RoutingState,
    Spending,
    TaskState,
)
from views.state.world_records import (
    ArtifactState,
    DecisionState,
    EnvironmentState,
    EvidenceState,
    HookState,
    Inventory,
    JobItemState,
    JobState,
    PeerState,
    PermissionState,
    ProcessState,
    SubagentState,
)

EMPTY_LANE: Lane[Any] = Lane()


@dataclass(frozen=True)
class State:
    """All that the events of one session, up to a cursor, tell. Two states are equal if all their leaves are."""

    session_id: str = ""
    """Empty until an event names it."""

    sequence: int | None = None
    """The number of the last event applied that had one."""

    last_event_id: str | None = None
    updated_at: datetime | None = None
    """When the last event applied happened."""

    event_count: int = 0
    """How many events were offered, those left aside included: the ordinal of the next one."""

    # One record each.
    session: SessionState = field(default_factory=SessionState)
    history: HistoryState = field(default_factory=HistoryState)
    inventory: Inventory = field(default_factory=Inventory)
    permission: PermissionState = field(default_factory=PermissionState)
    environment: EnvironmentState = field(default_factory=EnvironmentState)

    # Records by id, or by what the record's class says its key is.
    threads: Map[str, ThreadState] = field(default_factory=Map)
    turns: Map[str, Turn] = field(default_factory=Map)
    queues: Map[str, QueueState] = field(default_factory=Map)
    items: Map[int, Item] = field(default_factory=Map)
    model_calls: Map[str, ModelCall] = field(default_factory=Map)
    tool_calls: Map[str, ToolCall] = field(default_factory=Map)
    outputs: Map[str, StoredOutput] = field(default_factory=Map)
    actions: Map[str, ActionState] = field(default_factory=Map)
    tasks: Map[str, TaskState] = field(default_factory=Map)
    attempts: Map[str, AttemptState] = field(default_factory=Map)
    edges: Map[tuple[str, ...], EdgeState] = field(default_factory=Map)
    routing: Map[str, RoutingState] = field(default_factory=Map)
    limits: Map[tuple[str, ...], LimitEntry] = field(default_factory=Map)
    spending: Map[tuple[str, ...], Spending] = field(default_factory=Map)
    bills: Map[tuple[str, ...], Bill] = field(default_factory=Map)
    contexts: Map[str, ContextState] = field(default_factory=Map)
    compactions: Map[str, CompactionState] = field(default_factory=Map)
    rollbacks: Map[str, RollbackState] = field(default_factory=Map)
    permissions: Map[str, DecisionState] = field(default_factory=Map)
    processes: Map[str, ProcessState] = field(default_factory=Map)
    hooks: Map[str, HookState] = field(default_factory=Map)
    subagents: Map[str, SubagentState] = field(default_factory=Map)
    jobs: Map[str, JobState] = field(default_factory=Map)
    job_items: Map[tuple[str, ...], JobItemState] = field(default_factory=Map)
    channels: Map[str, PeerState] = field(default_factory=Map)
    artifacts: Map[str, ArtifactState] = field(default_factory=Map)
    evidence: Map[str, EvidenceState] = field(default_factory=Map)
    requests: Map[str, RequestNote] = field(default_factory=Map)
    incidents: Map[str, IncidentState] = field(default_factory=Map)
    notes: Map[str, Note] = field(default_factory=Map)

    # Orders and indices over the records.
    lanes: Map[tuple[str, ...], Lane[Any]] = field(default_factory=Map)
    """Keys of records in the order they came, such as `("turns", thread_id)`."""

    open: Map[str, Map[Key, bool]] = field(default_factory=Map)
    """Work that has not ended: its keys, by family."""

    index: Map[tuple[str, ...], str] = field(default_factory=Map)
    """Other names: ("idempotency", key), ("queued_turn", id) -> turn id; ("task_idempotency", key) -> task id;
    ("child_thread", thread id) -> subagent id."""

    counts: Map[tuple[str, str], int] = field(default_factory=Map)
    """("task", state) -> how many tasks are in it; ("ignored", type) -> how many events of a type we do not know."""

    touched: Map[str, datetime] = field(default_factory=Map)
    """When the last fact about each family happened."""

    sources: Map[tuple[str, Key], Map[str, Source]] = field(default_factory=Map)
    """(family, key) -> field -> the event that set it; read it through `source`."""

    @classmethod
    def empty(cls, session_id: str) -> State:
        """A session of which nothing is known."""
        return cls(session_id=session_id)

    def changed(self, changes: dict[str, Any]) -> State:
        """This state with some attributes changed; `dataclasses.replace`, without its loop over all of them."""
        made = object.__new__(State)
        made.__dict__.update(self.__dict__)
        made.__dict__.update(changes)
        return made

    def source(self, path: tuple[Key, ...]) -> Source | None:
        """The event that set a leaf, such as `("turns", turn_id, "status")`, `("session", "title")`.

        A longer path names a part of a leaf; the whole leaf was set at once, unless the part was told apart.
        """
        family = str(path[0]) if path else ""
        kind = Record.kinds.get(family)
        if kind is None:
            return None
        key, names = ("", path[1:]) if kind.single else (path[1] if len(path) > 1 else "", path[2:])
        told = self.sources.get((family, key))
        if told is None:
            return None
        for length in range(len(names), 0, -1):
            if found := told.get(".".join(str(name) for name in names[:length])):
                return found
        return None

    def lane(self, *key: str) -> Lane[Any]:
        """The order kept under a key; empty if there is none."""
        return self.lanes.get(key, EMPTY_LANE)

    def queue(self, thread_id: str) -> tuple[QueuedTurn, ...]:
        """The turns that wait in a thread, the next to run first."""
        found = self.queues.get(thread_id)
        return (found.queued_turns or ()) if found else ()

    def active_turn(self, thread_id: str) -> Turn | None:
        """The turn under way in a thread."""
        thread = self.threads.get(thread_id)
        return self.turns.get(thread.active_turn_id) if thread and thread.active_turn_id else None

    def turn_list(self, thread_id: str, count: int | None = None) -> tuple[Turn, ...]:
        """The newest turns of a thread, oldest first; those rolled back are not among them."""
        return tuple(self.turns[turn_id] for turn_id in self.lane("turns", thread_id).last(count))

    def conversation(self, thread_id: str | None = None, count: int | None = None) -> tuple[Item, ...]:
        """The newest items of a thread, or of the session, oldest first."""
        lane = self.lane("items") if thread_id is None else self.lane("items", thread_id)
        return tuple(self.items[number] for number in lane.last(count))

    def memory(self) -> tuple[ToolCall, ...]:
        """The calls that left notes for the whole session, the oldest first; none of turns that were taken back."""
        calls = (self.tool_calls[call_id] for call_id in self.lane("memory"))
        turns = ((call, self.turns.get(call.turn_id or "")) for call in calls)
        return tuple(call for call, turn in turns if turn is None or turn.removed_by is None)

    def open_keys(self, family: str) -> tuple[Key, ...]:
        """The records of a family that have not ended, in the order of their keys."""
        return tuple(sorted(self.open.get(family, ()), key=str))

    def open_actions(self, turn_id: str | None = None) -> tuple[ActionState, ...]:
        """Decisions still open, of one turn or of all, the oldest first."""
        found = [self.actions[str(key)] for key in self.open_keys("actions")]
        chosen = [action for action in found if turn_id is None or action.turn_id == turn_id]
        return tuple(sorted(chosen, key=lambda one: one.requested_at.timestamp() if one.requested_at else inf))

    def attempts_of(self, task_id: str) -> tuple[Attempt, ...]:
        """All tries at a task, the oldest first."""
        return tuple(self.attempts[run] for run in self.lane("runs", task_id))

    def edges_of(self, task_id: str) -> tuple[Edge, ...]:
        """The edges that start at a task, removed and satisfied ones included, the oldest first."""
        return tuple(self.edges[key] for key in self.lane("edges", task_id))

    def task(self, task_id: str) -> TaskRecord | None:
        """A task with its tries, edges, deliverables and proofs."""
        found = self.tasks.get(task_id)
        if found is None:
            return None
        parts = {
            "attempts": self.attempts_of(task_id) or None,
            "relationships": self.edges_of(task_id) or None,
            "artifacts": self.lane("task_artifacts", task_id).last() or None,
            "evidence_refs": self.lane("task_evidence", task_id).last() or None,
        }
        return found.model_copy(update=parts)
