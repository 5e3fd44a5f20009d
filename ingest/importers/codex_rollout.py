"""Codex's session files: `~/.codex/sessions/**/rollout-*.jsonl`, also compressed, old and new kinds of lines."""

import re
from collections.abc import Iterator
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from ingest.importers.importer import Problem, numbered_lines, opened
from ingest.importers.json_text import document, moment_ns, table, text_of
from ingest.importers.transcript import About, LineTranscript, Memory
from models.errors import MalformedInput

LINE_TYPES = frozenset(
    {"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state", "token_usage_record"}
    | {"security_risk_score", "inter_agent_communication", "inter_agent_communication_metadata"}
)
ITEMS = frozenset(
    {"message", "agent_message", "reasoning", "local_shell_call", "function_call", "function_call_output", "compaction"}
    | {"custom_tool_call", "custom_tool_call_output", "tool_search_call", "tool_search_output", "web_search_call"}
    | {"image_generation_call", "context_compaction", "ghost_snapshot", "compaction_summary", "other"}
)
MESSAGES = frozenset(
    {"token_count", "task_started", "task_complete", "turn_started", "turn_complete", "turn_aborted", "item_completed"}
    | {"thread_rolled_back", "thread_settings_applied", "thread_goal_updated", "user_message", "agent_message"}
    | {"agent_reasoning", "agent_reasoning_raw_content", "agent_reasoning_section_break", "context_compacted"}
    | {"patch_apply_end", "mcp_tool_call_end", "web_search_end", "exec_command_end", "entered_review_mode"}
    | {"exited_review_mode", "item_started", "thread_name_updated", "undo_completed", "image_generation_end"}
    | {
        "view_image_tool_call",
        "sub_agent_activity",
        "collab_agent_spawn_end",
        "collab_waiting_end",
        "session_configured",
    }
)
KNOWN = (
    (LINE_TYPES - {"response_item", "event_msg"})
    | {f"response_item.{kind}" for kind in ITEMS}
    | {f"event_msg.{kind}" for kind in MESSAGES}
    | {"state"}
)
MARK = re.compile(rb'"type"\s*:\s*"(?:session_meta|response_item|event_msg|turn_context)"')
OLD_MARK = re.compile(rb'"record_type"\s*:\s*"state"|"type"\s*:\s*"(?:function_call|reasoning|message)"')
COUNTERS = (
    *("input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens"),
    *("reasoning_output_tokens", "total_tokens"),
)
SPAWN = "spawn_agent"
PARENT_LINES = 1_000_000
"""A parent's file is read this far to know what of it a fork repeats."""

Totals = dict[str, int]


class CodexMemory(Memory):
    """The thread, its turn and model, how far its token counter is, and whether lines are still the parent's."""

    waits_for_session = True

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.session: str | None = None
        self.thread: str | None = None
        self.turn: str | None = None
        self.model: str | None = None
        self.provider: str | None = None
        self.totals: Totals = {}
        self.inherited = False
        """Whether the lines so far are a copy of the parent's."""

        self.agent: str | None = None
        """The thread, if another agent made it."""

        self.policy: dict[str, str] = {}
        self.spawns: set[str] = set()
        """Calls that make an agent and have not returned."""

        self.began_ns: int | None = None
        self.first_own: int | None = None
        self.parents: set[bytes] = set()

    def unnamed(self) -> str | None:
        """Files are named after their threads."""
        return thread_of(self.path) or self.path.name.split(".jsonl")[0]

    def note(self, value: dict[str, Any]) -> About:
        """A line of the thread; those that only repeat the parent's history are marked."""
        kind, payload = unfolded(value)
        time_ns = moment_ns(value.get("timestamp"))
        opens = kind == "session_meta" and self.thread is None
        if opens:
            self._open(value, payload)
        else:
            self.inherited = self.inherited and self._is_inherited(value, kind, payload, time_ns)
        context = self._context(kind, payload)
        if opens:
            context["opens"] = True
        elif self.inherited:
            context["inherited"] = True
        return About(kind_of(kind, payload), self.session, None, time_ns, None, {}, context)

    def _open(self, value: dict[str, Any], payload: dict[str, Any]) -> None:
        self.thread = text_of(payload.get("id")) or text_of(payload.get("session_id")) or thread_of(self.path)
        # Not its `session_id`: a thread that another made shares it, and telemetry knows threads only.
        self.session = self.thread
        self.provider = text_of(payload.get("model_provider"))
        self.began_ns = moment_ns(value.get("timestamp"))
        start = payload.get("subagent_history_start_ordinal")
        self.first_own = start if isinstance(start, int) else None
        made_by = maker(payload)
        parent = text_of(payload.get("forked_from_id")) or made_by
        if made_by or "subagent" in table(payload.get("source")):
            self.agent = self.thread
        if parent or self.first_own or payload.get("history_base"):
            self.inherited = True
            self.parents = set(_digests(self.path, parent)) if parent else set()

    def _is_inherited(self, value: dict[str, Any], kind: str, payload: dict[str, Any], time_ns: int | None) -> bool:
        ordinal = value.get("ordinal")
        if self.first_own is not None and isinstance(ordinal, int):
            return ordinal < self.first_own
        other_thread = payload.get("thread_id") or (payload.get("id") if kind == "session_meta" else None)
        if other_thread is not None and other_thread != self.thread:
            return True
        if self.parents:
            return digest(payload) in self.parents
        return time_ns is not None and self.began_ns is not None and time_ns < self.began_ns

    def _context(self, kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        if kind == "turn_context":
            self.model = text_of(payload.get("model")) or self.model
        settings = table(payload.get("thread_settings"))
        self.model = text_of(settings.get("model")) or self.model
        if kind != "response_item":
            self.turn = text_of(payload.get("turn_id")) or self.turn
        context: dict[str, Any] = {"thread": self.thread, "turn": self.turn, "agent": self.agent}
        if kind == "turn_context" and (now := policy(payload)) != self.policy:
            context |= {"policy": now, "policy_before": self.policy or None}
            self.policy = now
        if kind == "response_item" and self._spawns(payload):
            context["spawns"] = True
        if kind == "token_usage_record" or payload.get("type") == "token_count":
            context |= {"model": self.model, "provider": self.provider, "before": self._advance(kind, payload)}
        return {name: told for name, told in context.items() if told is not None}

    def _spawns(self, payload: dict[str, Any]) -> bool:
        """Whether a line is what a call that makes an agent returned."""
        call_id = text_of(payload.get("call_id"))
        if call_id and payload.get("type") == "function_call" and payload.get("name") == SPAWN:
            self.spawns.add(call_id)
        elif call_id in self.spawns and payload.get("type") == "function_call_output":
            self.spawns.discard(call_id)
            return True
        return False

    def _advance(self, kind: str, payload: dict[str, Any]) -> Totals | None:
        """The counter before this line, while moving it on."""
        before = self.totals
        info = payload if kind == "token_usage_record" else table(payload.get("info"))
        now = counters(info.get("thread_token_usage") or info.get("total_token_usage"))
        if now:
            self.totals = now
        return before or None


def maker(payload: dict[str, Any]) -> str | None:
    """The thread whose agent made this one, as a session's head tells it."""
    spawned = table(table(table(payload.get("source")).get("subagent")).get("thread_spawn"))
    return text_of(spawned.get("parent_thread_id")) or text_of(payload.get("parent_thread_id"))


def policy(payload: dict[str, Any]) -> dict[str, str]:
    """What a turn may do: who approves, and the boundary it runs in."""
    sandbox = payload.get("sandbox_policy")
    mode = text_of(sandbox) or text_of(table(sandbox).get("type")) or text_of(table(sandbox).get("mode"))
    told = {"approval_policy": text_of(payload.get("approval_policy")), "sandbox_mode": mode}
    return {name: value for name, value in told.items() if value}


def unfolded(value: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind and the payload of a line; the oldest versions wrote items and the session's head bare."""
    if isinstance(value.get("payload"), dict):
        return text_of(value.get("type")) or "", value["payload"]
    kind = text_of(value.get("type"))
    if kind in ITEMS:
        return "response_item", value
    if kind is None and "record_type" not in value and text_of(value.get("id")):
        return "session_meta", value
    return kind or text_of(value.get("record_type")) or "", value


def kind_of(kind: str, payload: dict[str, Any]) -> str | None:
    """The name of a line: its type, and for items and messages what they are."""
    inner = text_of(payload.get("type"))
    if kind in ("response_item", "event_msg"):
        if kind == "response_item" and inner is None and payload.get("role"):
            inner = "message"
        return f"{kind}.{inner}" if inner else kind
    return kind or None


def counters(usage: Any) -> Totals:
    """The counts of a usage, those that are numbers."""
    return {name: count for name in COUNTERS if isinstance(count := table(usage).get(name), int)}


def digest(payload: dict[str, Any]) -> bytes:
    """Tells whether two lines say the same, whenever they were written."""
    return blake2b(orjson.dumps(payload, option=orjson.OPT_SORT_KEYS), digest_size=8).digest()


def thread_of(path: Path) -> str | None:
    """The thread named by a file: rollout-<time>-<thread>.jsonl."""
    match = re.search(r"rollout-[\dT-]{19}-(.+?)\.jsonl", path.name)
    return match[1] if match else None


def _digests(path: Path, thread: str) -> Iterator[bytes]:
    """What the parent's file says, if it can be found among the sessions."""
    roots = [folder for folder in path.parents if folder.name in ("sessions", "archived_sessions")] or [path.parent]
    if re.fullmatch(r"[\w-]+", thread) is None:
        return
    for found in islice(roots[0].rglob(f"rollout-*{thread}.jsonl*"), 1):
        with opened(found) as content:
            for line in islice(numbered_lines(content, found), PARENT_LINES):
                if isinstance(line, Problem):
                    continue
                try:
                    yield digest(unfolded(document(line.text)[0])[1])
                except MalformedInput:
                    continue  # it is reported when that file is imported


class CodexRollout(LineTranscript, name="Codex rollout"):
    """Threads of Codex."""

    format = "codex"
    service = "codex"
    known = KNOWN
    memory = CodexMemory

    def recognises(self, path: Path, head: bytes) -> bool:
        """By the kinds of its lines; the oldest only together with its name."""
        if head.lstrip(b"\xef\xbb\xbf \r\n\t")[:1] != b"{":
            return False
        if MARK.search(head) is not None and b'"payload"' in head:
            return True
        return path.name.startswith("rollout-") and (OLD_MARK.search(head) is not None or b'"instructions"' in head)
