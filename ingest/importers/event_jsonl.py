"""Our own events as JSON lines, in snake_case or camelCase."""

import io
import re
from collections.abc import Iterator
from pathlib import Path

from ingest.importers.importer import Importer, Piece, Problem, numbered_lines

EVENT_ID = re.compile(rb'"event_?[iI]d"\s*:')
BODY_BYTES = 1024 * 1024
BODY_LINES = 5000


class EventLines(Importer, name="event lines"):
    """One event envelope per line."""

    def recognises(self, path: Path, head: bytes) -> bool:
        """By the id that every event has."""
        first = head.lstrip().split(b"\n", 1)[0]
        return first[:1] == b"{" and EVENT_ID.search(first) is not None and b'"type"' in first

    def read(self, path: Path, content: io.BufferedIOBase) -> Iterator[Piece | Problem]:
        """Neighbouring lines together, up to a bound; blank lines keep the numbers right."""
        lines: list[bytes] = []
        first = last = size = 0
        for line in numbered_lines(content, path):
            if isinstance(line, Problem):
                yield line
                continue
            number, text = line
            if lines and (size > BODY_BYTES or len(lines) >= BODY_LINES or number != last + 1):
                yield Piece("events", "json", b"\n".join(lines), (first, last))
                lines, size = [], 0
            first = first if lines else number
            lines.append(text)
            last, size = number, size + len(text)
        if lines:
            yield Piece("events", "json", b"\n".join(lines), (first, last))
