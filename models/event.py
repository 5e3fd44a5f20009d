"""The event: one runtime fact in an envelope of identities, with a payload particular to its type."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    Field,
    SerializationInfo,
    SerializeAsAny,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
)
from pydantic_core import from_json, to_json

import models.payloads  # noqa: F401 - declares, and so registers, every event type
from models import identities as ids
from models.errors import InvalidEvent, MalformedInput
from models.payload import Payload, Unrecognised
from models.shape import JsonMap, Shape, Timestamp

SCHEMA_VERSION = "agent-runtime-0.4"
"""The version of this vocabulary, as our runtime writes it in `schema_version`."""

_STRICT = {"strict_payload": True}


def _empty_is_none(value: object) -> object:
    return None if value == "" else value


_Untold = BeforeValidator(_empty_is_none)  # an empty id identifies nothing
_Filled = StringConstraints(min_length=1)


class Head(Shape):
    """What every event has: its class, its own id, and when it happened."""

    type: Annotated[str, _Filled]
    """The class of the fact, such as `tool.result`."""

    event_id: Annotated[ids.EventId, _Filled]
    """Unique and stable: the same fact delivered twice has the same id."""

    timestamp: Timestamp
    """When it happened, by the producer's clock."""

    sequence: Annotated[int | None, Field(ge=0)] = None
    """The place in the session's stream, rising; None where the source does not number its events."""

    schema_version: str | None = None
    """The version of the event vocabulary the producer used."""


class Correlation(Shape):
    """The identities that join one fact to the work it belongs to; each is there where it applies."""

    runtime_id: Annotated[ids.RuntimeId | None, _Untold] = None
    """The runtime installation or service instance that produced the fact."""

    session_id: Annotated[ids.SessionId | None, _Untold] = None
    """The durable container of work."""

    thread_id: Annotated[ids.ThreadId | None, _Untold] = None
    """The ordered context of execution."""

    turn_id: Annotated[ids.TurnId | None, _Untold] = None
    """The cycle of submitted input."""

    task_id: Annotated[ids.TaskId | None, _Untold] = None
    """The unit of work."""

    parent_task_id: Annotated[ids.TaskId | None, _Untold] = None
    """The task that this task is a part of."""

    root_task_id: Annotated[ids.TaskId | None, _Untold] = None
    """The topmost task of the tree."""

    run_id: Annotated[ids.RunId | None, _Untold] = None
    """The try at the task."""

    attempt_id: Annotated[ids.AttemptId | None, _Untold] = None
    """The same try, where the source names its attempts apart."""

    step_id: Annotated[ids.StepId | None, _Untold] = None
    """The ordered item of work."""

    tool_call_id: Annotated[ids.ToolCallId | None, _Untold] = None
    """The invocation of a tool."""

    action_id: Annotated[ids.ActionId | None, _Untold] = None
    """The decision a human or policy has to make."""

    subagent_id: Annotated[ids.SubagentId | None, _Untold] = None
    """The child agent's context."""

    artifact_id: Annotated[ids.ArtifactId | None, _Untold] = None
    """The durable deliverable referred to."""

    evidence_id: Annotated[ids.EvidenceId | None, _Untold] = None
    """The trace, replay, verification or review referred to."""

    request_id: Annotated[ids.RequestId | None, _Untold] = None
    """The request to the runtime that caused the fact."""

    model_request_id: Annotated[ids.ModelRequestId | None, _Untold] = None
    """The call to a model provider."""

    process_id: Annotated[ids.ProcessId | None, _Untold] = None
    """The process, by the runtime's own name."""

    channel_id: Annotated[ids.ChannelId | None, _Untold] = None
    """The connection to a remote peer."""

    job_id: Annotated[ids.JobId | None, _Untold] = None
    """The batch or scheduled work."""

    job_item_id: Annotated[ids.JobItemId | None, _Untold] = None
    """The item of the job."""

    queue_id: Annotated[ids.QueueId | None, _Untold] = None
    """The queue of waiting turns."""

    trace_id: Annotated[ids.TraceId | None, _Untold] = None
    """The trace whose span the fact happened in, where telemetry is on."""

    span_id: Annotated[ids.SpanId | None, _Untold] = None
    """The span the fact happened in, where telemetry is on."""


class Beside(Shape):
    """What other emitters put beside the payload; ours puts it into the payload. Content is kept as it came."""

    status: str | None = None
    """The state after this fact, in the emitter's normalised words."""

    phase: str | None = None
    """The phase of work, in the emitter's words."""

    native_status: str | None = None
    """The exact state in the source's own words, where `status` is only the nearest one."""

    status_reason: str | None = None
    """Why the status is what it is."""

    output_ref: Annotated[str | None, _Untold] = None
    """Where the output that the fact is about is kept."""

    task: JsonMap | None = None
    """The record of the task."""

    task_attempt: JsonMap | None = None
    """The record of the attempt."""

    task_relationship: JsonMap | None = None
    """An edge of the task graph."""

    task_graph: JsonMap | None = None
    """The task graph."""

    task_progress: JsonMap | None = None
    """How far the task is."""

    task_acceptance: JsonMap | None = None
    """What the task must fulfil to be accepted."""

    worker: JsonMap | None = None
    """Who executes."""

    delivery_state: JsonMap | None = None
    """Whether the result reached its receiver."""

    permission_decision: JsonMap | None = None
    """What was decided about a permission."""

    sandbox_profile: JsonMap | None = None
    """The execution boundary."""

    routing_decision: JsonMap | None = None
    """Which model was chosen and why."""

    candidate_model_set: JsonMap | None = None
    """The models that could have been chosen."""

    task_profile: JsonMap | None = None
    """What the work needs of a model."""

    limit_state: JsonMap | None = None
    """Where cost, quota, rate and budget limits stand."""

    limit_event: JsonMap | None = None
    """The change of a limit."""

    cost_state: JsonMap | None = None
    """What was spent so far."""

    hook_run: JsonMap | None = None
    """The run of a hook."""

    execution_environment: JsonMap | None = None
    """Where commands are executed."""

    channel: JsonMap | None = None
    """The connection to a remote peer."""

    job: JsonMap | None = None
    """The batch or scheduled work."""

    job_item: JsonMap | None = None
    """The item of a job."""

    output: JsonMap | None = None
    """The stored output."""

    history_boundary: JsonMap | None = None
    """Where history was cut, compacted or rolled back."""

    telemetry: JsonMap | None = None
    """Telemetry facts of the emitter."""

    correlation: JsonMap | None = None
    """Further correlation keys of the emitter."""

    benchmark: JsonMap | None = None
    """The benchmark the work is a part of."""

    trajectory: JsonMap | None = None
    """The exported trajectory of a benchmark trial."""

    reward: JsonMap | None = None
    """The reward of a benchmark trial."""

    comparison: JsonMap | None = None
    """The comparison of benchmark configurations."""


class Event(Beside, Correlation, Head):
    """One runtime fact.

    Reading is tolerant: both spellings, unknown types and fields, and missing ids are accepted, and a payload that is
    not valid for its type is kept as `Unrecognised`. Only an event without a type, an id or a time, or one that
    contradicts itself, is refused. Emission is strict: see `check_emission`.
    """

    payload: SerializeAsAny[Payload] = Field(default=None, validate_default=True)
    """What is particular to this type of event."""

    refs: JsonMap | None = None
    """Stable references to large content, or to facts that neighbours keep, by the author's own keys."""

    @field_validator("payload", mode="wrap")
    @classmethod
    def _typed(cls, value: Any, _: Any, info: ValidationInfo) -> Payload:
        if isinstance(value, Payload):
            return _matching(value, info.data.get("type"))
        known = Payload.registry.get(info.data.get("type", ""))
        if known is None:
            return Unrecognised(body=value)
        try:
            return known.model_validate({} if value is None else value)
        except ValidationError as error:
            if info.context is _STRICT:
                raise
            return Unrecognised(body=value, problem="; ".join(_faults(error)))

    @model_serializer(mode="wrap")
    def _without_untold(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        written: dict[str, Any] = super()._without_untold(handler, info)
        if "payload" not in self.model_fields_set:
            written.pop("payload", None)
        return written

    @classmethod
    def from_json(cls, data: bytes | str | Mapping[str, Any]) -> Self:
        """Read an event in either spelling; raise only if it has no usable envelope."""
        return cls._read(data, None)

    @classmethod
    def parse_strict(cls, data: bytes | str | Mapping[str, Any]) -> Self:
        """Read an event and refuse one whose type is unknown or whose payload is not valid for its type."""
        event = cls._read(data, _STRICT)
        if event.type not in Payload.registry:
            raise InvalidEvent(event.type, ["the type is not in the vocabulary"])
        return event

    @classmethod
    def _read(cls, data: bytes | str | Mapping[str, Any], context: dict[str, Any] | None) -> Self:
        try:
            value = dict(data) if isinstance(data, Mapping) else from_json(data, allow_inf_nan=False)
        except ValueError as error:
            raise MalformedInput(f"not JSON: {error}", source="event") from error
        try:
            return cls.model_validate(value, context=context)
        except ValidationError as error:
            told = value.get("type") if isinstance(value, dict) else None
            raise InvalidEvent(told if isinstance(told, str) else None, _faults(error)) from error

    def to_json(self) -> bytes:
        """The event as one line of snake_case JSON."""
        return to_json(self, by_alias=False)

    def check_emission(self) -> Self:
        """Raise `InvalidEvent` unless the event is complete enough for our runtime to emit it."""
        problems = [f"{name} is missing" for name in sorted(ids.missing_ids(self))]
        if isinstance(self.payload, Unrecognised):
            problems += [self.payload.problem] if self.payload.problem else []
        else:
            problems += self.payload.emission_problems("payload.")
        if problems:
            raise InvalidEvent(self.type, problems)
        return self


def _matching(payload: Payload, event_type: str | None) -> Payload:
    if payload.event_type not in (None, event_type):
        raise ValueError(f"a payload of {payload.event_type} in an event of type {event_type}")
    return payload


def _faults(error: ValidationError) -> list[str]:
    """One line per fault, without the input itself: it may hold a secret."""
    lines = error.errors(include_url=False, include_input=False, include_context=False)
    return [".".join(str(part) for part in line["loc"]) + f": {line['msg']}" for line in lines]
