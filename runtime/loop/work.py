"""What all steps of a turn share: who it is, how it is to be carried out, and where its facts go."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from models.event import Correlation
from models.payload import Payload
from models.shape import JsonMap
from runtime.kernel import Draft
from runtime.loop.conversation import Reader
from runtime.loop.recorder import Recorder, merged
from runtime.providers.provider import Message
from runtime.routing import RoutingOptions
from views.state import State
from views.state.talk_records import Turn

if TYPE_CHECKING:
    from runtime.runtime import Runtime

MAX_STEPS = 100
"""So many calls of a model a turn may make if it does not say otherwise."""


TOLD_WAITING = 20
"""So many of what waits are named with a request; the count tells the rest."""


class TurnSettings(BaseModel):
    """How a turn is to be carried out, as its submission fixed it; other options are for others."""

    model_config = ConfigDict(frozen=True, extra="ignore", protected_namespaces=())

    model: str | None = None
    approval_policy: Literal["ask", "deny"] = "ask"
    sandbox_policy: Literal["workspace_write", "read_only"] = "workspace_write"
    interactive: bool = True
    max_steps: int = MAX_STEPS
    action_timeout_s: float | None = None
    instructions: str | None = None
    operation: str | None = None
    """What the runtime itself does in this turn, such as `compact`; None: the input is for the model."""

    @property
    def mode(self) -> str:
        """`interactive` or `non_interactive`."""
        return "interactive" if self.interactive else "non_interactive"


@dataclass
class Work:
    """One turn being carried out."""

    runtime: Runtime
    session_id: str
    thread_id: str
    turn_id: str
    begun: datetime
    ids: Correlation
    settings: TurnSettings
    routing: RoutingOptions
    recorder: Recorder
    reader: Reader
    answers: dict[str, Message] = field(default_factory=dict)
    """The answers of this turn as they came; after a restart there are only the stored ones."""

    @classmethod
    def of(cls, runtime: Runtime, session_id: str, thread_id: str, turn_id: str) -> Work:
        """The work that a turn of the state is."""
        kernel = runtime.kernel
        state = kernel.state(session_id)
        turn = state.turns[turn_id]
        answers: dict[str, Message] = {}
        options = turn.options or {}
        return cls(
            runtime,
            session_id,
            thread_id,
            turn_id,
            turn.started_at or kernel.clock(),
            Correlation(
                session_id=session_id,
                thread_id=thread_id,
                turn_id=turn_id,
                task_id=turn.task_id,
                run_id=turn.run_id or run_of(state, turn),
                subagent_id=state.index.get(("child_thread", thread_id)),
            ),
            TurnSettings.model_validate(options),
            RoutingOptions.model_validate(options),
            Recorder(kernel, session_id, merged),
            Reader(runtime.texts, runtime.tools, answers),
            answers,
        )

    @property
    def state(self) -> State:
        """The session as it is now."""
        return self.runtime.kernel.state(self.session_id)

    @property
    def turn(self) -> Turn:
        """The turn as it is now."""
        return self.state.turns[self.turn_id]

    @property
    def now(self) -> datetime:
        """This moment."""
        return self.runtime.kernel.clock()

    def elapsed_ms(self, since: datetime | None = None) -> float:
        """Milliseconds since a moment, or since the turn began."""
        return max((self.now - (since or self.begun)).total_seconds() * 1000, 0.0)

    def waiting(self) -> JsonMap:
        """What a request is to be seen with: open decisions of the session, and turns of the thread that wait."""
        state = self.state
        pending: list[JsonValue] = [one.action_id for one in state.open_actions()]
        queued: list[JsonValue] = [one.queued_turn_id for one in state.queue(self.thread_id)]
        return {
            "pending_action_ids": pending[:TOLD_WAITING],
            "pending_count": len(pending),
            "queued_turn_ids": queued[:TOLD_WAITING],
            "queued_count": len(queued),
            "queued_turn_id": self.turn.queued_turn_id,
        }

    def draft(self, payload: Payload, **ids: str | None) -> Draft:
        """A fact of this turn."""
        return Draft(payload, self.ids.model_copy(update=ids) if ids else self.ids)

    async def record(self, *drafts: Draft) -> None:
        """Store facts, durably."""
        await self.recorder.record(*drafts)


def run_of(state: State, turn: Turn) -> str | None:
    """The try at the turn's task that is under way."""
    task = state.tasks.get(turn.task_id) if turn.task_id else None
    return task.current_run_id if task else None
