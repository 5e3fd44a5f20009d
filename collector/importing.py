"""Bringing files into the record: the same checks and masking as for what comes over the wire."""

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from collector.home import Home
from collector.import_marks import Marks
from ingest.event_check import check_lines
from ingest.file_lines import KIND as FILE_KIND
from ingest.file_lines import FileLine, check_packed
from ingest.importers import Importer, Line, LineTranscript, Piece, Problem, importer_for
from ingest.importers.importer import NotRecognised, numbered_lines, opened
from ingest.importers.transcript import Reading
from ingest.otlp.check import Checked, check
from journal import Entry, Journal
from models.errors import MalformedInput, TachographError
from models.redaction import Redactor

SAVE_SECONDS = 5.0
"""Marks are written this often, so that an interrupted import of large files goes on near where it stopped."""

COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xff\xfe", b"\xfe\xff")
"""Files that begin so are read from the start each time."""

MAX_PROBLEMS = 10_000


@dataclass(slots=True)
class Imported:
    """What came of an import."""

    files: int = 0
    unchanged: int = 0
    """Files that had been imported before and have not changed since."""

    items: int = 0
    redactions: int = 0
    position: int = 0
    """The last journal position written."""

    problems: list[Problem] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    """Lines of kinds that we do not know, by format and kind; they are in the record like the others."""

    def add_problem(self, problem: Problem) -> None:
        """Keep a problem; of very many only the first."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)


def files_in(paths: tuple[Path, ...]) -> list[Path]:
    """The files named, and those in the folders named, that some importer might read; in a folder the oldest first.

    A session that goes on in another file repeats lines of the earlier one: the original is to come first.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = [inner for inner in path.rglob("*") if inner.is_file() and not inner.name.startswith(".")]
            found += sorted(inside, key=lambda inner: (inner.stat().st_mtime_ns, inner))
        else:
            found.append(path)
    return found


class Import:
    """An import into a home folder: files are journaled one after the other; what is bad costs itself."""

    def __init__(self, home: Home, journal: Journal, told: Callable[[int], None]) -> None:
        self.done = Imported()
        self._journal = journal
        self._redactor = Redactor(home.redaction_key())
        self._marks = Marks(home, journal.last_position())
        self._told = told
        self._saved_at = time.monotonic()
        self._following: dict[Path, _Followed] = {}
        self._passed_over: dict[Path, tuple[int, int]] = {}
        """Files that nobody recognised, as they were when looked at."""

    @classmethod
    @contextmanager
    def into(cls, home: Home, told: Callable[[int], None] = lambda _: None) -> Iterator[Self]:
        """Open the home's journal for an import; `told` gets the bytes that were dealt with."""
        home.make()
        with Journal(home.journal, compress=False) as journal:
            running = cls(home, journal, told)
            try:
                yield running
            finally:
                running.save()

    def file(self, path: Path, *, strict: bool) -> None:
        """Journal a file, or what is new in it. With `strict` it is a problem if no importer recognises it."""
        size = 0
        try:
            size = path.stat().st_size
            if self._marks.unchanged(path):
                self.done.unchanged += 1
                return
            self._read(path, importer_for(path))
            self.done.files += 1
        except NotRecognised as problem:
            if strict:
                self.done.add_problem(Problem(path, 1, problem.reason))
        except MalformedInput as problem:
            self.done.add_problem(Problem(path, 1, problem.reason))
        except (OSError, EOFError) as problem:
            self.done.add_problem(Problem(path, 1, str(problem)))
        finally:
            self._told(size)

    def _read(self, path: Path, importer: Importer) -> None:
        seen = path.stat()
        lines = self._marks.done_lines(path) if isinstance(importer, LineTranscript) else 0
        with opened(path) as content:
            for piece in importer.read(path, content, after=lines):
                if isinstance(piece, Problem):
                    self.done.add_problem(piece)
                    continue
                self._keep(path, piece)
                lines = max(lines, piece.lines[1])
                if time.monotonic() - self._saved_at > SAVE_SECONDS:
                    self._marks.note(path, lines, seen, whole=False)
                    self.save()
        self._marks.note(path, lines, seen, whole=True)

    def _keep(self, path: Path, piece: Piece) -> None:
        entry = self._entry(path, piece)
        if entry is not None:
            self.done.position = self._journal.append(entry)[-1]

    def follow(self, path: Path) -> bool:
        """Journal what was added to a file since it was last looked at; whether there was anything.

        A file of lines is read on from where it ended; any other is imported again when it has changed.
        """
        try:
            if path in self._following:
                return self._following[path].advance(self)
            before, now = self.done.items, path.stat()
            if self._marks.unchanged(path) or self._passed_over.get(path) == (now.st_size, now.st_mtime_ns):
                return False
            # Its size too: what is written in the moment of its making has the same time.
            self._passed_over[path] = now.st_size, now.st_mtime_ns
            importer = importer_for(path)
            if isinstance(importer, LineTranscript) and not _is_packed(path):
                self._following[path] = _Followed(path, importer, self._marks.done_lines(path))
                return self._following[path].advance(self)
            self.file(path, strict=False)
        except (OSError, MalformedInput):
            return False  # it is gone, or not yet a file of any known format
        return self.done.items > before

    def save(self) -> None:
        """Write down how far each file is imported."""
        self._marks.save(self._journal.last_position())
        self._saved_at = time.monotonic()

    def _entry(self, path: Path, piece: Piece) -> Entry | None:
        try:
            checked = _checked(piece, self._redactor)
        except TachographError as problem:
            self.done.add_problem(Problem(path, piece.lines[0], problem.message))
            return None
        if checked.rejected:
            reason = f"{checked.rejected} refused: {checked.message}"
            self.done.add_problem(Problem(path, piece.lines[0], reason))
        self.done.items += checked.items
        self.done.redactions += sum(checked.redactions.values())
        for kind, number in piece.unknown.items():
            self.done.unknown[f"{piece.about.get('format', '')} {kind}"] += number
        if not checked.items:
            return None
        return Entry(_kind(piece), checked.body, _meta(path, piece, checked), checked.items)

    def keep_new(self, path: Path, piece: Piece, lines: int, seen: os.stat_result) -> None:
        """Journal a piece of a followed file and note how far it is."""
        self._keep(path, piece)
        self._marks.note(path, lines, seen, whole=True)


class _Followed:
    """A growing file of lines: what was read of it and what it said so far stay in memory."""

    def __init__(self, path: Path, importer: LineTranscript, done_lines: int) -> None:
        self._path = path
        self._importer = importer
        self._begin(done_lines)

    def _begin(self, done_lines: int) -> None:
        self._reading: Reading = self._importer.reading(self._path)
        self._done_lines = done_lines
        self._offset = 0
        self._number = 0

    def advance(self, into: Import) -> bool:
        seen = self._path.stat()
        if seen.st_size < self._offset:
            self._begin(0)  # it was cut or replaced: all of it is new
        if seen.st_size == self._offset:
            return False
        before = into.done.items
        for piece in self._importer.packed(self._new_lines(), after=self._done_lines):
            if isinstance(piece, Problem):
                into.done.add_problem(piece)
            else:
                into.keep_new(self._path, piece, max(self._number, piece.lines[1]), seen)
        return into.done.items > before

    def _new_lines(self) -> Iterator[FileLine | Problem]:
        """Whole lines only: the last one may still be growing."""
        with self._path.open("rb") as content:
            content.seek(self._offset)
            for line in numbered_lines(content, self._path, before=self._number):
                if isinstance(line, Line) and not line.whole:
                    return
                self._offset = content.tell()
                self._number = line.number if isinstance(line, Line) else line.line
                if isinstance(line, Problem):
                    yield line
                else:
                    yield from self._reading.take(line)


def import_files(
    home: Home, paths: list[Path], *, strict: bool, told: Callable[[int], None] = lambda _: None
) -> Imported:
    """Journal every file; a file or line that cannot be read costs itself and is reported.

    With `strict` a file that no importer recognises is a problem too; otherwise it is passed over.
    """
    with Import.into(home, told) as running:
        for path in paths:
            running.file(path, strict=strict)
    return running.done


def _is_packed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4).startswith(COMPRESSED)


def _kind(piece: Piece) -> str:
    if piece.source == "file":
        return FILE_KIND
    return "events" if piece.source == "events" else f"otlp.{piece.source}"


def _meta(path: Path, piece: Piece, checked: Checked) -> dict[str, object]:
    meta: dict[str, object] = {"content": piece.encoding, "file": path.name, "lines": piece.lines}
    if piece.source == "file":
        meta |= {"file": str(path.absolute()), "name": path.name, **piece.about}
    if checked.redactions:
        meta["redactions"] = checked.redactions
    return meta


def _checked(piece: Piece, redactor: Redactor) -> Checked:
    if piece.source == "events":
        return check_lines(piece.body, redactor, first_line=piece.lines[0])
    if piece.source == "file":
        return check_packed(piece.body, redactor)
    return check(piece.source, piece.body, piece.encoding, redactor)
