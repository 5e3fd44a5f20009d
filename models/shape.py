"""What every recorded shape has in common: frozen, tolerant on reading, spelled in snake_case or camelCase."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, ClassVar, get_args

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetJsonSchemaHandler,
    JsonValue,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

JsonMap = dict[str, JsonValue]
"""A map whose keys belong to its author; they are never renamed."""


@cache
def camel(name: str) -> str:
    """Spell a snake_case field name in camelCase: `cache_write_5m_tokens` is `cacheWrite5mTokens`."""
    head, *rest = name.split("_")
    return head + "".join(word[:1].upper() + word[1:] for word in rest)


def _written_time(value: object) -> object:
    # pydantic would take a bare number as seconds or milliseconds, by its size: a guess we do not make.
    if isinstance(value, str | datetime):
        return value
    raise ValueError("a time is an RFC 3339 text with an offset")


def _in_utc(value: datetime) -> datetime:
    try:
        return value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("the time is out of range") from error


Timestamp = Annotated[AwareDatetime, BeforeValidator(_written_time), AfterValidator(_in_utc)]
"""A moment in UTC, to the microsecond; finer digits are cut off, a text without an offset is refused."""


@dataclass(frozen=True)
class Known:
    """The values our runtime uses for a field; on reading any other value is kept, on emission it is refused."""

    values: tuple[str, ...]

    def __init__(self, *values: str) -> None:
        object.__setattr__(self, "values", values)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Show the values as examples, since a reader must accept others."""
        return {**handler(core), "examples": list(self.values)}


class Shape(BaseModel):
    """A record that keeps what it does not know and leaves out what it was not told.

    Both spellings of a declared field are read. An undeclared field is kept under exactly the name it came with.
    Declared fields that are None are not written: None means the source does not tell.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        alias_generator=camel,
        validate_by_name=True,
        validate_by_alias=True,
        allow_inf_nan=False,
        coerce_numbers_to_str=True,
        loc_by_alias=False,
        protected_namespaces=(),
        defer_build=True,
    )

    required_on_emission: ClassVar[frozenset[str]] = frozenset()
    """Fields our runtime must fill when it writes this shape; on reading each of them may be missing."""

    @model_validator(mode="before")
    @classmethod
    def _one_spelling(cls, data: Any) -> Any:
        """Merge a field given in both spellings, and refuse it if they contradict each other."""
        if not isinstance(data, dict):
            return data
        twice = [name for name in data if name in cls.model_fields and name != camel(name) and camel(name) in data]
        if not twice:
            return data
        for name in twice:
            if data[name] != data[camel(name)]:
                raise ValueError(f"{name} and {camel(name)} contradict each other")
        dropped = {camel(name) for name in twice}
        return {key: value for key, value in data.items() if key not in dropped}

    @model_serializer(mode="wrap")
    def _without_untold(self, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        """Leave out declared fields that are None, and keep unknown ones even when they are null."""
        written: dict[str, Any] = handler(self)
        for name in type(self).model_fields:
            if self.__dict__[name] is None:
                written.pop(camel(name) if info.by_alias else name, None)
        return written

    def emission_problems(self, path: str = "") -> Iterator[str]:
        """Name each field that must be filled before emission and is not, and each value outside its list."""
        for name in sorted(self.required_on_emission):
            if getattr(self, name) is None:
                yield f"{path}{name} is missing"
        for name, allowed in known_values(type(self)).items():
            value = getattr(self, name)
            if value is not None and value not in allowed:
                yield f"{path}{name} is {value!r}, not one of {', '.join(allowed)}"
        for name in type(self).model_fields:
            value = getattr(self, name)
            for inner in value if isinstance(value, tuple) else (value,):
                if isinstance(inner, Shape):
                    yield from inner.emission_problems(f"{path}{name}.")


@cache
def known_values(shape: type[Shape]) -> dict[str, tuple[str, ...]]:
    """The fields of a shape that have a list of known values, with the list."""
    lists = {name: _known_in(field.annotation) for name, field in shape.model_fields.items()}
    return {name: values for name, values in lists.items() if values}


def _known_in(annotation: Any) -> tuple[str, ...]:
    for part in get_args(annotation):
        if isinstance(part, Known):
            return part.values
        if found := _known_in(part):
            return found
    return ()
