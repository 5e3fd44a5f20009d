"""Gemini CLI's chats: `~/.gemini/tmp/<project>/chats/session-*`, lines of messages or, older, one JSON document."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ingest.importers.json_text import moment_ns, table, text_of
from ingest.importers.transcript import About, DocumentTranscript, LineTranscript, Memory

KNOWN = frozenset(
    {"session", "$set", "$rewindTo", "user", "gemini", "info", "error", "warning", "help", "stats", "tool_group"}
)
CHATS = "chats"
MARK = re.compile(rb'^\s*\{[^\n]*"sessionId"\s*:[^\n]*"projectHash"\s*:')
WHOLE = re.compile(rb'"sessionId"\s*:.*"projectHash"\s*:', re.DOTALL)


class GeminiMemory(Memory):
    """The session and the user's message that lines belong to."""

    waits_for_session = True

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.session: str | None = None
        self.turn: str | None = None
        self.agent: str | None = None
        """The subagent whose chat it is; the folder is named after the session that made it."""

    def unnamed(self) -> str | None:
        """Files are named after the beginning of their sessions."""
        return self.path.name.split(".json")[0]

    def note(self, value: dict[str, Any]) -> About:
        """The first line names the session; others are messages, or changes of what was written."""
        if text_of(value.get("sessionId")):
            opens = self.session is None
            self.session = text_of(value.get("sessionId"))
            if value.get("kind") == "subagent":
                self.agent = self.session
                self.session = self.session if self.path.parent.name == CHATS else self.path.parent.name
            return About(
                name="session",
                session=self.session,
                time_ns=moment_ns(value.get("startTime")),
                context=self._context(opens=True) if opens else self._context(),
            )
        changes = next((key for key in ("$set", "$rewindTo") if key in value), None)
        kind = changes or text_of(value.get("type"))
        if kind == "user" and not _answers(value):
            self.turn = text_of(value.get("id"))
        changed = table(value.get("$set")).get("lastUpdated")
        return About(
            kind,
            self.session,
            None,
            moment_ns(value.get("timestamp") or changed),
            context=self._context(turn=self.turn),
        )

    def _context(self, **told: Any) -> dict[str, Any]:
        return {name: value for name, value in (told | {"agent": self.agent}).items() if value is not None}


def _answers(value: dict[str, Any]) -> bool:
    """Whether a user's message only brings results of tools."""
    content = value.get("content")
    return isinstance(content, list) and any("functionResponse" in table(part) for part in content)


class GeminiChat(LineTranscript, name="Gemini CLI chat"):
    """A chat, one line per message or change."""

    format = "gemini"
    service = "gemini-cli"
    known = KNOWN
    memory = GeminiMemory

    def recognises(self, path: Path, head: bytes) -> bool:
        """By its first line."""
        return ".jsonl" in path.name and MARK.search(head) is not None


class GeminiChatDocument(DocumentTranscript, name="Gemini CLI chat (one document)"):
    """A chat as older versions wrote it."""

    format = "gemini"
    service = "gemini-cli"
    known = KNOWN
    memory = GeminiMemory

    def recognises(self, path: Path, head: bytes) -> bool:
        """By its first keys."""
        return path.name.endswith(".json") and head.lstrip()[:1] == b"{" and WHOLE.search(head) is not None

    def parts(self, value: Any) -> Iterator[dict[str, Any]]:
        """What is said about the session, then its messages."""
        whole = table(value)
        yield {key: told for key, told in whole.items() if key != "messages"}
        messages = whole.get("messages")
        yield from (message for message in (messages if isinstance(messages, list) else []) if table(message))
