"""One command: its name, what it takes, what it gives, and who carries it out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from models.errors import InvalidCommand, NotSupported

if TYPE_CHECKING:
    from runtime.runtime import Runtime

MAX_REQUEST_BYTES = 4 * 1024 * 1024
"""The largest command, in bytes of JSON; larger input belongs into a file of the workspace."""

Effect = Literal["writes", "reads"]


class Asked(BaseModel):
    """What a command takes. Unknown fields are refused: a misspelt option must not be ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True)


class Mutation(Asked):
    """What a command takes that changes something."""

    idempotency_key: str | None = Field(default=None, min_length=1, max_length=200)
    """The caller's name for this request: the same key with the same content is carried out once."""


class Answer(BaseModel):
    """What a command gives."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


class Anything(Asked):
    """The input of a command that is not carried out yet; any field is taken."""

    model_config = ConfigDict(frozen=True, extra="allow")


class Nothing(Answer):
    """The answer of a command that is not carried out yet: there is none."""


Handler = Callable[["Runtime", Any], Awaitable[BaseModel]]


@dataclass(frozen=True)
class Command:
    """A line of the table."""

    name: str
    asks: type[Asked]
    answers: type[BaseModel]
    handler: Handler
    effect: Effect
    summary: str
    supported: bool = True

    def parse(self, content: Any) -> Asked:
        """The request that a JSON object makes; raises InvalidCommand with each fault, without the content itself.

        Nothing is converted: a number in quotes is not a number.
        """
        try:
            text = orjson.dumps(content, default=_plain)
        except orjson.JSONEncodeError as error:
            raise InvalidCommand(self.name, [f"the request cannot be JSON: {error}"]) from None
        if len(text) > MAX_REQUEST_BYTES:
            raise InvalidCommand(self.name, [f"the request is larger than {MAX_REQUEST_BYTES} bytes"])
        try:
            return self.asks.model_validate_json(text)
        except ValidationError as error:
            lines = error.errors(include_url=False, include_input=False, include_context=False)
            faults = [".".join(str(part) for part in line["loc"]) + f": {line['msg']}" for line in lines]
            raise InvalidCommand(self.name, faults) from None


def _plain(value: Any) -> Any:
    """Shapes of ours that a caller in Python passes as they are."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", exclude_none=True)
    raise TypeError(f"{type(value).__name__} is not JSON")


TABLE: dict[str, Command] = {}
"""The commands by name, in the order of their declaration."""


def command(asks: type[Asked], answers: type[BaseModel], *, effect: Effect) -> Callable[[Handler], Handler]:
    """Enter a handler into the table under its own name; its docstring is the summary."""

    def enter(handler: Handler) -> Handler:
        name = handler.__name__
        if name in TABLE:
            raise TypeError(f"command {name!r} is declared twice")
        TABLE[name] = Command(name, asks, answers, handler, effect, (handler.__doc__ or "").strip().splitlines()[0])
        return handler

    return enter


def not_supported(name: str, summary: str, effect: Effect) -> None:
    """Enter a command that has its place and is honestly refused."""

    async def refuse(_: Runtime, __: Any) -> BaseModel:
        raise NotSupported(name)

    TABLE[name] = Command(name, Anything, Nothing, refuse, effect, summary, supported=False)
