"""The thirteen read models: honest unknowns, and a snapshot that the published schema accepts."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from models.projection import snapshot_to_camel
from models.read_models import READ_MODELS, ReadModels, SessionSnapshot, TaskSnapshot, ThreadReadModel
from models.states import State
from models.task_values import Attempt, Edge, TaskRecord
from tests.models.generated_events import filled
from tests.models.test_projection import validator

NAMED = {"session_snapshot": {"session_id": "s"}, "thread_read_model": {"thread_id": "t"}}


@pytest.fixture(scope="session")
def published(shared: Path) -> Draft202012Validator:
    return validator(shared, "agentruntime-snapshot")


def test_there_are_thirteen() -> None:
    assert len(READ_MODELS) == 13
    assert len(set(READ_MODELS.values())) == 13


@pytest.mark.parametrize("name", READ_MODELS)
def test_a_read_model_that_was_told_nothing_says_unknown_and_nothing_else(name: str) -> None:
    untold = READ_MODELS[name](**NAMED.get(name, {}))
    assert untold.status == "unknown"
    defaults = {"schema_version", "status", "resume_state", "permission_bridge"}
    for field, value in untold.model_dump(mode="json").items():
        assert value in ("unknown", []) or field in defaults | set(NAMED.get(name, {})), field


@pytest.mark.parametrize("name", READ_MODELS)
@given(data=st.data())
@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
def test_a_read_model_survives_json_and_both_spellings(name: str, data: st.DataObject) -> None:
    model = data.draw(filled(READ_MODELS[name]))
    assert type(model).model_validate_json(model.model_dump_json(by_alias=False)) == model
    assert type(model).model_validate_json(model.model_dump_json(by_alias=True)) == model


def snapshot(**parts: Any) -> dict[str, Any]:
    return snapshot_to_camel(ReadModels(session=SessionSnapshot(session_id="s"), **parts))


@pytest.mark.req("CONF-2")
def test_a_snapshot_of_nothing_but_a_session_validates(published: Draft202012Validator) -> None:
    published.validate(snapshot())


@pytest.mark.req("CONF-2")
@pytest.mark.parametrize("name", ReadModels.model_fields)
@given(data=st.data())
@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
def test_a_snapshot_with_every_field_of_a_part_told_validates(
    published: Draft202012Validator, name: str, data: st.DataObject
) -> None:
    told = data.draw(filled(_model_of(name)))
    whole = {"session": SessionSnapshot(session_id="s"), name: (told,) if name == "threads" else told}
    published.validate(json.loads(json.dumps(snapshot_to_camel(ReadModels(**whole)))))


def _model_of(name: str) -> Any:
    """The read model behind a field: alone, as X | None, or as tuple[X, ...]."""
    annotation: Any = ReadModels.model_fields[name].annotation
    return annotation if isinstance(annotation, type) else annotation.__args__[0]


@pytest.mark.req("CONF-2", "CONF-5")
@pytest.mark.parametrize("state", [*State, "idle", "vendor_state"])
def test_every_state_of_threads_tasks_and_attempts_validates_and_is_kept(
    published: Draft202012Validator, state: str
) -> None:
    task = TaskRecord(task_id="t", status=state, attempts=(Attempt(run_id="r", status=state),))
    exported = snapshot(threads=(ThreadReadModel(thread_id="th", status=state),), tasks=TaskSnapshot(tasks=(task,)))
    published.validate(exported)
    shown = (exported["threads"][0], exported["tasks"][0], exported["tasks"][0]["attempts"][0])
    for entry in shown:
        assert entry.get("nativeStatus", entry["status"]) == state


def test_what_cannot_be_published_stays_visible(published: Draft202012Validator) -> None:
    task = TaskRecord(
        task_id="t",
        owner="me",
        delivery_state="delivered",
        attempts=(Attempt(attempt_id="a"), Attempt(run_id="r", input_refs=("in",))),
        relationships=(Edge(kind="blocks"), Edge(kind="blocks", target_id="u")),
    )
    exported = snapshot(tasks=TaskSnapshot(tasks=(task,)))
    published.validate(exported)
    shown = exported["tasks"][0]
    assert shown["incompleteAttempts"] == [{"attemptId": "a", "status": "unknown"}]
    assert shown["attempts"] == [{"runId": "r", "status": "unknown", "inputRefs": [{"ref": "in"}]}]
    assert shown["incompleteRelationships"] == [{"kind": "blocks"}]
    assert shown["owner"] == {"id": "me"}
    assert shown["deliveryState"] == {"state": "delivered"}
