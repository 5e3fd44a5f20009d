"""The facts a command about tasks will record, each checked against the lifecycle before any is stored."""

from collections.abc import Callable, Iterator
from datetime import datetime

from models.errors import Conflict, NotFound
from models.event import Correlation
from models.payload import Payload
from models.states import State as Status
from models.states import next_state
from models.task_values import Edge, RetryPolicy
from runtime.kernel import Draft
from views.state import State
from views.state.work_records import TaskState

ENDED = frozenset({"completed", "failed", "cancelled", "timed_out", "archived"})


class Plan:
    """Collects facts. Raises IllegalTransition at the first that may not follow the state its task will be in."""

    def __init__(self, state: State, now: datetime, new_id: Callable[[str], str]) -> None:
        self.state = state
        self.now = now
        self.new_id = new_id
        self.drafts: list[Draft] = []
        self._status: dict[str, str] = {}

    def task(self, task_id: str) -> TaskState:
        """A task that there is."""
        found = self.state.tasks.get(task_id)
        if found is None:
            raise NotFound("task", task_id)
        return found

    def status(self, task_id: str) -> str:
        """The state a task will be in after the facts so far."""
        if task_id not in self._status:
            found = self.state.tasks.get(task_id)
            self._status[task_id] = (found.status if found else None) or Status.UNKNOWN
        return self._status[task_id]

    def ended(self, task_id: str) -> bool:
        """Whether a task will have ended."""
        return self.status(task_id) in ENDED

    def add(self, task_id: str, payload: Payload, *, run_id: str | None = None, thread_id: str | None = None) -> None:
        """One more fact about a task."""
        waiting_for = getattr(payload, "waiting_for", None)
        self._status[task_id] = next_state(self.status(task_id), payload.event_type or "", waiting_for)
        known = self.state.tasks.get(task_id)
        ids = Correlation(
            task_id=task_id,
            run_id=run_id or (known.current_run_id if known else None),
            parent_task_id=known.parent_task_id if known else None,
            root_task_id=known.root_task_id if known else None,
            thread_id=thread_id or (known.thread_id if known else None),
        )
        self.drafts.append(Draft(payload, ids))

    def children(self, task_id: str) -> list[str]:
        """The tasks that are part of a task, directly."""
        return [
            edge.target_id
            for edge in self.state.edges_of(task_id)
            if edge.kind == "child"
            and edge.status != "removed"
            and edge.target_id
            and edge.target_id in self.state.tasks
        ]

    def descendants(self, task_id: str) -> Iterator[str]:
        """All tasks below a task, the lowest first."""
        for child in self.children(task_id):
            yield from self.descendants(child)
            yield child

    def blockers(self, task_id: str) -> list[str]:
        """The tasks that a task still waits for."""
        return [
            edge.target_id
            for edge in self.state.edges_of(task_id)
            if edge.kind == "blocked_by"
            and edge.status not in ("removed", "satisfied")
            and edge.target_id is not None
            and self.status(edge.target_id) != "completed"
        ]

    def attempt_index(self, task_id: str) -> int:
        """The number of the last try at a task; 0 before the first."""
        return len(self.state.attempts_of(task_id))

    def retry_policy(self, task_id: str) -> RetryPolicy | None:
        """The policy that the latest try was begun with."""
        tries = self.state.attempts_of(task_id)
        return tries[-1].retry_policy if tries else None

    def refuse_cycle(self, kind: str, source: str, target: str) -> None:
        """Raise Conflict if an edge would make a task wait for, or be a part of, itself."""
        forward = {"child": "child", "parent": "parent", "blocks": "blocks", "blocked_by": "blocked_by"}.get(kind)
        if forward is None:
            return
        open_, seen = [target], set()
        while open_:
            at = open_.pop()
            if at == source:
                raise Conflict(f"an edge {kind} from {source} to {target} would make a circle")
            if at not in seen:
                seen.add(at)
                open_ += [
                    edge.target_id
                    for edge in self.state.edges_of(at)
                    if edge.kind == forward and edge.status != "removed" and edge.target_id
                ]

    def edge(self, kind: str, source: str, target: str, status: str, reason: str | None = None) -> Edge:
        """An edge as it will be from now on."""
        before = next((one for one in self.state.edges_of(source) if (one.kind, one.target_id) == (kind, target)), None)
        return Edge(
            kind=kind,
            source_id=source,
            target_id=target,
            status=status,
            reason=reason,
            created_at=before.created_at if before else self.now,
            updated_at=self.now,
        )
