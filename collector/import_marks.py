"""How far each file has been imported, so that the next import goes on from there."""

import os
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import orjson

from collector.home import Home

HEAD_BYTES = 1024


@dataclass(frozen=True, slots=True)
class Mark:
    """A file as it was when it was imported."""

    size: int
    mtime_ns: int
    head: str
    """A digest of its beginning: another file may have taken its place."""

    lines: int
    """The last whole line that is in the journal."""


class Marks:
    """The marks of a home folder. They only save work: without them an import stores nothing twice either."""

    def __init__(self, home: Home, journal_position: int) -> None:
        self._path = home.path / "imports.json"
        self._marks: dict[str, Mark] = {}
        self._changed = False
        try:
            told: dict[str, Any] = orjson.loads(self._path.read_bytes())
            # A journal that ends before the one they were made for is another one.
            if told["position"] <= journal_position:
                self._marks = {name: Mark(*mark) for name, mark in told["files"].items()}
        except (FileNotFoundError, orjson.JSONDecodeError, KeyError, TypeError):
            self._marks = {}

    def unchanged(self, path: Path) -> bool:
        """Whether the file is exactly as it was when all of it was imported."""
        mark, now = self._marks.get(str(path.resolve())), path.stat()
        return mark is not None and (mark.size, mark.mtime_ns) == (now.st_size, now.st_mtime_ns)

    def done_lines(self, path: Path) -> int:
        """How many lines of the file are imported: none if it was cut or replaced."""
        mark = self._marks.get(str(path.resolve()))
        if mark is None or path.stat().st_size < mark.size or _head(path, mark.size) != mark.head:
            return 0
        return mark.lines

    def note(self, path: Path, lines: int, seen: os.stat_result, *, whole: bool) -> None:
        """Remember how far a file is imported; `whole` if up to the end it had when `seen`, before it was read."""
        mtime_ns = seen.st_mtime_ns if whole else 0
        self._marks[str(path.resolve())] = Mark(seen.st_size, mtime_ns, _head(path, seen.st_size), lines)
        self._changed = True

    def save(self, journal_position: int) -> None:
        """Write the marks, all at once."""
        if not self._changed:
            return
        files = {name: [mark.size, mark.mtime_ns, mark.head, mark.lines] for name, mark in self._marks.items()}
        fresh = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        fresh.write_bytes(orjson.dumps({"position": journal_position, "files": files}))
        fresh.replace(self._path)
        self._changed = False


def _head(path: Path, size: int) -> str:
    with path.open("rb") as file:
        return blake2b(file.read(min(size, HEAD_BYTES)), digest_size=8).hexdigest()
