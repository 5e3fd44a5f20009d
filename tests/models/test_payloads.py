"""Every event type of the specification is a typed payload class that survives both spellings."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from models.event import Event
from models.payload import Payload, Unrecognised
from models.projection import from_camel, to_camel
from models.sentences import field_sentences, sentence
from models.shape import Shape, camel
from tests.models.generated_events import events, filled, partly_filled

TYPES = sorted(Payload.registry)
few = settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def shapes(shape: type[Shape] = Shape) -> set[type[Shape]]:
    below = {found for child in shape.__subclasses__() for found in shapes(child)}
    # Other rooms have shapes of their own, which are not the vocabulary.
    return {one for one in (shape, *below) if one.__module__.startswith("models.")} - {Shape, Payload}


@pytest.mark.req("AR-38")
def test_the_types_are_exactly_those_of_the_specification(shared: Path) -> None:
    published = json.loads((shared / "conformance" / "agentruntime-event.schema.json").read_text())
    named = {name for name in published["properties"]["type"]["enum"] if not name.startswith("benchmark.")}
    text = (shared / "specs" / "agent-runtime-draft.md").read_text()
    families = "|".join({name.partition(".")[0] for name in named})
    in_text = set(re.findall(rf"\b((?:{families})(?:\.[a-z_]+)+)\b", text))
    assert set(TYPES) == named
    assert len(TYPES) == 113
    assert set(TYPES) == in_text


@pytest.mark.req("AR-38")
@pytest.mark.parametrize("event_type", TYPES)
@given(data=st.data())
@few
def test_an_event_survives_json_and_both_spellings_with_every_field_told(event_type: str, data: st.DataObject) -> None:
    event = data.draw(events(event_type))
    assert type(event.payload) is Payload.registry[event_type]
    assert Event.parse_strict(event.to_json()) == event
    spelled = to_camel(event)
    assert from_camel(spelled) == event
    assert from_camel(json.loads(json.dumps(spelled))).to_json() == event.to_json()


@pytest.mark.parametrize("event_type", TYPES)
@given(data=st.data())
@few
def test_a_payload_with_any_part_of_its_fields_survives(event_type: str, data: st.DataObject) -> None:
    event = data.draw(events(event_type, partly_filled(Payload.registry[event_type])))
    assert Event.parse_strict(event.to_json()) == event
    assert from_camel(to_camel(event)) == event


@pytest.mark.parametrize("event_type", TYPES)
@given(data=st.data())
@few
def test_only_declared_names_are_respelled(event_type: str, data: st.DataObject) -> None:
    shape = Payload.registry[event_type]
    payload = data.draw(filled(shape))
    snake, spelled = payload.model_dump(mode="json"), payload.model_dump(mode="json", by_alias=True)
    declared = set(shape.model_fields)
    assert set(spelled) == {camel(name) if name in declared else name for name in snake}
    assert {k: v for k, v in spelled.items() if k in (payload.model_extra or {})} == payload.model_extra


@pytest.mark.parametrize("shape", sorted(shapes(), key=str), ids=str)
def test_every_shape_and_field_has_a_sentence_and_a_spelling_of_its_own(shape: type[Shape]) -> None:
    assert sentence(shape).endswith(".")
    told = field_sentences(shape)
    assert [name for name in shape.model_fields if not told.get(name, "").endswith(".")] == []
    assert len({camel(name) for name in shape.model_fields}) == len(shape.model_fields)
    assert shape.required_on_emission <= set(shape.model_fields)


@pytest.mark.parametrize("event_type", TYPES)
def test_every_payload_field_may_be_untold(event_type: str) -> None:
    shape = Payload.registry[event_type]
    assert shape() == shape(**dict.fromkeys(shape.model_fields))
    assert shape().model_dump(mode="json") == {}


def test_each_class_is_named_once() -> None:
    names = [shape.__name__ for shape in shapes()]
    assert len(names) == len(set(names))


def test_declaring_a_type_twice_is_refused() -> None:
    with pytest.raises(TypeError, match="declared twice"):

        class Again(Payload, event_type="tool.result"):
            """A second class for the same type."""


# What other emitters are known to send, in their spelling; each must be understood as declared fields.
SEEN: list[tuple[str, dict[str, object]]] = [
    ("turn.submitted", {"inputRef": "input://t/user", "source": "workspace", "status": "accepted"}),
    ("turn.started", {"status": "running"}),
    ("turn.failed", {"failureCategory": "timeout", "message": "too long", "status": "failed"}),
    ("model.requested", {"providerSelector": "p", "providerName": "openai", "modelName": "m", "status": "running"}),
    ("model.completed", {"providerName": "openai", "modelName": "m", "status": "completed", "outputChars": 12}),
    ("model.failed", {"modelName": "m", "failureCategory": "rate_limited", "message": "slow", "retryable": True}),
    ("permission.evaluated", {"decisionId": "d", "result": "allow", "scope": "turn", "owner": "policy"}),
    (
        "action.required",
        {"actionId": "a", "actionType": "confirm", "decisionKind": "user", "scope": "turn", "status": "pending"},
    ),
    ("action.resolved", {"actionId": "a", "result": "approved", "confirmed": True, "status": "completed"}),
    ("tool.started", {"toolCallId": "c", "toolName": "shell", "status": "running"}),
    ("tool.result", {"toolCallId": "c", "toolName": "shell", "success": True, "status": "completed"}),
    ("tool.failed", {"toolCallId": "c", "toolName": "shell", "failureCategory": "exit", "message": "1"}),
    ("task.profile.resolved", {"taskKind": "coding", "serviceModelSlot": "main", "routingMode": "single"}),
    (
        "routing.single_candidate",
        {"taskKind": "coding", "candidateCount": 1, "selectedModel": "m", "decisionSource": "x", "capabilityGap": "-"},
    ),
    ("cost.estimated", {"estimatedCostClass": "low"}),
    ("limit.changed", {"limitStatus": "ok", "singleCandidateOnly": True}),
    ("task.attempt.started", {"taskId": "t", "runId": "r", "attemptId": "a", "attemptIndex": 1}),
    ("task.attempt.failed", {"failureCategory": "x", "message": "y", "retryable": False, "nextAttemptPolicy": "z"}),
    ("task.retrying", {"failedAttemptId": "a", "queuedTurnId": "q", "nextAttemptIndex": 2, "reason": "r"}),
    ("evidence.changed", {"packRef": "p", "replayRef": "r", "verificationOutcomes": [{"name": "n", "status": "s"}]}),
    ("snapshot.updated", {"source": "projection", "status": "completed"}),
]


@pytest.mark.parametrize(("event_type", "body"), SEEN, ids=[name for name, _ in SEEN])
def test_payloads_seen_in_practice_are_understood(event_type: str, body: dict[str, object]) -> None:
    event = Event.parse_strict(
        {"type": event_type, "eventId": "e", "timestamp": "2026-05-11T10:00:00Z", "payload": body}
    )
    assert not isinstance(event.payload, Unrecognised)
    assert event.payload.model_extra == {}
    assert to_camel(event)["payload"] == body


@pytest.mark.req("AR-40")
def test_no_payload_has_a_place_for_whole_prompts_outputs_or_artifacts() -> None:
    inline = {"content", "body", "prompt_text", "completion", "messages", "stdout", "stderr", "raw", "data", "bytes"}
    texts = {
        event_type
        for event_type, shape in Payload.registry.items()
        for name in shape.model_fields
        if name in inline or name == "text"
    }
    assert texts == {"model.delta", "reasoning.delta"}  # a stream's pieces; the whole is behind their output_ref
    large = ("tool.result", "tool.args", "model.completed", "process.output", "artifact.changed", "evidence.changed")
    for event_type in large:
        assert any(name.endswith("_ref") for name in Payload.registry[event_type].model_fields), event_type
