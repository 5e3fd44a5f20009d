"""The published spelling and the published schemas: what we export validates, and where it cannot we know why."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker
from referencing import Registry, Resource

from models.event import Event
from models.identities import required_ids
from models.items import KINDS, STAGES, to_item
from models.payload import Payload
from models.projection import from_camel, to_camel
from models.shape import camel
from tests.models.generated_events import envelope, events

TYPES = sorted(Payload.registry)
LIME = "lime-profile-0.4.0"
formats = FormatChecker(formats=())


@formats.checks("date-time", raises=ValueError)
def is_rfc3339(value: object) -> bool:
    """The format of times, which jsonschema checks only with a package we do not need otherwise."""
    if not isinstance(value, str):
        return True
    datetime.fromisoformat(value)
    return re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", value) is not None


def validator(shared: Path, name: str) -> Draft202012Validator:
    folder = shared / "conformance"
    documents = [json.loads(path.read_text()) for path in folder.glob("*.schema.json")]
    resources = [Resource.from_contents(document) for document in documents]
    registry: Registry[Any] = Registry().with_resources((str(r.id()), r) for r in resources)
    # The strict profile names its neighbours by file, relative to its own address.
    base = "https://limecloud.github.io/agentruntime/schemas/"
    for path, resource in zip(folder.glob("*.schema.json"), resources, strict=True):
        registry = registry.with_resource(base + path.name, resource)
    schema = json.loads((folder / f"{name}.schema.json").read_text())
    return Draft202012Validator(schema, registry=registry, format_checker=formats)


@pytest.fixture(scope="session")
def published(shared: Path) -> Draft202012Validator:
    return validator(shared, "agentruntime-event")


@pytest.fixture(scope="session")
def strict_profile(shared: Path) -> Draft202012Validator:
    return validator(shared, "agentruntime-lime-profile-event")


@pytest.mark.req("CONF-1")
@pytest.mark.parametrize("event_type", TYPES)
@given(data=st.data())
@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_every_exported_event_validates(published: Draft202012Validator, event_type: str, data: st.DataObject) -> None:
    published.validate(to_camel(data.draw(events(event_type))))


def test_the_published_schema_does_refuse(published: Draft202012Validator) -> None:
    event = {"type": "tool.result", "eventId": "e", "timestamp": "2026-05-11T10:00:00Z"}
    assert published.is_valid(event)
    wrongs: list[dict[str, Any]] = [
        {"eventId": ""},
        {"timestamp": "yesterday"},
        {"sequence": -1},
        {"refs": []},
        {"type": "vendor.x"},
    ]
    for wrong in wrongs:
        assert not published.is_valid({**event, **wrong})
    assert not published.is_valid({"type": "tool.result", "event_id": "e", "timestamp": "2026-05-11T10:00:00Z"})


@pytest.mark.req("CONF-4")
def test_every_published_envelope_field_is_declared(shared: Path) -> None:
    published = json.loads((shared / "conformance" / "agentruntime-event.schema.json").read_text())
    assert set(published["properties"]) == {camel(name) for name in Event.model_fields}


@pytest.mark.req("CONF-4")
@given(fields=envelope())
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
def test_every_envelope_field_survives_both_spellings(fields: dict[str, Any]) -> None:
    event = Event(type="session.created", **fields)
    spelled = json.loads(json.dumps(to_camel(event)))
    for name, value in fields.items():
        key = camel(name) if name in Event.model_fields else name
        assert spelled[key] == event.model_dump(mode="json")[name]
        assert value is None or key in spelled
    assert from_camel(spelled) == event
    assert Event.from_json(event.to_json()) == event


@pytest.mark.parametrize("name", ["routing-single-candidate", "submit-turn", "task-retry-attempt-failed"])
def test_the_published_example_events_survive(shared: Path, name: str, published: Draft202012Validator) -> None:
    text = (shared / "public_data" / "agentruntime" / f"{name}-event.json").read_text()
    event = Event.parse_strict(text)
    assert event.payload.model_extra == {}
    assert to_camel(event) == json.loads(text)
    assert from_camel(to_camel(Event.from_json(event.to_json()))) == event
    published.validate(to_camel(event))


# The strict profile wants more than we always have; docs/decisions/0002 tells why. Type -> what it misses.
STRICTER: dict[str, set[str]] = {
    "tool.catalog.resolved": {"stepId", "toolCallId"},
    "task.profile.resolved": {"taskId"},
    **{name: {"sessionId", "sequence"} for name in TYPES if name.startswith(("runtime.", "policy.", "limit."))},
    **{name: {"sessionId", "sequence"} for name in TYPES if re.match(r"channel\.(?!permission_)", name)},
}


@pytest.mark.parametrize("event_type", TYPES)
def test_what_emission_requires_is_what_the_strict_profile_requires_but_for_documented_differences(
    strict_profile: Draft202012Validator, event_type: str
) -> None:
    fields = dict.fromkeys(required_ids(event_type), "x")
    fields |= {"schema_version": LIME, "type": event_type, "event_id": "e", "timestamp": "2026-05-11T10:00:00Z"}
    exported = to_camel(Event.from_json({**fields, "sequence": 1, "payload": {}}))
    if "sequence" not in required_ids(event_type):
        del exported["sequence"]
    missing = {
        name
        for fault in strict_profile.iter_errors(exported)
        for name in fault.validator_value
        if fault.validator == "required" and name not in exported
    }
    others = [fault for fault in strict_profile.iter_errors(exported) if fault.validator != "required"]
    assert others == []
    assert missing == STRICTER.get(event_type, set())


@pytest.mark.parametrize("event_type", sorted(STAGES))
def test_items_are_a_projection_of_known_types(event_type: str) -> None:
    assert event_type in Payload.registry
    ids = {name: name for name in ("tool_call_id", "model_request_id", "process_id", "artifact_id", "step_id")}
    event = Event.from_json({"type": event_type, "event_id": "e", "timestamp": "2026-05-11T10:00:00Z", **ids})
    item = to_item(event)
    assert item is not None
    assert item["type"] in {"item.started", "item.updated", "item.completed"}
    assert item["item"]["id"] in ids
    assert item["item"]["type"] == KINDS.get(event_type.partition(".")[0], "unknown")


def test_a_tool_call_tells_its_own_kind_of_item_and_other_facts_are_no_items() -> None:
    bare = {"event_id": "e", "timestamp": "2026-05-11T10:00:00Z"}
    call = Event.from_json({**bare, "type": "tool.started", "payload": {"item_kind": "web_search"}})
    item = to_item(call)
    assert item is not None
    assert item["item"]["type"] == "web_search"
    assert to_item(Event.from_json({**bare, "type": "queue.changed"})) is None
