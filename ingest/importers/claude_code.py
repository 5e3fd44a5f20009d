"""Claude Code's session files: `~/.claude/projects/**/*.jsonl`, its subagents' files, and the notes beside them."""

import re
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ingest.importers.json_text import document, moment_ns, table, text_of
from ingest.importers.transcript import About, DocumentTranscript, LineTranscript, Memory
from models.errors import MalformedInput

KINDS = frozenset(
    {"user", "assistant", "summary", "progress", "queue-operation", "attachment", "file-history-snapshot"}
    | {"last-prompt", "custom-title", "ai-title", "agent-name", "agent-setting", "pr-link", "permission-mode", "mode"}
    | {"tag", "task-summary", "bash_progress", "worktree-state", "content-replacement", "subagent.meta"}
    | {"rate_limit_event"}
)
SYSTEM = frozenset(
    {"compact_boundary", "microcompact_boundary", "stop_hook_summary", "local_command", "status", "api_error"}
    | {"turn_duration", "informational", "away_summary", "memory_saved", "bridge_status", "scheduled_task_fire"}
)
MARK = re.compile(
    rb'"(?:parentUuid|leafUuid)"\s*:|"sessionId"\s*:(?!.*"projectHash")|"type"\s*:\s*"(?:file-history-snapshot|queue-operation|summary)"',
    re.DOTALL,
)
SHAPE = re.compile(
    rb'"type"\s*:\s*"(?:user|assistant)"\s*,.*"message"\s*:\s*\{|"message"\s*:\s*\{.*"type"\s*:', re.DOTALL
)
OTHERS = re.compile(
    rb'"(?:projectHash|run_id|session_id|\$set|resourceSpans|resourceLogs|resourceMetrics|event_?[iI]d)"\s*:'
)
AGENT_FILE = re.compile(r"agent-(?P<agent>[\w-]+?)(?:\.meta)?\.json")
INTERRUPTED = "[Request interrupted by user"
SESSION_FOLDER = "subagents"
FIRST_LINE_BYTES = 1024 * 1024
RECENT_ANSWERS = 64
"""The lines of one answer lie close together."""


class ClaudeCodeMemory(Memory):
    """The session, the turn and the permission mode that lines are in."""

    waits_for_session = True

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.session: str | None = _session_of(path)
        self.turn: str | None = None
        self.mode: str | None = None
        self.opened = False
        self.usages: OrderedDict[str, Any] = OrderedDict()
        self.agents: set[str] = set()

    def unnamed(self) -> str | None:
        """Files are named after their sessions."""
        return self.path.name.split(".jsonl")[0]

    def note(self, value: dict[str, Any]) -> About:
        """A line without a session or turn of its own belongs to those before it."""
        self.session = text_of(value.get("sessionId")) or self.session
        kind, subtype = text_of(value.get("type")), text_of(value.get("subtype"))
        interrupted = kind == "user" and _interrupts(value)
        if kind == "user" and not interrupted:
            self._note_turn(value)
        context: dict[str, Any] = {"turn": self.turn} if self.turn else {}
        if interrupted:
            context["interrupted"] = True
        mode = text_of(value.get("permissionMode"))
        if mode and mode != self.mode:
            context |= {"mode_before": self.mode} if self.mode else {}
            self.mode = mode
        if self._repeats(value):
            context["repeats"] = True
        agent = text_of(table(value.get("data")).get("agentId"))
        if agent and agent not in self.agents:
            self.agents.add(agent)
            context["first_of_agent"] = True
        if not self.opened and text_of(value.get("cwd")) and not value.get("isSidechain"):
            self.opened = context["opens"] = True
        return About(
            name=f"system.{subtype}" if kind == "system" and subtype else kind,
            session=self.session,
            key=text_of(value.get("uuid")),
            time_ns=moment_ns(value.get("timestamp")),
            context=context,
        )

    def _repeats(self, value: dict[str, Any]) -> bool:
        """Whether a line of the same answer has told the same usage: one answer is written as several lines."""
        message = table(value.get("message"))
        answer = text_of(message.get("id"))
        if answer is None or value.get("type") != "assistant":
            return False
        usage = table(message.get("usage")).get("output_tokens")
        known = answer in self.usages and bool(self.usages[answer] == usage)
        self.usages[answer] = usage
        self.usages.move_to_end(answer)
        if len(self.usages) > RECENT_ANSWERS:
            self.usages.popitem(last=False)
        return known

    def _note_turn(self, value: dict[str, Any]) -> None:
        content = table(value.get("message")).get("content")
        answers = isinstance(content, list) and any(table(block).get("type") == "tool_result" for block in content)
        own = not (answers or value.get("isMeta") or value.get("isCompactSummary") or value.get("isSidechain"))
        named = text_of(value.get("promptId"))
        if named or own:
            self.turn = named or text_of(value.get("uuid"))


def _interrupts(value: dict[str, Any]) -> bool:
    """Whether the client notes that the user broke off the turn."""
    content = table(value.get("message")).get("content")
    first = table(content[0]).get("text") if isinstance(content, list) and content else content
    return isinstance(first, str) and first.startswith(INTERRUPTED)


def _session_of(path: Path) -> str | None:
    """A subagent's file lies in a folder named after the session."""
    return path.parent.parent.name if path.parent.name == SESSION_FOLDER else None


class ClaudeCode(LineTranscript, name="Claude Code session"):
    """Sessions, and files of subagents."""

    format = "claude_code"
    service = "claude-code"
    known = KINDS | {f"system.{subtype}" for subtype in SYSTEM}
    memory = ClaudeCodeMemory

    def recognises(self, path: Path, head: bytes) -> bool:
        """By the ids that its lines have, or by the shape of a message."""
        if ".jsonl" not in path.name or head.lstrip(b"\xef\xbb\xbf \r\n\t")[:1] != b"{":
            return False
        return MARK.search(head) is not None or (SHAPE.search(head) is not None and OTHERS.search(head) is None)


class SubagentMemory(Memory):
    """The subagent is told by the file's name, the session by its folder."""

    def note(self, value: dict[str, Any]) -> About:
        """The one note in the file."""
        match = AGENT_FILE.match(self.path.name)
        return About(
            name="subagent.meta",
            session=_session_of(self.path),
            time_ns=self._began_ns(),
            context={"agent": match["agent"]} if match else {},
        )

    def _began_ns(self) -> int | None:
        """The note tells no time; the subagent's own file beside it begins with one."""
        try:
            with self.path.with_name(self.path.name.replace(".meta.json", ".jsonl")).open("rb") as file:
                return moment_ns(document(file.readline(FIRST_LINE_BYTES))[0].get("timestamp"))
        except (OSError, MalformedInput):
            return None


class ClaudeCodeSubagent(DocumentTranscript, name="Claude Code subagent note"):
    """What a subagent was made for: `agent-<id>.meta.json`."""

    format = "claude_code"
    service = "claude-code"
    known = frozenset({"subagent.meta"})
    memory = SubagentMemory

    def recognises(self, path: Path, head: bytes) -> bool:
        """By its name."""
        return path.name.endswith(".meta.json") and AGENT_FILE.match(path.name) is not None and b'"agentType"' in head

    def parts(self, value: Any) -> Iterator[dict[str, Any]]:
        """The one object."""
        yield table(value)
