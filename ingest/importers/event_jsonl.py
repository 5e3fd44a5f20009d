"""Our own events as JSON lines, in snake_case or camelCase, or one event or snapshot as a document."""

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from ingest.importers.importer import Importer, Piece, Problem, numbered_lines
from ingest.importers.json_text import moment_ns, table, text_of
from ingest.importers.transcript import About, DocumentTranscript, Memory, whole_document

EVENT_ID = re.compile(rb'"event_?[iI]d"\s*:')
SNAPSHOT = re.compile(rb'"(?:updatedAt|updated_at)"\s*:')
BODY_BYTES = 1024 * 1024
BODY_LINES = 5000


class EventLines(Importer, name="event lines"):
    """One event envelope per line."""

    def recognises(self, path: Path, head: bytes) -> bool:
        """By the id that every event has."""
        first = head.lstrip(b"\xef\xbb\xbf \r\n\t").split(b"\n", 1)[0]
        return first[:1] == b"{" and EVENT_ID.search(first) is not None and b'"type"' in first

    def read(self, path: Path, content: io.BufferedIOBase, *, after: int = 0) -> Iterator[Piece | Problem]:
        """Neighbouring lines together, up to a bound; blank lines keep the numbers right."""
        lines: list[bytes] = []
        first = last = size = 0
        for line in numbered_lines(content, path):
            if (line.line if isinstance(line, Problem) else line.number) <= after:
                continue
            if isinstance(line, Problem):
                yield line
                continue
            if lines and (size > BODY_BYTES or len(lines) >= BODY_LINES or line.number != last + 1):
                yield Piece("events", "json", b"\n".join(lines), (first, last))
                lines, size = [], 0
            first = first if lines else line.number
            lines.append(line.text)
            last, size = line.number, size + len(line.text)
        if lines:
            yield Piece("events", "json", b"\n".join(lines), (first, last))


class EventDocument(Importer, name="event document"):
    """One event, or a list of them, as a JSON document over several lines."""

    def recognises(self, path: Path, head: bytes) -> bool:
        """By the id that every event has."""
        start = head.lstrip(b"\xef\xbb\xbf \r\n\t")[:1]
        named = EVENT_ID.search(head) is not None and b'"timestamp"' in head and b'"type"' in head
        return path.name.endswith(".json") and start in (b"{", b"[") and named

    def read(self, path: Path, content: io.BufferedIOBase, *, after: int = 0) -> Iterator[Piece | Problem]:
        """The events as lines."""
        value = whole_document(content)
        events = value if isinstance(value, list) else [value]
        for start in range(0, len(events), BODY_LINES):
            body = b"\n".join(map(orjson.dumps, events[start : start + BODY_LINES]))
            yield Piece("events", "json", body, (start + 1, start + body.count(b"\n") + 1))


class SnapshotMemory(Memory):
    """Nothing: there is one document."""

    def note(self, value: dict[str, Any]) -> About:
        """Whose state it is, and as of when."""
        session = text_of(value.get("sessionId")) or text_of(value.get("session_id"))
        moment = moment_ns(value.get("updatedAt") or value.get("updated_at"))
        return About("snapshot", session, None, moment)


class RuntimeSnapshot(DocumentTranscript, name="runtime snapshot"):
    """A read model as a runtime answered it: kept beside the events that must lead to it."""

    format = "agent_runtime_snapshot"
    known = frozenset({"snapshot"})
    memory = SnapshotMemory

    def recognises(self, path: Path, head: bytes) -> bool:
        """By the runtime that answered it and the moment."""
        named = b'"runtimeId"' in head or b'"runtime_id"' in head
        return path.name.endswith(".json") and named and SNAPSHOT.search(head) is not None

    def parts(self, value: Any) -> Iterator[dict[str, Any]]:
        """The one document."""
        yield table(value)
