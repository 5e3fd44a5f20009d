"""The envelope: what is read, what is refused, and what must be there before our runtime emits."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from models.errors import InvalidEvent, MalformedInput
from models.event import SCHEMA_VERSION, Event
from models.identities import MEANINGS, OWNERS, missing_ids, required_ids
from models.payload import Payload, Unrecognised
from models.payloads.tool import ToolResult, ToolStarted
from models.projection import from_camel, to_camel
from tests.models.generated_events import JSON, UNKNOWN_FIELDS, envelope

BARE: dict[str, Any] = {"type": "tool.result", "event_id": "e1", "timestamp": "2026-05-11T10:00:00Z"}
NEVER_TWICE = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def emitted(**changed: Any) -> Event:
    fields: dict[str, Any] = {
        **BARE,
        "schema_version": SCHEMA_VERSION,
        "sequence": 7,
        "runtime_id": "rt",
        "session_id": "s",
        "thread_id": "th",
        "turn_id": "tu",
        "step_id": "st",
        "tool_call_id": "tc",
        "payload": ToolResult(tool_name="shell", success=True, duration_ms=1.5),
    }
    return Event(**{**fields, **changed})


@pytest.mark.req("AR-30", "AR-32")
@pytest.mark.parametrize("name", ["type", "event_id", "timestamp"])
@pytest.mark.parametrize("worth", [None, "", "missing"])
def test_an_event_without_a_type_an_id_or_a_time_is_refused(name: str, worth: str | None) -> None:
    data = {**BARE, name: worth}
    if worth == "missing":
        del data[name]
    with pytest.raises(InvalidEvent, match=name):
        Event.from_json(json.dumps(data))


@pytest.mark.req("AR-32")
@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2026-05-11T10:00:00Z", datetime(2026, 5, 11, 10, tzinfo=UTC)),
        ("2026-05-11T12:00:00.5+02:00", datetime(2026, 5, 11, 10, 0, 0, 500000, tzinfo=UTC)),
        ("2026-05-11T10:00:00.123456789Z", datetime(2026, 5, 11, 10, 0, 0, 123456, tzinfo=UTC)),
    ],
)
def test_a_time_is_kept_in_utc_to_the_microsecond(written: str, moment: datetime) -> None:
    event = Event.from_json({**BARE, "timestamp": written})
    assert event.timestamp == moment
    assert event.timestamp.utcoffset() == UTC.utcoffset(None)


@pytest.mark.parametrize("written", ["2026-05-11T10:00:00", 1_770_000_000, "soon", "0001-01-01T00:00:00+10:00"])
def test_a_time_that_would_need_a_guess_is_refused(written: object) -> None:
    with pytest.raises(InvalidEvent, match="timestamp"):
        Event.from_json({**BARE, "timestamp": written})


@pytest.mark.parametrize("data", [b"{", b"[]", b"7", b'"x"', b"\xff", b'{"a":NaN}', b"[" * 100_000, b""])
def test_what_is_no_event_is_malformed_input_and_never_another_error(data: bytes) -> None:
    with pytest.raises(MalformedInput) as caught:
        Event.from_json(data)
    assert caught.value.exit_code == 7


def test_a_missing_identity_is_no_fault_on_reading() -> None:
    event = Event.from_json(json.dumps(BARE))
    assert event.session_id is None
    assert event.payload == ToolResult()
    assert json.loads(event.to_json()) == BARE


def test_an_empty_identity_identifies_nothing() -> None:
    assert Event.from_json({**BARE, "sessionId": ""}).session_id is None


def test_both_spellings_of_a_field_may_agree_but_not_contradict() -> None:
    assert Event.from_json({**BARE, "eventId": "e1"}) == Event.from_json(BARE)
    with pytest.raises(InvalidEvent, match="contradict"):
        Event.from_json({**BARE, "eventId": "e2"})


def test_a_payload_that_contradicts_itself_is_kept_as_it_came() -> None:
    body = {"tool_name": "a", "toolName": "b"}
    event = Event.from_json({**BARE, "payload": body})
    assert isinstance(event.payload, Unrecognised)
    assert json.loads(event.to_json())["payload"] == body
    assert to_camel(event)["payload"] == body


@pytest.mark.parametrize("body", [{"duration_ms": "long"}, {"success": [1]}, [1, 2], "text", 5, True])
def test_a_payload_that_is_not_valid_for_its_type_is_kept_with_the_problem(body: object) -> None:
    event = Event.from_json({**BARE, "payload": body})
    assert isinstance(event.payload, Unrecognised)
    assert event.payload.body == body
    assert event.payload.problem
    assert json.loads(event.to_json())["payload"] == body
    with pytest.raises(InvalidEvent):
        Event.parse_strict({**BARE, "payload": body})


def test_the_problem_does_not_repeat_the_input() -> None:
    event = Event.from_json({**BARE, "payload": {"duration_ms": "sk-secret"}})
    assert isinstance(event.payload, Unrecognised)
    assert "secret" not in str(event.payload.problem)


@pytest.mark.req("AR-41")
@given(
    body=JSON,
    fields=envelope(),
    family=st.sampled_from(["vendor.acme.thing", "item.started", "benchmark.trial.started"]),
)
@NEVER_TWICE
def test_vendor_types_keep_their_body_and_unknown_fields(body: object, fields: dict[str, Any], family: str) -> None:
    event = Event(type=family, payload=body, **fields)
    assert event.payload == Unrecognised(body=body)
    again = Event.from_json(event.to_json())
    assert again == event
    assert json.loads(event.to_json())["payload"] == body
    assert from_camel(json.loads(json.dumps(to_camel(event)))) == event
    with pytest.raises(InvalidEvent, match="vocabulary"):
        Event.parse_strict(event.to_json())


@given(extra=UNKNOWN_FIELDS, number=st.integers())
@NEVER_TWICE
def test_unknown_fields_of_a_known_type_stay_as_they_are(extra: dict[str, Any], number: int) -> None:
    data = {**BARE, **extra, "payload": {"tool_name": "x", "vendor_count": number, **extra}}
    assert json.loads(Event.from_json(data).to_json()) == data


@pytest.mark.req("AR-38")
def test_a_payload_must_be_of_the_type_the_envelope_names() -> None:
    with pytest.raises(ValidationError, match=r"tool\.started"):
        Event(**BARE, payload=ToolStarted())


@pytest.mark.req("AR-34")
@pytest.mark.parametrize("name", ["sequence", "schema_version", "runtime_id", "session_id"])
def test_emission_needs_the_common_fields(name: str) -> None:
    assert emitted().check_emission() == emitted()
    with pytest.raises(InvalidEvent, match=f"{name} is missing"):
        emitted(**{name: None}).check_emission()


def test_a_sequence_is_a_whole_number_from_zero() -> None:
    assert Event.from_json({**BARE, "sequence": 0}).sequence == 0
    for wrong in (-1, 1.5, "x"):
        with pytest.raises(InvalidEvent, match="sequence"):
            Event.from_json({**BARE, "sequence": wrong})


@pytest.mark.req("AR-35", "AR-36")
@pytest.mark.parametrize(
    ("event_type", "needed"),
    [
        ("thread.started", {"session_id", "thread_id"}),
        ("turn.started", {"session_id", "thread_id", "turn_id"}),
        ("tool.result", {"session_id", "thread_id", "turn_id", "step_id", "tool_call_id"}),
        ("action.required", {"session_id", "thread_id", "turn_id", "action_id"}),
        ("task.created", {"session_id", "task_id"}),
        ("task.attempt.failed", {"session_id", "task_id", "run_id"}),
        ("subagent.spawned", {"session_id", "thread_id", "turn_id", "subagent_id"}),
        ("artifact.changed", {"session_id", "artifact_id"}),
        ("evidence.changed", {"session_id", "evidence_id"}),
        ("process.output", {"session_id", "thread_id", "process_id"}),
        ("job.item.failed", {"session_id", "job_id", "job_item_id"}),
        ("channel.connected", {"channel_id"}),
        ("tool.catalog.resolved", {"session_id", "thread_id", "turn_id"}),
        ("runtime.error", set()),
    ],
)
def test_each_type_needs_its_identities_on_emission(event_type: str, needed: set[str]) -> None:
    common = {"runtime_id", "schema_version"} | ({"sequence"} if "session_id" in needed else set())
    assert required_ids(event_type) == needed | common
    bare = Event.from_json({**BARE, "type": event_type})
    assert missing_ids(bare) == required_ids(event_type)
    whole = bare.model_copy(update={name: 1 if name == "sequence" else "x" for name in required_ids(event_type)})
    assert missing_ids(whole) == frozenset()


@pytest.mark.parametrize("event_type", sorted(Payload.registry))
def test_required_identities_are_fields_of_the_envelope(event_type: str) -> None:
    assert required_ids(event_type) <= set(Event.model_fields)


def test_a_hook_at_the_start_of_a_session_has_no_turn_yet() -> None:
    early = Event.from_json({**BARE, "type": "hook.started", "payload": {"point": "session_start"}})
    later = Event.from_json({**BARE, "type": "hook.started", "payload": {"point": "stop"}})
    assert missing_ids(later) - missing_ids(early) == {"thread_id", "turn_id"}


def test_emission_needs_the_payload_fields_and_known_values() -> None:
    with pytest.raises(InvalidEvent) as caught:
        emitted(payload={"tool_name": "x", "item_kind": "dance"}).check_emission()
    assert caught.value.problems[:2] == ("payload.duration_ms is missing", "payload.success is missing")
    assert caught.value.problems[2].startswith("payload.item_kind is 'dance', not one of command_execution")


def test_emission_looks_into_nested_values() -> None:
    payload = {"tool_name": "x", "permission": {"decision": "perhaps"}}
    with pytest.raises(InvalidEvent, match=r"payload\.permission\.decision is 'perhaps'"):
        emitted(type="tool.started", payload=payload).check_emission()


def test_a_payload_that_was_not_understood_is_not_emitted() -> None:
    with pytest.raises(InvalidEvent, match="duration_ms"):
        emitted(payload={"duration_ms": "long"}).check_emission()


def test_a_vendor_type_may_be_emitted_with_the_common_fields() -> None:
    emitted(type="vendor.acme.thing", payload={"x": 1}).check_emission()


@pytest.mark.req("AR-39")
def test_telemetry_ids_and_refs_are_kept_with_the_authors_keys() -> None:
    event = emitted(
        trace_id="0af7651916cd43dd8448eb211c80319c", span_id="b7ad6b7169203331", refs={"raw_body": "blob:1"}
    )
    again = from_camel(to_camel(event))
    assert (again.trace_id, again.span_id, again.refs) == (event.trace_id, event.span_id, {"raw_body": "blob:1"})


@pytest.mark.req(*(f"AR-{number}" for number in range(18, 29)))
def test_every_identity_has_a_meaning_and_its_owners_are_identities() -> None:
    assert set(MEANINGS) == set(OWNERS)
    assert set(OWNERS) <= set(Event.model_fields)
    assert {owner for owners in OWNERS.values() for owner in owners} <= set(OWNERS)
    assert OWNERS["thread_id"] == ("session_id",)
    assert OWNERS["turn_id"] == ("thread_id",)
    assert set(OWNERS["task_id"]) == {"session_id", "thread_id", "parent_task_id"}
    assert OWNERS["run_id"] == OWNERS["attempt_id"] == ("task_id",)
    assert set(OWNERS["step_id"]) == {"turn_id", "task_id", "run_id"}
    assert OWNERS["tool_call_id"] == ("step_id",)
    assert set(OWNERS["action_id"]) == {"turn_id", "task_id", "tool_call_id"}
    assert set(OWNERS["subagent_id"]) == {"session_id", "thread_id", "turn_id"}
    assert OWNERS["artifact_id"] == OWNERS["evidence_id"] == ()


def test_events_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        emitted().sequence = 8  # type: ignore[misc]  # the assignment must fail
