"""JSON Schema for every event type, and the page that lists the vocabulary."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from models.errors import UsageError
from models.json_schema import schema_for, schemas
from models.payload import Payload
from models.projection import to_camel
from models.shape import camel
from models.vocabulary_page import page
from tests.models.generated_events import events


@pytest.mark.parametrize("spelled", [False, True], ids=["snake", "camel"])
def test_there_is_a_valid_schema_for_every_type_with_a_sentence_for_every_field(spelled: bool) -> None:
    written = schemas(camel=spelled)
    assert set(written) == set(Payload.registry)
    for event_type, schema in written.items():
        assert schema["properties"]["type"]["const"] == event_type
        payload = schema["properties"]["payload"]
        Draft202012Validator.check_schema({**payload, "$defs": schema["$defs"]})  # the envelope once, below
        names = Payload.registry[event_type].model_fields
        assert set(payload["properties"]) == {camel(name) if spelled else name for name in names}
        for part in (schema, payload, *schema["$defs"].values()):
            assert all(field.get("description") for field in part.get("properties", {}).values())


@pytest.mark.parametrize("event_type", ["tool.result", "model.completed", "task.created", "permission.evaluated"])
@given(data=st.data())
@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_events_validate_against_the_schema_of_their_type(event_type: str, data: st.DataObject) -> None:
    event = data.draw(events(event_type))
    Draft202012Validator(schema_for(event_type)).validate(event.model_dump(mode="json"))
    Draft202012Validator(schema_for(event_type, camel=True)).validate(to_camel(event))


def test_the_schema_of_a_whole_event_is_a_valid_schema() -> None:
    Draft202012Validator.check_schema(schema_for("tool.result"))
    Draft202012Validator.check_schema(schema_for("tool.result", camel=True))


def test_a_schema_refuses_what_is_not_of_its_type() -> None:
    check = Draft202012Validator(schema_for("tool.result"))
    good = {"type": "tool.result", "event_id": "e", "timestamp": "2026-05-11T10:00:00Z"}
    assert check.is_valid(good)
    assert not check.is_valid({**good, "type": "tool.failed"})
    assert not check.is_valid({**good, "payload": {"duration_ms": "long"}})
    assert not check.is_valid({"type": "tool.result"})


def test_a_schema_tells_what_must_be_filled_on_emission() -> None:
    payload = schema_for("tool.result", camel=True)["properties"]["payload"]
    assert payload["x-required-on-emission"] == ["durationMs", "success", "toolName"]


def test_an_unknown_type_has_no_schema() -> None:
    with pytest.raises(UsageError, match="no event type"):
        schema_for("vendor.acme.thing")


def test_the_page_of_the_vocabulary_is_current() -> None:
    written = Path(__file__).resolve().parents[2] / "docs" / "vocabulary.md"
    assert written.read_text(encoding="utf-8") == page(), "run: python -m models.vocabulary_page > docs/vocabulary.md"
