"""The YAML script of the `scripted` provider: what it says in each turn, checked before anything runs."""

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, JsonValue, ValidationError
from pydantic import model_validator as checked

from models.errors import MalformedInput
from models.shape import Shape
from models.values import LimitState, Usage
from runtime.providers.provider import Category, StopReason


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _pieces(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _nothing_unknown(value: Shape) -> Shape:
    if value.model_extra:
        raise ValueError(f"unknown: {', '.join(sorted(value.model_extra))}")
    problems = list(value.emission_problems())
    if problems:
        raise ValueError("; ".join(problems))
    return value


def _some(value: tuple[Any, ...]) -> tuple[Any, ...]:
    # A length bound of pydantic would also complain where the only item is faulty.
    if not value:
        raise ValueError("at least one is needed")
    return value


def _compiles(value: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"not a regular expression: {error}") from error
    return value


Pieces = Annotated[tuple[str, ...], BeforeValidator(_pieces)]
"""A text: whole, or in the pieces it is streamed in."""

Millis = Annotated[float, Field(ge=0, le=3_600_000)]
ExactUsage = Annotated[Usage, AfterValidator(_nothing_unknown)]
ExactLimit = Annotated[LimitState, AfterValidator(_nothing_unknown)]


class ScriptedCall(_Strict):
    """A tool call the model asks for."""

    name: Annotated[str, Field(min_length=1)]

    arguments: dict[str, JsonValue] | str = Field(default_factory=dict)
    """An object, or the raw text where a model that errs is wanted."""

    id: str | None = None
    """The call's id; made from its place in the conversation if not told."""


class ScriptedError(_Strict):
    """A failure instead of the answer, or in the midst of it."""

    category: Category
    status: Annotated[int, Field(ge=100, le=599)] | None = None
    retry_after_ms: Millis | None = None
    retryable: bool | None = None
    limits: tuple[ExactLimit, ...] = ()
    usage: ExactUsage | None = None

    after_pieces: Annotated[int, Field(ge=0)] = 0
    """How many pieces of the step are sent before it breaks."""

    attempts: Annotated[int, Field(ge=1)] | None = None
    """How many tries of the call fail before one goes through; all of them if not told."""

    models: tuple[str, ...] | None = None
    """The models that fail; all of them if not told."""

    def strikes(self, model: str, attempt_index: int) -> bool:
        """Whether this try of this model fails."""
        return (self.models is None or model in self.models) and (
            self.attempts is None or attempt_index <= self.attempts
        )


class Step(_Strict):
    """One answer of the model."""

    reasoning: Pieces = ()
    reasoning_withheld: bool = False
    """Whether the provider keeps reasoning to itself, and only says that there was some."""

    reasoning_summary: str | None = None
    text: Pieces = ()
    tool_calls: tuple[ScriptedCall, ...] = ()
    stop_reason: StopReason | None = None

    usage: ExactUsage | Literal["counted"] | None = None
    """The tokens; `counted` makes one of every four characters of the request and of the answer."""

    limits: tuple[ExactLimit, ...] = ()
    delay_ms: Millis = 0
    """How long it waits before each piece."""

    error: ScriptedError | None = None

    @checked(mode="after")
    def _says_something(self) -> Self:
        if not (self.text or self.tool_calls or self.error):
            raise ValueError("a step needs text, tool_calls or an error")
        return self


class When(_Strict):
    """Which user text a turn answers."""

    contains: str | None = None
    matches: Annotated[str, AfterValidator(_compiles)] | None = None

    @checked(mode="after")
    def _one_test(self) -> Self:
        if (self.contains is None) == (self.matches is None):
            raise ValueError("give either contains or matches")
        return self

    def fits(self, text: str) -> bool:
        """Whether a user text is meant."""
        if self.contains is not None:
            return self.contains in text
        return re.search(self.matches or "", text) is not None


class ScriptedTurn(_Strict):
    """What is said after one user message, step by step."""

    when: When | None = None
    """The user text it answers; a turn without it answers in its order among those without."""

    steps: Annotated[tuple[Step, ...], AfterValidator(_some)]


class Script(_Strict):
    """A whole script."""

    version: Literal[1] = 1
    model: str | None = None
    """The model that claims to answer; the one asked for if not told."""

    piece_chars: Annotated[int, Field(ge=1)] | None = None
    """Cut texts that are given whole into pieces of this many characters."""

    after_end: Literal["fail", "repeat"] = "fail"
    """What follows when the turns in order are used up: a failure, or the same turns again."""

    turns: Annotated[tuple[ScriptedTurn, ...], AfterValidator(_some)]


def read_script(path: Path) -> Script:
    """A script from a file; every fault is told with its line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MalformedInput(f"cannot be read: {error}", str(path)) from error
    return parse_script(text, str(path))


def parse_script(text: str, source: str) -> Script:
    """A script from its text."""
    try:
        tree = yaml.compose(text, yaml.SafeLoader)
        _refuse_doubled_keys(tree, source)
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{source}:{mark.line + 1}" if mark else source
        raise MalformedInput(f"not YAML: {getattr(error, 'problem', None) or error}", place) from error
    try:
        return Script.model_validate(content)
    except ValidationError as error:
        faults = {_fault(tree, fault["loc"], fault["msg"]): None for fault in error.errors(include_url=False)}
        lines = [f"line {line}: {told}" for line, told in sorted(faults)]
        raise MalformedInput("; ".join(lines), source) from error


def _refuse_doubled_keys(node: yaml.Node | None, source: str) -> None:
    """YAML itself would silently keep the last one."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                raise MalformedInput(f"{key.value} is given twice", f"{source}:{key.start_mark.line + 1}")
            seen.add(key.value)
            _refuse_doubled_keys(value, source)
    elif isinstance(node, yaml.SequenceNode):
        for value in node.value:
            _refuse_doubled_keys(value, source)


def _fault(tree: yaml.Node | None, place: tuple[int | str, ...], message: str) -> tuple[int, str]:
    """The line nearest to a fault, and where it is: `turns[0].steps[1].text`."""
    node, path = tree, ""
    for name in place:
        found = _child(node, name)
        if found is None and not (isinstance(node, yaml.MappingNode) and isinstance(name, str) and _is_field(name)):
            continue  # a branch of a union: part of pydantic's place, not of the file
        path += f"[{name}]" if isinstance(name, int) else f".{name}" if path else name
        if found is None:
            break
        node = found
    line = node.start_mark.line + 1 if node is not None else 1
    return line, f"{path}: {message}" if path else message


def _is_field(name: str) -> bool:
    return any(name in shape.model_fields for shape in (Script, ScriptedTurn, Step, When, ScriptedError, ScriptedCall))


def _child(node: Any, name: int | str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        return next((value for key, value in node.value if key.value == name), None)
    if isinstance(node, yaml.SequenceNode) and isinstance(name, int) and name < len(node.value):
        child: yaml.Node = node.value[name]
        return child
    return None
