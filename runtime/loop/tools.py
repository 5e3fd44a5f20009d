"""The built-in tools: what each takes, what it touches, and who carries it out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from models.governance_values import ToolEntry
from models.shape import JsonMap
from runtime.loop import file_tools, write_tools
from runtime.loop.action import Action, ExecutorNamed, Origin, Resources, ResultPolicy, parse_arguments
from runtime.loop.progress import Report
from runtime.loop.workspace import ToolFault, Workspace
from runtime.loop.write_tools import Change
from runtime.providers.provider import ToolCallPart, ToolSpec

ASK_USER = "ask_user"
MEMORY = "session.memory"
"""What a tool is capable of whose result is a note for the rest of the session."""

TITLE_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class Observation:
    """What came of an Action."""

    text: str
    change: Change | None = None


class Executor(Protocol):
    """Something that carries out Actions of one executor type: tools here, agents and runners elsewhere."""

    async def execute(self, action: Action, report: Report) -> Observation:
        """Do it, reporting how far it is; raises ToolFault if it cannot be done."""


class Arguments(BaseModel):
    """What a tool takes; unknown arguments are refused, so that the model learns the right ones."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


FilePath = Annotated[str, Field(min_length=1, max_length=4_096)]


class ReadFile(Arguments):
    """Read a text file of the workspace, whole or some of its lines."""

    path: FilePath
    """The file, from the workspace's root."""

    start_line: int = Field(default=1, ge=1)
    """The first line to read, from 1."""

    line_count: int | None = Field(default=None, ge=1, le=file_tools.READ_LINES)
    """How many lines to read; left out, as many as fit."""


class ListFiles(Arguments):
    """List what a folder of the workspace holds."""

    path: FilePath = "."
    """The folder, from the workspace's root."""


class Glob(Arguments):
    """Find files by their path: `*` and `?` stay within a folder, `**` reaches through folders, `{a,b}` is either."""

    pattern: str = Field(min_length=1)
    """The pattern, such as `**/*.py`."""

    path: FilePath = "."
    """The folder to search."""


class Grep(Arguments):
    """Find lines in files by a regular expression (RE2 syntax)."""

    pattern: str = Field(min_length=1)
    """The expression."""

    path: FilePath = "."
    """The file or folder to search."""

    glob: str | None = None
    """Only files whose path fits this pattern."""

    ignore_case: bool = False
    """Whether upper and lower case are the same."""


class WriteFile(Arguments):
    """Write a text file of the workspace, replacing it if it is there; folders are made as needed."""

    path: FilePath
    """The file, from the workspace's root."""

    content: str
    """The whole new content."""


class EditFile(Arguments):
    """Replace a text in a file by another; the old text has to be in the file exactly once."""

    path: FilePath
    """The file, from the workspace's root."""

    old_text: str
    """The text to replace, exactly as it is in the file."""

    new_text: str
    """What takes its place."""

    replace_all: bool = False
    """Replace every place where the old text is."""


class Remember(Arguments):
    """Keep a note for the rest of the session: you see it in every later turn, whatever is summed up meanwhile."""

    note: str = Field(min_length=1, max_length=2_000)
    """What must not be forgotten: a wish, a decision, a fact that took work to find out."""


class AskUser(Arguments):
    """Ask the person a question and wait for the answer."""

    question: str = Field(min_length=1, max_length=4_000)
    """The question, in plain words."""

    choices: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = Field(default=(), max_length=20)
    """Answers to choose from; left out, any answer may be given."""


@dataclass(frozen=True)
class Tool:
    """One built-in tool."""

    name: str
    takes: type[Arguments]
    run: Callable[[Workspace, Any, Report], Observation] | None
    """None: a person carries it out."""

    capabilities: tuple[str, ...]
    item_kind: str = "function_call"
    is_read_only: bool = True
    is_destructive: bool = False
    is_concurrency_safe: bool = True
    result_policy: ResultPolicy = "inline"
    policy_when_allowed: str = "allowed"

    @property
    def description(self) -> str:
        """What it does, for the model."""
        return (self.takes.__doc__ or "").strip()

    @property
    def input_schema(self) -> JsonMap:
        """JSON Schema of its arguments."""
        return _schema_of(self.takes)

    def parse(self, content: JsonMap) -> Arguments:
        """The arguments as the tool takes them; raises ToolFault with each fault."""
        try:
            return self.takes.model_validate(content)
        except ValidationError as error:
            lines = error.errors(include_url=False, include_input=False, include_context=False)
            faults = "; ".join(".".join(map(str, line["loc"])) + f": {line['msg']}" for line in lines)
            raise ToolFault("invalid_arguments", f"{self.name}: {faults}") from None


def _untitled(schema: Any) -> Any:
    """A schema without the titles that pydantic adds: they cost tokens and say nothing."""
    if isinstance(schema, dict):
        return {
            name: {key: _untitled(one) for key, one in value.items()} if name == "properties" else _untitled(value)
            for name, value in schema.items()
            if name != "title"
        }
    return [_untitled(one) for one in schema] if isinstance(schema, list) else schema


def _read(workspace: Workspace, asked: ReadFile, _: Report) -> Observation:
    return Observation(file_tools.read_file(workspace, asked.path, asked.start_line, asked.line_count))


def _list(workspace: Workspace, asked: ListFiles, _: Report) -> Observation:
    return Observation(file_tools.list_files(workspace, asked.path))


def _glob(workspace: Workspace, asked: Glob, report: Report) -> Observation:
    return Observation(file_tools.glob(workspace, asked.pattern, asked.path, report=report))


def _grep(workspace: Workspace, asked: Grep, report: Report) -> Observation:
    found = file_tools.grep(workspace, asked.pattern, asked.path, asked.glob, asked.ignore_case, report=report)
    return Observation(found)


def _write(workspace: Workspace, asked: WriteFile, _: Report) -> Observation:
    return Observation(*write_tools.write_file(workspace, asked.path, asked.content))


def _edit(workspace: Workspace, asked: EditFile, _: Report) -> Observation:
    return Observation(*write_tools.edit_file(workspace, asked.path, asked.old_text, asked.new_text, asked.replace_all))


def _remember(_: Workspace, asked: Remember, __: Report) -> Observation:
    return Observation(asked.note)


def _writer(name: str, takes: type[Arguments], run: Callable[[Workspace, Any, Report], Observation]) -> Tool:
    return Tool(
        name, takes, run, ("file.write",), item_kind="file_change", is_read_only=False, is_destructive=True,
        is_concurrency_safe=False, policy_when_allowed="ask",
    )  # fmt: skip


BUILT_IN: tuple[Tool, ...] = (
    Tool("read_file", ReadFile, _read, ("file.read",)),
    Tool("list_files", ListFiles, _list, ("file.read",)),
    Tool("glob", Glob, _glob, ("file.search",)),
    Tool("grep", Grep, _grep, ("file.search",)),
    _writer("write_file", WriteFile, _write),
    _writer("edit_file", EditFile, _edit),
    Tool("remember", Remember, _remember, (MEMORY,)),
    Tool(ASK_USER, AskUser, None, ("human.question",)),
)


class Tools:
    """The tools of one workspace, and the executor of Actions of type `tool`."""

    def __init__(self, workspace: Path, closed: tuple[Path, ...] = ()) -> None:
        self.workspace = Workspace(workspace, closed)
        self._tools = {tool.name: tool for tool in BUILT_IN}
        self._writing = asyncio.Lock()
        self._specs = tuple(
            ToolSpec(name=tool.name, description=tool.description, input_schema=tool.input_schema) for tool in BUILT_IN
        )

    def find(self, name: str | None) -> Tool | None:
        """The tool of that name."""
        return self._tools.get(name or "")

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model is told of them."""
        return self._specs

    def entries(self, *, policy: str, mode: str, sandbox: str = "workspace_write") -> tuple[ToolEntry, ...]:
        """The inventory for an approval policy (`ask` or `deny`) and a mode (`interactive` or `non_interactive`)."""
        return tuple(self._entry(tool, policy, mode, sandbox) for tool in BUILT_IN)

    @staticmethod
    def _entry(tool: Tool, policy: str, mode: str, sandbox: str) -> ToolEntry:
        allowed = tool.policy_when_allowed
        if not tool.is_read_only and (policy == "deny" or mode != "interactive" or sandbox == "read_only"):
            allowed = "denied"
        if tool.run is None and mode != "interactive":
            allowed = "unavailable"
        return ToolEntry(
            tool_name=tool.name,
            description=tool.description,
            input_schema=tool.input_schema,
            capabilities=tool.capabilities,
            policy=allowed,
            runtime_owner="local",
            is_read_only=tool.is_read_only,
            is_concurrency_safe=tool.is_concurrency_safe,
            is_destructive=tool.is_destructive,
            interrupt_behavior="stops" if tool.is_read_only else "finishes",
        )

    # --- Actions -----------------------------------------------------------------------------------------------

    def action(self, part: ToolCallPart, name: str) -> Action:
        """The Action that a native tool call of a provider is."""
        found, recovered, fault = parse_arguments(part.arguments)
        tool = self.find(part.name)
        if tool is None:
            fault = f"there is no tool {part.name[:100]}; there are {', '.join(self._tools)}"
        elif fault is None:
            try:
                tool.parse(found)
            except ToolFault as problem:
                fault = problem.message
        origin = Origin(carrier="native_tool_call", recovered=recovered, provider_call_id=part.call_id)
        return Action(
            id=name,
            title=self._title(part.name, found),
            operation=part.name,
            executor=ExecutorNamed(type="tool", target=part.name, capabilities=tool.capabilities if tool else ()),
            input=found,
            result_policy=tool.result_policy if tool else "inline",
            origin=origin,
            resources=self._resources(tool, found) if fault is None else Resources(),
            fault=fault,
        )

    @staticmethod
    def _title(name: str, found: JsonMap) -> str:
        about = next((found[key] for key in ("path", "pattern", "question") if isinstance(found.get(key), str)), "")
        return f"{name} {about}".strip()[:TITLE_CHARACTERS]

    def _resources(self, tool: Tool | None, found: JsonMap) -> Resources:
        if tool is None or tool.run is None or MEMORY in tool.capabilities:
            return Resources()
        path = self.workspace.name(str(found.get("path") or "."))
        return Resources(read=(path,)) if tool.is_read_only else Resources(write=(path,))

    async def execute(self, action: Action, report: Report) -> Observation:
        """Carry out an Action with a built-in tool; files are written one after the other."""
        tool = self.find(action.executor.target)
        if action.fault is not None or tool is None or tool.run is None:
            raise ToolFault("invalid_arguments", action.fault or f"{action.executor.target} cannot be executed")
        asked = tool.parse(action.input)
        try:
            if tool.is_concurrency_safe:
                return await asyncio.to_thread(tool.run, self.workspace, asked, report)
            async with self._writing:
                return await asyncio.to_thread(tool.run, self.workspace, asked, report)
        except OSError as problem:
            raise ToolFault("io_error", f"{tool.name}: {problem.strerror or type(problem).__name__}") from problem


@cache
def _schema_of(takes: type[Arguments]) -> JsonMap:
    schema = takes.model_json_schema()
    found: JsonMap = _untitled({name: value for name, value in schema.items() if name != "description"})
    return found
