"""Recording: complete, checked, numbered and durable before it returns."""

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from models.errors import InvalidEvent, JournalUnwritable, Locked, UsageError
from models.event import SCHEMA_VERSION, Correlation, Event
from models.payloads.policy import PolicyChanged
from models.payloads.session import SessionCreated
from models.payloads.tool import ToolResult
from models.payloads.turn import TurnStarted
from runtime.samples import sample_session
from runtime.telemetry import ExportSettings, Telemetry
from runtime.telemetry.encoding import LOGS, TRACES, decode_fact
from runtime.telemetry.numbering import FILE
from tests.running import Collector
from tests.runtime.runtimes import IDS, records, settings

KEPT_HERE = ExportSettings(logs=None, traces=None)
NOON = datetime(2026, 5, 4, 12, 0, 0, 123456, tzinfo=UTC)
RUNNING = TurnStarted(status="running")


def numbers(folder: Path, count: int) -> list[int | None]:
    with Telemetry(folder, settings=KEPT_HERE) as telemetry:
        return [telemetry.record(RUNNING, IDS).sequence for _ in range(count)]


@pytest.mark.req("AR-32", "AR-34")
def test_what_the_runtime_knows_is_filled_in(tmp_path: Path) -> None:
    with Telemetry(tmp_path, runtime_id="rt-7", clock=lambda: NOON, ids=lambda: "e-1", settings=KEPT_HERE) as telemetry:
        event = telemetry.record(SessionCreated(title="x"), IDS, refs={"log": "sha256:0"})
    assert (event.type, event.event_id, event.timestamp, event.sequence) == ("session.created", "e-1", NOON, 1)
    assert (event.schema_version, event.runtime_id) == (SCHEMA_VERSION, "rt-7")
    (kept,) = records(tmp_path / "journal")
    record = ExportLogsServiceRequest.FromString(kept.body).resource_logs[0].scope_logs[0].log_records[0]
    assert record.event_name == "session.created"
    assert record.body.string_value == '{"title":"x"}'
    assert record.time_unix_nano == 1_777_896_000_123_456_000
    told = {attribute.key: attribute.value for attribute in record.attributes}
    assert told["agent_runtime.refs"].string_value == '{"log":"sha256:0"}'
    assert told["agent_runtime.sequence"].int_value == 1
    assert told["agent_runtime.session_id"].string_value == "s-1"


def test_what_an_event_tells_itself_is_kept(tmp_path: Path) -> None:
    told = dict(IDS) | {"trace_id": "not hex"}
    given = Event(type="turn.started", event_id="mine", timestamp=NOON, payload=RUNNING, **told)
    with Telemetry(tmp_path, settings=KEPT_HERE) as telemetry:
        event = telemetry.emit(given)
        assert (event.event_id, event.timestamp, event.trace_id) == ("mine", NOON, "not hex")
        with pytest.raises(InvalidEvent, match="sequence is set by the runtime"):
            telemetry.emit(event)


@pytest.mark.parametrize(
    ("payload", "ids", "said"),
    [
        (TurnStarted(), IDS, "payload.status is missing"),
        (RUNNING, Correlation(session_id="s-1"), "turn_id is missing"),
        (ToolResult(tool_name="grep", success=True, duration_ms=1), IDS, "tool_call_id is missing"),
        (SessionCreated(title="half a pair: \ud800"), IDS, "cannot be encoded"),
    ],
)
def test_what_may_not_be_emitted_is_refused_and_takes_no_number(
    tmp_path: Path, payload: TurnStarted, ids: Correlation, said: str
) -> None:
    with Telemetry(tmp_path, settings=KEPT_HERE) as telemetry:
        assert telemetry.record(RUNNING, IDS).sequence == 1
        with pytest.raises(InvalidEvent, match=said):
            telemetry.record(payload, ids)
        assert telemetry.record(RUNNING, IDS).sequence == 2
    assert len(list(records(tmp_path / "journal"))) == 2


def test_a_fact_without_a_session_has_no_number(tmp_path: Path) -> None:
    with Telemetry(tmp_path, settings=KEPT_HERE) as telemetry:
        assert telemetry.record(PolicyChanged(policy_scope="host"), Correlation()).sequence is None


@pytest.mark.req("AR-31", "AR-33")
def test_many_threads_get_numbers_without_holes_and_in_the_order_of_the_journal(tmp_path: Path) -> None:
    with Telemetry(tmp_path, settings=KEPT_HERE) as telemetry:
        sessions = [IDS.model_copy(update={"session_id": f"s-{number % 3}"}) for number in range(6)]

        def work(ids: Correlation) -> None:
            for _ in range(40):
                telemetry.record(RUNNING, ids)

        threads = [threading.Thread(target=work, args=[ids]) for ids in sessions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    kept = [record.meta for record in records(tmp_path / "journal")]
    for session in ("s-0", "s-1", "s-2"):
        assert [meta["sequence"] for meta in kept if meta["session_id"] == session] == list(range(1, 81))
    assert len({meta["event_id"] for meta in kept}) == 240


@pytest.mark.req("AR-33")
@pytest.mark.parametrize("notes", ["kept", "gone", "torn", "from a longer journal"])
def test_numbers_go_on_after_a_restart_whatever_became_of_the_notes(tmp_path: Path, notes: str) -> None:
    assert numbers(tmp_path, 3) == [1, 2, 3]
    if notes == "gone":
        (tmp_path / FILE).unlink()
    elif notes == "torn":
        (tmp_path / FILE).write_text('{"position": 3, "seq')
    elif notes == "from a longer journal":
        (tmp_path / FILE).write_text('{"position": 99, "sequences": {"s-1": 99}}')
    assert numbers(tmp_path, 2) == [4, 5]


def test_old_notes_are_brought_up_to_date_from_the_journal(tmp_path: Path) -> None:
    numbers(tmp_path, 2)
    old = (tmp_path / FILE).read_bytes()
    numbers(tmp_path, 3)
    (tmp_path / FILE).write_bytes(old)
    assert numbers(tmp_path, 1) == [6]


def test_a_disk_that_fails_for_a_while_makes_no_hole(tmp_path: Path) -> None:
    with Telemetry(tmp_path, settings=KEPT_HERE) as telemetry:
        telemetry.record(RUNNING, IDS)
        (tmp_path / "journal").rename(tmp_path / "away")
        for _ in range(2):
            with pytest.raises(JournalUnwritable):
                telemetry.record(RUNNING, IDS)
        (tmp_path / "away").rename(tmp_path / "journal")
        assert [telemetry.record(RUNNING, IDS).sequence for _ in range(2)] == [2, 3]
    assert [record.meta["sequence"] for record in records(tmp_path / "journal")] == [1, 2, 3]


@pytest.mark.req("AR-17")
def test_the_runtime_s_id_stays_with_its_folder(tmp_path: Path) -> None:
    with Telemetry(tmp_path, settings=KEPT_HERE) as first:
        chosen = first.runtime_id
    with Telemetry(tmp_path, settings=KEPT_HERE) as second:
        assert second.runtime_id == chosen
    with pytest.raises(UsageError, match="belongs to runtime"):
        Telemetry(tmp_path, runtime_id="another", settings=KEPT_HERE)
    with Telemetry(tmp_path, runtime_id=chosen, settings=KEPT_HERE) as third:  # the refused one let go of the folder
        assert third.runtime_id == chosen


def test_one_runtime_at_a_time_works_in_a_folder(tmp_path: Path) -> None:
    with Telemetry(tmp_path, settings=KEPT_HERE), pytest.raises(Locked):
        Telemetry(tmp_path, settings=KEPT_HERE)
    numbers(tmp_path, 1)


@pytest.mark.req("AR-37")
def test_facts_carry_the_ids_of_the_span_they_happen_in(tmp_path: Path) -> None:
    with Telemetry(tmp_path, settings=KEPT_HERE) as telemetry:
        outside = telemetry.record(RUNNING, IDS)
        with telemetry.spans.turn(IDS) as span:
            inside = telemetry.record(RUNNING, IDS)
    context = span.get_span_context()
    assert (outside.trace_id, outside.span_id) == (None, None)
    assert inside.trace_id == trace.format_trace_id(context.trace_id)
    assert inside.span_id == trace.format_span_id(context.span_id)


@pytest.mark.parametrize("other", [{"sampler": "always_off"}, {"sampler": "traceidratio", "sampler_ratio": 0.0}])
def test_a_sampler_drops_spans_and_never_facts(tmp_path: Path, other: dict[str, str]) -> None:
    with Telemetry(tmp_path, settings=ExportSettings(logs=None, traces=None, **other)) as telemetry:
        with telemetry.spans.turn(IDS):
            event = telemetry.record(RUNNING, IDS)
        assert (event.trace_id, event.sequence) == (None, 1)  # no span will be there to be found
    assert [record.kind for record in records(tmp_path / "journal")] == [LOGS]


def test_disabled_telemetry_keeps_facts_and_sends_them_once_it_is_enabled(tmp_path: Path) -> None:
    with Collector(tmp_path / "home") as collector:
        off = settings(collector.http, disabled=True)
        with Telemetry(tmp_path / "runtime", settings=off) as telemetry, telemetry.spans.turn(IDS):
            telemetry.record(RUNNING, IDS)
            assert not telemetry.flush(5)
            assert telemetry.backlog().records == 1
        with Telemetry(tmp_path / "runtime", settings=settings(collector.http)) as telemetry:
            assert telemetry.flush(10)
    assert [record.kind for record in records(tmp_path / "home" / "journal")] == [LOGS]


def test_the_environment_decides_where_it_goes(tmp_path: Path) -> None:
    with Collector(tmp_path / "home") as collector:
        environment = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": collector.http,
            "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
            "OTEL_SERVICE_NAME": "my-agent",
            "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
        }
        with Telemetry.from_environment(tmp_path / "runtime", environment) as telemetry:
            with telemetry.spans.turn(IDS):
                telemetry.record(RUNNING, IDS)
            assert telemetry.flush(10)
    arrived = {record.kind: record for record in records(tmp_path / "home" / "journal")}
    assert set(arrived) == {LOGS, TRACES}
    resource = ExportLogsServiceRequest.FromString(arrived[LOGS].body).resource_logs[0].resource
    told = {attribute.key: attribute.value.string_value for attribute in resource.attributes}
    assert told["service.name"] == "my-agent"
    assert told["deployment.environment"] == "test"
    assert told["service.instance.id"].startswith("rt-")


def test_several_events_are_stored_together_in_order_or_not_at_all(tmp_path: Path) -> None:
    good = Event(type="turn.started", event_id="a", timestamp=NOON, payload=RUNNING, **dict(IDS))
    bad = Event(type="turn.started", event_id="b", timestamp=NOON, payload=TurnStarted(), **dict(IDS))
    told: list[tuple[list[int], list[str]]] = []
    with Telemetry(tmp_path, settings=KEPT_HERE) as telemetry:
        telemetry.listener = lambda positions, events: told.append((positions, [event.event_id for event in events]))
        stored = telemetry.emit_all([good, good.model_copy(update={"event_id": "c"})])
        assert [(event.event_id, event.sequence) for event in stored] == [("a", 1), ("c", 2)]
        with pytest.raises(InvalidEvent, match="status is missing"):
            telemetry.emit_all([good, bad])
        with pytest.raises(InvalidEvent, match="one session"):
            telemetry.emit_all([good, good.model_copy(update={"session_id": "other"})])
        assert telemetry.emit_all([]) == []
    assert told == [([1, 2], ["a", "c"])]
    assert [record.meta["event_id"] for record in records(tmp_path / "journal")] == ["a", "c"]


def test_what_is_read_back_from_the_journal_is_the_event_that_was_recorded(tmp_path: Path) -> None:
    with Telemetry(tmp_path, settings=KEPT_HERE) as telemetry:
        told = sample_session(telemetry, session_id="s-1", start=NOON)
        odd = Event(
            type="turn.started",
            event_id="mine",
            timestamp=NOON,
            payload=RUNNING,
            **(dict(IDS) | {"trace_id": "not hex"}),
        )
        told.append(telemetry.emit(odd.model_copy(update={"worker": {"name": "w"}})))
    kept = [decode_fact(record.body) for record in records(tmp_path / "journal") if record.kind == LOGS]
    assert kept == told
