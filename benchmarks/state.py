"""What a turn and a window cost in a session of 100 turns and in one of 10,000, and what an event costs."""

import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from models.event import Event
from models.payload import Payload
from models.payloads import model, tool, turn
from models.values import Cost, Usage
from views.state import State, dump, fold, load, session_snapshot, thread_read

LENGTHS = (100, 10_000)
START = datetime(2026, 5, 4, 9, 0, tzinfo=UTC)
RUNS = 400


def turn_events(number: int) -> list[Event]:
    """A turn with two calls of a tool and two of a model."""
    ids = {"thread_id": "th", "turn_id": f"t{number}", "task_id": "task", "session_id": "s", "runtime_id": "rt"}
    facts: list[tuple[Payload, dict[str, Any]]] = [
        (turn.TurnSubmitted(input_ref="sha256:a", source="user", status="accepted", idempotency_key=f"k{number}"), {}),
        (turn.TurnStarted(status="running"), {}),
    ]
    for index in range(2):
        call = {"step_id": f"st{number}.{index}", "model_request_id": f"r{number}.{index}"}
        done = model.ModelCompleted(
            provider_name="p", model_name="m", stop_reason="stop", usage=Usage(output_tokens=9), duration_ms=1,
            cost=Cost(cost_usd=0.001, cost_state="priced"), output_ref="sha256:b", output_chars=3,
        )  # fmt: skip
        requested = model.ModelRequested(provider_name="p", model_name="m", status="running")
        facts += [(requested, call), (model.ModelDelta(text="abc", chars=3), call), (done, call)]
        used = {"step_id": f"tc{number}.{index}", "tool_call_id": f"c{number}.{index}"}
        started = tool.ToolStarted(tool_name="read", input_ref="sha256:c", status="running")
        facts += [(started, used), (tool.ToolResult(tool_name="read", success=True, duration_ms=1), used)]
    facts.append((turn.TurnCompleted(status="completed", duration_ms=9, stop_reason="finished"), {}))
    first = number * len(facts) + 1
    return [
        Event(
            type=payload.event_type,
            event_id=f"e{first + at}",
            sequence=first + at,
            timestamp=START + timedelta(seconds=first + at),
            payload=payload,
            **ids,
            **more,
        )
        for at, (payload, more) in enumerate(facts)
    ]


def median_us(work: Callable[[], object], runs: int = RUNS) -> float:
    """The median time of some work in microseconds."""
    times = []
    for _ in range(runs):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return statistics.median(times) * 1e6


def main() -> None:
    """Print the figures and their ratios."""
    state, done = State(), 0
    figures: dict[str, list[float]] = {}
    for length in LENGTHS:
        for number in range(done, length):
            state = fold(turn_events(number), state)
        done = length
        more = turn_events(length)
        measured = {
            "a turn": median_us(lambda state=state, more=more: fold(more, state)),  # type: ignore[misc]  # bound early
            "get_session, window 50": median_us(lambda state=state: session_snapshot(state, window=50)),  # type: ignore[misc]  # bound early
            "get_thread, window 50": median_us(lambda state=state: thread_read(state, "th", window=50)),  # type: ignore[misc]  # bound early
        }
        for name, figure in measured.items():
            figures.setdefault(name, []).append(figure)
    for name, (short, long) in figures.items():
        print(
            f"{name}: {short:,.0f} us at {LENGTHS[0]:,} turns, {long:,.0f} us at {LENGTHS[1]:,}: x {long / short:.2f}"
        )
    print(f"an event of the long session: {figures['a turn'][1] / len(turn_events(0)):,.1f} us")
    begun = time.perf_counter()
    data = dump(state)
    dumped = time.perf_counter()
    again = load(data)
    print(
        f"checkpoint of {state.event_count:,} events: {len(data) / 1e6:,.1f} MB, "
        f"written in {dumped - begun:.2f} s, read in {time.perf_counter() - dumped:.2f} s, equal: {again == state}"
    )


if __name__ == "__main__":
    main()
