"""The base class of all payloads: declaring a subclass registers its event type."""

from typing import Any, ClassVar

from pydantic import ConfigDict, JsonValue, SerializerFunctionWrapHandler, model_serializer

from models.shape import Shape


class Payload(Shape):
    """What is particular to one type of event. Declaring a subclass with `event_type` registers the type."""

    event_type: ClassVar[str | None] = None
    registry: ClassVar[dict[str, type["Payload"]]] = {}

    def __init_subclass__(cls, *, event_type: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if event_type is None:
            return
        if event_type in Payload.registry:
            raise TypeError(f"event type {event_type!r} is declared twice")
        cls.event_type = event_type
        Payload.registry[event_type] = cls


class Unrecognised(Payload):
    """The body of an event whose type we do not know, or that is not valid for its type; kept exactly as it came."""

    model_config = ConfigDict(extra="forbid")

    body: JsonValue = None
    """The payload as it was received, any JSON value."""

    problem: str | None = None
    """Why a body of a known type was not understood; None for a type we do not know."""

    @model_serializer(mode="wrap")
    def _just_the_body(self, handler: SerializerFunctionWrapHandler) -> JsonValue:
        return self.body
