"""What an importer is: it knows its own input, and gives it in pieces that may be journaled."""

import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import zstandard

from models.errors import MalformedInput

HEAD_BYTES = 4096
MAX_LINE_BYTES = 20 * 1024 * 1024
Source = Literal["logs", "traces", "metrics", "events"]


@dataclass(frozen=True, slots=True)
class Piece:
    """A body as it could have come over the wire."""

    source: Source
    encoding: Literal["protobuf", "json"]
    body: bytes
    lines: tuple[int, int]
    """The first and last line of the file it came from; (1, 1) for a file without lines."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A part of a file that could not be taken."""

    path: Path
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.reason}"


class Importer:
    """Reads one file format. Declaring a subclass registers it."""

    name: ClassVar[str]
    registry: ClassVar[list[type["Importer"]]] = []

    def __init_subclass__(cls, *, name: str, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls.name = name
        Importer.registry.append(cls)

    def recognises(self, path: Path, head: bytes) -> bool:
        """Whether the file is of this format, from its name and first bytes."""
        raise NotImplementedError

    def read(self, path: Path, content: io.BufferedIOBase) -> Iterator[Piece | Problem]:
        """The file in pieces, and what of it could not be read."""
        raise NotImplementedError


@contextmanager
def opened(path: Path) -> Iterator[io.BufferedIOBase]:
    """The file's content, whether it is compressed or not."""
    with path.open("rb") as file:
        magic = file.read(4)
        file.seek(0)
        if magic[:2] == b"\x1f\x8b":
            yield gzip.GzipFile(fileobj=file)
        elif magic == b"\x28\xb5\x2f\xfd":
            yield io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True))
        else:
            yield file


def importer_for(path: Path) -> Importer:
    """The importer that recognises a file; raises MalformedInput if none does."""
    with opened(path) as content:
        head = content.read(HEAD_BYTES)
    for kind in Importer.registry:
        candidate = kind()
        if candidate.recognises(path, head):
            return candidate
    known = ", ".join(kind.name for kind in Importer.registry)
    raise MalformedInput("no importer recognises it", str(path), next_step=f"what can be read: {known}")


def numbered_lines(content: io.BufferedIOBase, path: Path) -> Iterator[tuple[int, bytes] | Problem]:
    """Lines with their numbers; one that is too long costs itself."""
    number = 0
    while line := content.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            while line and not line.endswith(b"\n"):
                line = content.readline(MAX_LINE_BYTES)
            yield Problem(path, number, f"the line is longer than {MAX_LINE_BYTES} bytes")
        elif line.strip():
            yield number, line.rstrip(b"\r\n")
