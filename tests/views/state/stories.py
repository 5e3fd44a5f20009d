"""Short sessions told event by event, and what must hold of every state."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

from models.event import Event
from models.payload import Payload, Unrecognised
from models.payloads import model, tool, turn
from models.values import Cost, Usage
from views.state import Record, State, fold
from views.state.spending import known_usd
from views.state.step import blank

START = datetime(2026, 5, 4, 9, 0, tzinfo=UTC)


class Story:
    """Tells facts one second apart, numbered; `ids` are on every one of them unless told otherwise."""

    def __init__(self, **ids: str | None) -> None:
        self.ids: dict[str, Any] = {"session_id": "s", "runtime_id": "rt", **ids}
        self.events: list[Event] = []

    def tell(self, payload: Payload | str, body: Any = None, **envelope: Any) -> Event:
        """A fact by its payload, or by the name of its type and any body."""
        number = len(self.events) + 1
        if isinstance(payload, str):
            event_type, content = payload, Unrecognised(body=body) if payload not in Payload.registry else body or {}
        else:
            event_type, content = str(payload.event_type), payload
        told = {"sequence": number, **self.ids, **envelope}
        moment = START + timedelta(seconds=number)
        event = Event(type=event_type, event_id=f"e-{number}", timestamp=moment, payload=content, **told)
        self.events.append(event)
        return event

    def turn(self, turn_id: str, *, tools: int = 1, thread_id: str = "th") -> None:
        """A whole turn: a question, a model call, calls of a tool, an answer."""
        ids = {"thread_id": thread_id, "turn_id": turn_id}
        self.tell(turn.TurnSubmitted(input_ref=f"in-{turn_id}", source="user", status="accepted"), **ids)
        self.tell(turn.TurnStarted(status="running"), **ids)
        for number in range(tools):
            call = {**ids, "step_id": f"st-{turn_id}-{number}", "tool_call_id": f"call-{turn_id}-{number}"}
            self.tell(tool.ToolStarted(tool_name="read", input_ref="a", status="running"), **call)
            self.tell(tool.ToolResult(tool_name="read", success=True, result_ref="r", duration_ms=1), **call)
        asked = {**ids, "model_request_id": f"req-{turn_id}"}
        self.tell(model.ModelRequested(provider_name="p", model_name="m", status="running"), **asked)
        self.tell(model.ModelDelta(text="hello", chars=5), **asked)
        usage, cost = Usage(uncached_input_tokens=10, output_tokens=2), Cost(cost_usd=0.001, cost_state="priced")
        done = model.ModelCompleted(
            provider_name="p", model_name="m", stop_reason="stop", usage=usage, cost=cost, duration_ms=5,
            output_ref=f"out-{turn_id}", output_chars=5,
        )  # fmt: skip
        self.tell(done, **asked)
        self.tell(turn.TurnCompleted(status="completed", duration_ms=9, stop_reason="finished"), **ids)

    @property
    def state(self) -> State:
        """What the facts so far tell."""
        return fold(self.events)


def leaves(state: State) -> list[tuple[Any, ...]]:
    """The path of every leaf that is not as a record starts."""
    found: list[tuple[Any, ...]] = []
    for family, kind in Record.kinds.items():
        held = getattr(state, family)
        records = {"": held} if kind.single else dict(held.items())
        for key, record in records.items():
            start = blank(kind).__dict__
            names = [name for name, value in record.__dict__.items() if value != start[name]]
            found += [(family, name) if kind.single else (family, key, name) for name in names]
    return found


def check(state: State) -> None:
    """What holds of every state, whatever was told."""
    for path in leaves(state):
        assert state.source(path) is not None, path
    for family, keys in state.open.items():
        assert all(key in getattr(state, family) for key in keys)
    assert all(number in state.items for number in state.lane("items"))
    assert len(state.lane("items")) == len(state.items)
    assert set(state.lane("tasks")) == set(state.tasks)
    states = Counter(task.status or "unknown" for task in state.tasks.values())
    counted = {name: count for (what, name), count in state.counts.items() if what == "task" and count}
    assert counted == states
    for thread_id in state.threads:
        turns = state.turn_list(thread_id)
        assert all(turn.removed_by is None for turn in turns)
    check_spending(state)


def check_spending(state: State) -> None:
    """The sums are those of the calls, whatever the order in which they were told."""
    ended = [
        call for call in state.model_calls.values() if call.ended_at or call.usage is not None or call.cost is not None
    ]
    spent = state.spending.get(("session",))
    if spent is None:
        assert not ended
        return
    assert spent.calls == len(ended)
    assert spent.unknown_cost_calls == sum(known_usd(call.cost) is None for call in ended)
    total = sum(known_usd(call.cost) or 0.0 for call in ended)
    assert abs(spent.known_usd - total) <= 1e-9 * max(1.0, total)
    told = [call.usage.output_tokens for call in ended if call.usage and call.usage.output_tokens is not None]
    assert ((spent.usage.output_tokens if spent.usage else None) or 0) == sum(told)
