"""What session files have in common: JSON objects in order, each packed with what the earlier ones say about it."""

import io
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar

import orjson

from ingest.file_lines import FileLine, pack
from ingest.importers.importer import MAX_LINE_BYTES, Importer, Line, Piece, Problem, numbered_lines
from ingest.importers.json_text import document, parse
from models.errors import MalformedInput

BODY_BYTES = 2 * 1024 * 1024
BODY_LINES = 5000
MAX_DOCUMENT_BYTES = 256 * 1024 * 1024
"""A file that is one JSON document has to be read whole."""

HELD_LINES = 1000
"""Lines before the first that tells a time wait for it, but not for ever."""


@dataclass(frozen=True, slots=True)
class About:
    """What is known about one line."""

    name: str | None = None
    session: str | None = None
    key: str | None = None
    time_ns: int | None = None
    end_ns: int | None = None
    place: dict[str, str] = field(default_factory=dict)
    context: dict[str, Any] = field(default_factory=dict)


class Memory:
    """What one file has said so far; each format has its own."""

    waits_for_session: ClassVar[bool] = False
    """Whether lines before the first that names the session belong to it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def unnamed(self) -> str | None:
        """The session of a file that names none."""
        return None

    @abstractmethod
    def note(self, value: dict[str, Any]) -> About:
        """Take in the next line, and tell what is known about it."""


class Reading:
    """The lines of one file, taken one after the other: numbered among equals, dated by their neighbours."""

    def __init__(self, path: Path, memory: Memory) -> None:
        self._path = path
        self._memory = memory
        self._seen: Counter[bytes] = Counter()
        self._near_ns: int | None = None
        self._session: str | None = None
        self._held: list[FileLine] = []

    def take(self, line: Line) -> Iterator[FileLine | Problem]:
        """What comes of the next line: itself, lines that waited for it, or a problem."""
        try:
            value, text = document(line.text)
        except MalformedInput as problem:
            cut = "" if line.whole else "; the file ends in the middle of a line"
            yield Problem(self._path, line.number, problem.reason + cut)
            return
        yield from self.add(line.number, value, text)

    def add(self, number: int, value: dict[str, Any], text: bytes) -> Iterator[FileLine | Problem]:
        """The same for a line that is parsed already."""
        try:
            about = self._memory.note(value)
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            yield Problem(self._path, number, f"not as this format has it ({type(problem).__name__})")
            return
        taken = FileLine(
            number,
            text,
            about.name,
            about.session,
            about.key,
            self._occurrence(about, text),
            about.time_ns,
            about.end_ns,
            self._near_ns if about.time_ns is None else None,
            about.place,
            about.context,
        )
        self._near_ns = self._near_ns if about.time_ns is None else about.time_ns
        self._session = about.session or self._session
        self._held.append(taken)
        known = self._near_ns is not None and (self._session or not self._memory.waits_for_session)
        if known or len(self._held) > HELD_LINES:
            yield from self.finish()

    def finish(self) -> Iterator[FileLine]:
        """Lines that wait to learn their time or session."""
        held, self._held = self._held, []
        waited = self._session if self._memory.waits_for_session else None
        for line in held:
            near_ns = self._near_ns if line.time_ns is None and line.near_ns is None else line.near_ns
            yield replace(line, near_ns=near_ns, session=line.session or waited or self._memory.unnamed())

    def _occurrence(self, about: About, text: bytes) -> int:
        """How many lines before are the same: of the same key and another content, or without a key and equal."""
        digest = blake2b(text, digest_size=8).digest()
        if about.key is None:
            self._seen[digest] += 1
            return self._seen[digest] - 1
        keyed = blake2b(about.key.encode(), digest_size=8).digest()
        if self._seen[keyed + digest] == 0:
            self._seen[keyed] += 1
            self._seen[keyed + digest] = self._seen[keyed]
        return self._seen[keyed + digest] - 1


class Transcript(Importer):
    """A format of session files. `format` names it in records; `known` are the kinds of lines we know."""

    format: ClassVar[str]
    service: ClassVar[str | None] = None
    known: ClassVar[frozenset[str]]
    memory: ClassVar[type[Memory]]

    def reading(self, path: Path) -> Reading:
        """A new reading of a file."""
        return Reading(path, self.memory(path))

    def packed(self, lines: Iterable[FileLine | Problem], *, after: int = 0) -> Iterator[Piece | Problem]:
        """Lines in pieces; problems as they come."""
        batch: list[FileLine] = []
        size = 0
        for line in lines:
            if isinstance(line, Problem):
                if line.line > after:
                    yield line
            elif line.number > after:
                batch.append(line)
                size += len(line.body)
                if size >= BODY_BYTES or len(batch) >= BODY_LINES:
                    yield self._piece(batch)
                    batch, size = [], 0
        if batch:
            yield self._piece(batch)

    def _piece(self, lines: list[FileLine]) -> Piece:
        about = {"format": self.format} | ({"service": self.service} if self.service else {})
        strange = Counter(line.name or "(no type)" for line in lines if line.name not in self.known)
        numbers = [line.number for line in lines]
        return Piece("file", "json", pack(lines), (min(numbers), max(numbers)), about, dict(strange))


class LineTranscript(Transcript):
    """A format of one JSON object per line."""

    def read(self, path: Path, content: io.BufferedIOBase, *, after: int = 0) -> Iterator[Piece | Problem]:
        """Every line, in order."""
        yield from self.packed(_all(self.reading(path), numbered_lines(content, path)), after=after)


class DocumentTranscript(Transcript):
    """A format of one JSON document per file, which is taken apart."""

    def read(self, path: Path, content: io.BufferedIOBase, *, after: int = 0) -> Iterator[Piece | Problem]:
        """Its parts, in order; their numbers are not lines of the file."""
        yield from self.packed(self.taken_apart(path, whole_document(content)), after=after)

    def taken_apart(self, path: Path, value: Any) -> Iterator[FileLine | Problem]:
        """The parts that become records."""
        reading = self.reading(path)
        for number, part in enumerate(self.parts(value), 1):
            yield from add_part(reading, path, number, part)
        yield from reading.finish()

    @abstractmethod
    def parts(self, value: Any) -> Iterator[dict[str, Any]]:
        """The parts of the parsed document."""


def add_part(reading: Reading, path: Path, number: int, part: dict[str, Any]) -> Iterator[FileLine | Problem]:
    """A part of a document as a line; one that is too long costs itself."""
    text = orjson.dumps(part)
    if len(text) > MAX_LINE_BYTES:
        yield Problem(path, number, f"part {number} is {len(text)} bytes long; at most {MAX_LINE_BYTES} are taken")
    else:
        yield from reading.add(number, part, text)


def whole_document(content: io.BufferedIOBase) -> Any:
    """The parsed file; raises MalformedInput if it is too large or no JSON."""
    text = content.read(MAX_DOCUMENT_BYTES + 1)
    if len(text) > MAX_DOCUMENT_BYTES:
        raise MalformedInput(f"a single JSON document of more than {MAX_DOCUMENT_BYTES} bytes")
    return parse(text)[0]


def _all(reading: Reading, lines: Iterable[Line | Problem]) -> Iterator[FileLine | Problem]:
    for line in lines:
        if isinstance(line, Problem):
            yield line
        else:
            yield from reading.take(line)
    yield from reading.finish()
