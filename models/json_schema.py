"""JSON Schema (draft 2020-12) for every event type, with the vocabulary's own sentences as descriptions."""

from copy import deepcopy
from functools import cache
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from models.errors import UsageError
from models.event import Event
from models.payload import Payload
from models.sentences import field_sentences
from models.shape import Shape, camel

DIALECT = "https://json-schema.org/draft/2020-12/schema"


class _Described(GenerateJsonSchema):
    """Adds the sentence of each field, and which fields must be filled on emission."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        written = super().model_schema(schema)
        shape = schema["cls"]
        if not issubclass(shape, Shape):
            return written
        spelled = camel if self.by_alias else str
        for name, text in field_sentences(shape).items():
            written["properties"][spelled(name)]["description"] = text
        if shape.required_on_emission:
            written["x-required-on-emission"] = sorted(spelled(name) for name in shape.required_on_emission)
        return written


@cache
def _envelope(camel: bool) -> dict[str, Any]:
    return Event.model_json_schema(by_alias=camel, schema_generator=_Described)


def schema_for(event_type: str, camel: bool = False) -> dict[str, Any]:
    """The schema of one whole event, envelope and payload; unknown fields are allowed, as on reading."""
    payload_class = Payload.registry.get(event_type)
    if payload_class is None:
        raise UsageError(f"no event type {event_type!r}", next_step="tachograph schema lists all types")
    written = deepcopy(_envelope(camel))
    payload = payload_class.model_json_schema(by_alias=camel, schema_generator=_Described)
    defs = {**written.pop("$defs", {}), **payload.pop("$defs", {})}
    defs.pop("Payload", None)
    written["properties"]["type"] = {"const": event_type, "description": payload_class.__doc__}
    written["properties"]["payload"] = payload
    return {"$schema": DIALECT, **written, "title": event_type, "$defs": defs}


def schemas(camel: bool = False) -> dict[str, dict[str, Any]]:
    """The schema of every event type, by type."""
    return {event_type: schema_for(event_type, camel) for event_type in sorted(Payload.registry)}
