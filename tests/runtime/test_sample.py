"""The sample session tells every fact there is, as a real one would, and the collector gets it whole."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.id_generator import IdGenerator

from models.event import Event
from models.payload import Payload
from models.payloads.cost import CostRecorded
from models.payloads.model import ModelCompleted
from models.states import State, next_state
from runtime.samples import sample_session
from runtime.telemetry import ExportSettings, Telemetry
from runtime.telemetry.encoding import nanoseconds
from tests.running import Collector
from tests.runtime.runtimes import held, settings

START = datetime(2026, 5, 4, 9, 0, tzinfo=UTC)
KEPT_HERE = ExportSettings(logs=None, traces=None)
COMPARED = {
    *(
        "event_id",
        "type",
        "timestamp",
        "sequence",
        "schema_version",
        "runtime_id",
        "session_id",
        "thread_id",
        "turn_id",
    ),
    *("task_id", "run_id", "attempt_id", "step_id", "tool_call_id", "action_id", "subagent_id", "artifact_id"),
    *("evidence_id", "model_request_id", "trace_id", "span_id", "payload", "refs"),
}


class Counted(IdGenerator):
    """Ids of spans and events that are the same in every run."""

    def __init__(self) -> None:
        self.last = 0

    def __call__(self) -> str:
        self.last += 1
        return f"e-{self.last}"

    def generate_span_id(self) -> int:
        self.last += 1
        return self.last

    def generate_trace_id(self) -> int:
        self.last += 1
        return self.last


def told(folder: Path, *, seed: int = 0) -> list[Event]:
    counted = Counted()
    with Telemetry(folder, runtime_id="rt", ids=counted, span_ids=counted, settings=KEPT_HERE) as telemetry:
        return sample_session(telemetry, session_id="s", start=START, seed=seed)


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> list[Event]:
    return told(tmp_path_factory.mktemp("story"))


def test_it_tells_every_type_and_each_event_may_be_emitted(story: list[Event]) -> None:
    assert {event.type for event in story} == set(Payload.registry)
    assert len(Payload.registry) == 113
    assert all(event.check_emission() for event in story)
    assert 200 <= len(story) <= 400


@pytest.mark.req("AR-33")
def test_its_events_are_numbered_and_timed_in_order(story: list[Event]) -> None:
    assert [event.sequence for event in story] == list(range(1, len(story) + 1))
    assert all(one.timestamp <= other.timestamp for one, other in pairwise(story))
    assert timedelta(minutes=7) < story[-1].timestamp - story[0].timestamp < timedelta(minutes=11)


def test_without_a_start_it_has_just_ended(tmp_path: Path) -> None:
    with Telemetry(tmp_path, clock=lambda: START, settings=KEPT_HERE) as telemetry:
        events = sample_session(telemetry, session_id="s")
    assert START - timedelta(minutes=4) < events[-1].timestamp <= START


def test_the_same_seed_tells_the_same_story_and_another_does_not(story: list[Event], tmp_path: Path) -> None:
    assert [event.to_json() for event in told(tmp_path / "again")] == [event.to_json() for event in story]
    assert [event.to_json() for event in told(tmp_path / "other", seed=1)] != [event.to_json() for event in story]


def test_every_task_lives_by_the_rules_of_its_states(story: list[Event]) -> None:
    states: dict[str, State] = {}
    for event in story:
        if event.task_id is not None:
            before = states.get(event.task_id, State.UNKNOWN)
            waiting_for = getattr(event.payload, "waiting_for", None)
            states[event.task_id] = next_state(before, event.type, waiting_for)  # raises for an illegal step
    assert set(states.values()) == {State.COMPLETED, State.FAILED, State.TIMED_OUT, State.ARCHIVED}


def test_what_begins_also_ends(story: list[Event]) -> None:
    def names(field: str, *types: str) -> list[str | None]:
        return sorted(getattr(event, field) for event in story if event.type in types)

    assert names("model_request_id", "model.requested") == names("model_request_id", "model.completed", "model.failed")
    assert names("tool_call_id", "tool.started") == names("tool_call_id", "tool.result", "tool.failed")
    assert names("turn_id", "turn.submitted") == names("turn_id", "turn.completed", "turn.failed")
    assert names("subagent_id", "subagent.spawned") == names("subagent_id", "subagent.closed")
    assert names("job_id", "job.created") == names("job_id", "job.completed", "job.failed", "job.cancelled")


def test_the_session_s_cost_is_the_sum_of_its_calls(story: list[Event]) -> None:
    calls = [event.payload for event in story if isinstance(event.payload, ModelCompleted)]
    bills = [event.payload for event in story if isinstance(event.payload, CostRecorded)]
    (whole,) = [bill for bill in bills if bill.scope == "session"]
    assert whole.cost_usd is not None
    assert whole.usage is not None
    assert sum((call.cost and call.cost.cost_usd) or 0 for call in calls) == pytest.approx(whole.cost_usd)
    assert sum((call.usage and call.usage.output_tokens) or 0 for call in calls) == whole.usage.output_tokens
    assert whole.cost_usd > 0.1


@pytest.mark.req("AR-31", "AR-37")
def test_every_type_arrives_equal_inside_the_spans_it_names(tmp_path: Path) -> None:
    with (
        Collector(tmp_path / "home") as collector,
        Telemetry(tmp_path / "runtime", settings=settings(collector.http)) as telemetry,
    ):
        emitted = sample_session(telemetry, session_id="s")
        assert telemetry.flush(30)
        assert telemetry.backlog().records == 0
    arrived = held(tmp_path / "home")
    assert [event.event_id for event in arrived.events] == [event.event_id for event in emitted]
    for one, other in zip(arrived.events, emitted, strict=True):
        assert {name: getattr(one, name) for name in COMPARED} == {name: getattr(other, name) for name in COMPARED}
    assert len({event.event_id for event in arrived.events}) == len(emitted)
    spans = {(span["trace_id"], span["span_id"]): span for span in arrived.spans}
    in_spans = [event for event in emitted if event.span_id is not None]
    assert {(event.trace_id, event.span_id) for event in in_spans} <= set(spans)
    assert {event.type for event in emitted if event.type.startswith(("model.", "tool.", "turn."))} <= {
        event.type for event in in_spans
    }
    for event in in_spans:
        span = spans[(event.trace_id, event.span_id)]
        assert span["time_ns"] <= nanoseconds(event.timestamp) <= span["end_ns"], event.type
