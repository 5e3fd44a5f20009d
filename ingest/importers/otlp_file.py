"""OTLP requests in files: protobuf, JSON, and JSON lines as the OpenTelemetry Collector's file exporter writes them."""

import io
import re
from collections.abc import Iterator
from pathlib import Path

import orjson

from ingest.importers.importer import Importer, Piece, Problem, Source, numbered_lines
from models.errors import MalformedInput

KEY = re.compile(rb'"resource_?([Ss]pans|[Ll]ogs|[Mm]etrics)"')
SOURCES: dict[bytes, Source] = {b"spans": "traces", b"logs": "logs", b"metrics": "metrics"}
NAMED = re.compile(r"(trace|span|log|metric)", re.IGNORECASE)
BY_NAME: dict[str, Source] = {"trace": "traces", "span": "traces", "log": "logs", "metric": "metrics"}
MAX_FILE_BYTES = 20 * 1024 * 1024


class OtlpJson(Importer, name="OTLP JSON"):
    """One OTLP/JSON request per file or per line."""

    def recognises(self, path: Path, head: bytes) -> bool:
        """By the first key, which says the signal."""
        return head.lstrip()[:1] == b"{" and KEY.search(head) is not None

    def read(self, path: Path, content: io.BufferedIOBase, *, after: int = 0) -> Iterator[Piece | Problem]:
        """A request a line; a file whose first line is not a whole request is one request."""
        whole = content.read(MAX_FILE_BYTES + 1)
        if len(whole) <= MAX_FILE_BYTES and not _is_lines(whole):
            yield self._piece(path, 1, whole)
            return
        rest = io.BufferedReader(_Joined(whole, content))
        for line in numbered_lines(rest, path):
            taken = line if isinstance(line, Problem) else self._piece(path, line.number, line.text)
            if (taken.line if isinstance(taken, Problem) else taken.lines[0]) > after:
                yield taken

    def _piece(self, path: Path, number: int, body: bytes) -> Piece | Problem:
        match = KEY.search(body)
        if match is None:
            return Problem(path, number, "no OTLP request: it has none of resourceSpans, resourceLogs, resourceMetrics")
        return Piece(SOURCES[match[1].lower()], "json", body, (number, number))


def _is_lines(content: bytes) -> bool:
    """Whether the first line is a whole document and more follow."""
    first, _, rest = content.lstrip().partition(b"\n")
    if not rest.strip():
        return False
    try:
        orjson.loads(first)
    except orjson.JSONDecodeError:
        return False
    return True


class _Joined(io.RawIOBase):
    """What was read already, then the rest."""

    def __init__(self, start: bytes, rest: io.BufferedIOBase) -> None:
        self._start = io.BytesIO(start)
        self._rest = rest

    def readable(self) -> bool:
        """Yes."""
        return True

    def readinto(self, buffer: "memoryview | bytearray") -> int:  # type: ignore[override]
        """Fill from the start, then from the rest."""
        piece = self._start.read(len(buffer)) or self._rest.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


class OtlpProtobuf(Importer, name="OTLP protobuf"):
    """One OTLP protobuf request per file; the signal is told by the file's or folder's name."""

    def recognises(self, path: Path, head: bytes) -> bool:
        """Every request begins with its first resource: tag 1, length-delimited."""
        return (
            path.name.removesuffix(".gz").removesuffix(".zst").endswith((".pb", ".binpb", ".bin")) and head[:1] == b"\n"
        )

    def read(self, path: Path, content: io.BufferedIOBase, *, after: int = 0) -> Iterator[Piece | Problem]:
        """The whole file."""
        named = NAMED.findall(path.name) or NAMED.findall(path.parent.name)
        if not named:
            raise MalformedInput(
                "protobuf does not say which signal it is",
                str(path),
                next_step="put traces, logs or metrics into the name of the file or its folder",
            )
        yield Piece(BY_NAME[named[-1].lower()], "protobuf", content.read(), (1, 1))
