"""What an importer is: it knows its own input, and gives it in pieces that may be journaled."""

import codecs
import gzip
import io
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

import zstandard

from ingest.importers.json_text import WIDE_BOMS
from models.errors import MalformedInput

HEAD_BYTES = 16 * 1024
MAX_LINE_BYTES = 20 * 1024 * 1024
Source = Literal["logs", "traces", "metrics", "events", "file"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A body as it could have come over the wire, or packed lines of a file."""

    source: Source
    encoding: Literal["protobuf", "json"]
    body: bytes
    lines: tuple[int, int]
    """The first and last line of the file it came from; (1, 1) for a file without lines."""

    about: Mapping[str, str] = field(default_factory=dict)
    """For packed lines: the format, and the client that wrote them."""

    unknown: Mapping[str, int] = field(default_factory=dict)
    """How many lines of kinds that we do not know are in it, by kind; they are kept like the others."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of a file that could not be taken."""

    path: Path
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file, without its end."""

    number: int
    text: bytes
    whole: bool = True
    """Whether the line's end was written; if not, it may still be growing."""


class Importer:
    """Reads one file format. Declaring a subclass with a `name` registers it."""

    name: ClassVar[str]
    registry: ClassVar[list[type["Importer"]]] = []

    def __init_subclass__(cls, *, name: str | None = None, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if name is not None:
            cls.name = name
            Importer.registry.append(cls)

    def recognises(self, path: Path, head: bytes) -> bool:
        """Whether the file is of this format, from its name and first bytes."""
        raise NotImplementedError

    def read(self, path: Path, content: io.BufferedIOBase, *, after: int = 0) -> Iterator[Piece | Problem]:
        """The file in pieces, and what of it could not be read; nothing of the lines up to `after`."""
        raise NotImplementedError


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedIOBase]:
    """The file's content, whether it is compressed or not; UTF-16 text as UTF-8."""
    with path.open("rb") as file:
        magic = file.read(4)
        file.seek(0)
        if magic[:2] == b"\x1f\x8b":
            yield gzip.GzipFile(fileobj=file)
        elif magic == b"\x28\xb5\x2f\xfd":
            yield io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True))
        elif magic[:2] in WIDE_BOMS:
            yield io.BufferedReader(_Narrowed(file, WIDE_BOMS[magic[:2]]))
        else:
            yield file


class _Narrowed(io.RawIOBase):
    """Text of two bytes a character, as UTF-8."""

    def __init__(self, file: io.BufferedIOBase, encoding: str) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        self._ready = b""

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]  # its stub wants a Buffer
        """Fill with what could be decoded so far."""
        while not self._ready and (piece := self._file.read(64 * 1024)):
            self._ready = self._decoder.decode(piece).removeprefix("\ufeff").encode()
        given, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(given)] = given
        return len(given)


class NotRecognised(MalformedInput):
    """A file of no format that we can read."""


def importer_for(path: Path) -> Importer:
    """The importer that recognises a file; raises NotRecognised if none does."""
    with opened(path) as content:
        head = content.read(HEAD_BYTES)
    for kind in Importer.registry:
        candidate = kind()
        if candidate.recognises(path, head):
            return candidate
    known = ", ".join(kind.name for kind in Importer.registry)
    raise NotRecognised("no importer recognises it", str(path), next_step=f"what can be read: {known}")


def numbered_lines(content: io.BufferedIOBase, path: Path, *, before: int = 0) -> Iterator[Line | Problem]:
    """Lines with their numbers, counted on from `before`; one that is too long costs itself."""
    number = before
    while line := content.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            size = len(line)
            while line and not line.endswith(b"\n"):
                line = content.readline(MAX_LINE_BYTES)
                size += len(line)
            yield Problem(path, number, f"the line is {size} bytes long; at most {MAX_LINE_BYTES} are taken")
        elif line.strip():
            yield Line(number, line.rstrip(b"\r\n"), line.endswith(b"\n"))
