"""Actions: whatever a model asks for, by whichever carrier, becomes one of these before anything happens."""

from collections.abc import Iterable, Sequence
from typing import Literal

import orjson
from pydantic import Field

from models.shape import JsonMap, Shape

ResultPolicy = Literal["inline", "summary", "ref"]
"""What of a result the model gets: all that fits, its beginning and end, or only where it is kept."""

FailurePolicy = Literal["continue", "stop_dependents"]
"""What a failure means for the Actions that wait for this one."""

Carrier = Literal["native_tool_call", "declaration", "runner"]
"""How the wish came: by the provider's own tool calls, as a declaration in the answer, or from a runner."""


class ExecutorNamed(Shape):
    """Who carries an Action out."""

    type: str = "tool"
    target: str
    """The tool, agent or service, by its name."""

    capabilities: tuple[str, ...] = ()
    """What it has to be able to do, where the target is to be chosen."""


class Origin(Shape):
    """Where an Action comes from."""

    carrier: Carrier = "native_tool_call"
    recovered: bool = False
    """Whether it was read out of something that was not quite right, such as arguments in broken JSON."""

    provider_call_id: str | None = None
    """The provider's own name of the call; the answer has to repeat it."""


class Resources(Shape):
    """What an Action reads and writes, as paths in the workspace; `.` is all of it."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


class Action(Shape):
    """One thing to be done."""

    id: str
    title: str
    operation: str
    """What is to be done: the name of the tool for tools."""

    executor: ExecutorNamed
    input: JsonMap = Field(default_factory=dict)
    depends_on: tuple[str, ...] = ()
    """Actions that have to end first."""

    result_policy: ResultPolicy = "inline"
    failure_policy: FailurePolicy = "continue"
    persist: bool = True
    """Whether the result is kept after the turn."""

    origin: Origin = Origin()
    resources: Resources = Resources()
    fault: str | None = None
    """Why it cannot be carried out as it was asked for."""


def action_id(model_request_id: str, index: int) -> str:
    """The name of an Action: it follows from the answer it came in, so that it is the same after a restart."""
    return f"{model_request_id}.a{index}"


def call_id(action: str, attempt: int) -> str:
    """The name of a call that carries out an Action; it may take more than one."""
    return f"{action}.c{attempt}"


def parse_arguments(text: str) -> tuple[JsonMap, bool, str | None]:
    """Arguments as the model wrote them, whether they had to be mended, and what is wrong with them if they cannot."""
    stripped = text.strip()
    if not stripped:
        return {}, False, None
    recovered = False
    try:
        found = orjson.loads(stripped)
    except orjson.JSONDecodeError as problem:
        mended = mend(stripped)
        if mended is None:
            return {}, False, f"the arguments are not valid JSON: {problem}"
        found, recovered = mended, True
    if isinstance(found, str):  # some models encode the object twice
        try:
            found, recovered = orjson.loads(found), True
        except orjson.JSONDecodeError:
            return {}, False, "the arguments are a text, not a JSON object"
    if not isinstance(found, dict):
        return {}, False, "the arguments are not a JSON object"
    return found, recovered, None


def mend(text: str) -> JsonMap | None:
    """An object that lost its closing braces or has bare control characters in its texts; None if it stays broken."""
    escaped = _escape_controls(text)
    for closing in ("", "}", '"}', "]}", "}}", '"]}', '"}}'):
        try:
            found = orjson.loads(escaped + closing)
        except orjson.JSONDecodeError:
            continue
        return found if isinstance(found, dict) else None
    return None


def _escape_controls(text: str) -> str:
    """Control characters inside texts as JSON wants them; those between tokens stay as they are."""
    told: list[str] = []
    inside = escaped = False
    for character in text:
        if inside and character < " ":
            told.append(f"\\u{ord(character):04x}")
            escaped = False
            continue
        if character == '"' and not escaped:
            inside = not inside
        escaped = inside and character == "\\" and not escaped
        told.append(character)
    return "".join(told)


def ordered(actions: Sequence[Action]) -> tuple[Action, ...]:
    """The Actions of one answer, each waiting for those before it that touch what it touches.

    So a file is read after it was written if the model asked in that order, and nothing else waits for anything.
    """
    placed: list[Action] = []
    for action in actions:
        before = [other.id for other in placed if _conflict(other.resources, action.resources)]
        told = tuple(dict.fromkeys((*action.depends_on, *before)))
        placed.append(action.model_copy(update={"depends_on": told}))
    return tuple(placed)


def _conflict(first: Resources, second: Resources) -> bool:
    return (
        _overlap(first.write, second.read)
        or _overlap(first.write, second.write)
        or _overlap(first.read, second.write)
    )  # fmt: skip


def _overlap(some: Iterable[str], others: Iterable[str]) -> bool:
    return any(_contains(one, other) or _contains(other, one) for one in some for other in others)


def _contains(folder: str, path: str) -> bool:
    return folder in (".", path) or path.startswith(folder.rstrip("/") + "/")
