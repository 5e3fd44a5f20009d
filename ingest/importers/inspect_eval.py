"""Inspect's evaluation logs: `.eval` (a zip, also with zstd members) and `.json`; one session per sample."""

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard

from ingest.file_lines import FileLine
from ingest.importers.importer import Piece, Problem
from ingest.importers.json_text import moment_ns, parse, table, text_of
from ingest.importers.transcript import (
    MAX_DOCUMENT_BYTES,
    About,
    DocumentTranscript,
    Memory,
    Reading,
    Transcript,
    add_part,
)
from models.errors import MalformedInput

EVENTS = frozenset(
    {"model", "tool", "state", "store", "sample_init", "sample_limit", "score", "score_edit", "error", "info", "input"}
    | {
        "logger",
        "approval",
        "sandbox",
        "span_begin",
        "span_end",
        "step",
        "subtask",
        "interrupt",
        "branch",
        "compaction",
    }
    | {"anchor"}
)
MARK = re.compile(rb'"eval"\s*:\s*\{.*"(?:eval_id|run_id|task)"\s*:', re.DOTALL)
ZSTD = 93
LOCAL_HEADER = struct.Struct("<4s5H3I2H")
LOCAL_MAGIC = b"PK\x03\x04"


class InspectMemory(Memory):
    """The evaluation, and the sample whose parts come now."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.evaluation: dict[str, Any] = {}
        self.sample: dict[str, Any] = {}

    def note(self, value: dict[str, Any]) -> About:
        """The head of the log, a sample, or an event in one."""
        context = {
            "eval": self.evaluation.get("eval_id") or self.evaluation.get("run_id"),
            "task": self.evaluation.get("task"),
            "sample": self.sample.get("id"),
            "epoch": self.sample.get("epoch"),
        }
        told = {name: part for name, part in context.items() if part is not None}
        if "event" in value:
            name = text_of(value["event"])
            end_ns = moment_ns(value.get("completed"))
        else:
            name = "sample" if self.sample else "evaluation"
            end_ns = moment_ns(value.get("completed_at"))
        begun = value.get("timestamp") or value.get("started_at") or self.sample.get("started_at")
        time_ns = moment_ns(begun or self.evaluation.get("created"))
        return About(name, self._session(), text_of(value.get("uuid")), time_ns, end_ns, {}, told)

    def _session(self) -> str | None:
        if not self.sample:
            return None
        run = self.evaluation.get("eval_id") or self.evaluation.get("run_id") or self.path.name
        return text_of(self.sample.get("uuid")) or f"{run}:{self.sample.get('id')}:{self.sample.get('epoch', 1)}"


class _Log:
    """The parts of one log, numbered on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.memory = InspectMemory(path)
        self.reading = Reading(path, self.memory)
        self.number = 0

    def head(self, value: dict[str, Any]) -> Iterator[FileLine | Problem]:
        self.memory.evaluation = table(value.get("eval"))
        yield from self._part({key: told for key, told in value.items() if key != "samples"})

    def sample(self, value: dict[str, Any]) -> Iterator[FileLine | Problem]:
        self.memory.sample = value
        yield from self._part({key: told for key, told in value.items() if key != "events"})
        for event in _flat(value.get("events")):
            yield from self._part(event)
        self.memory.sample = {}

    def _part(self, value: dict[str, Any]) -> Iterator[FileLine | Problem]:
        self.number += 1
        yield from add_part(self.reading, self.path, self.number, value)


def _flat(events: Any) -> Iterator[dict[str, Any]]:
    """Events and, as older versions wrote them, those inside them."""
    for event in events if isinstance(events, list) else []:
        if not isinstance(event, dict):
            continue
        inner = event.get("events")
        yield {key: told for key, told in event.items() if key != "events"} if inner else event
        yield from _flat(inner)


class InspectEval(Transcript, name="Inspect log (.eval)"):
    """A log as a zip archive, read sample by sample."""

    format = "inspect"
    service = "inspect_ai"
    known = EVENTS | {"evaluation", "sample"}
    memory = InspectMemory

    def recognises(self, path: Path, head: bytes) -> bool:
        """By its name and the mark of a zip archive."""
        return path.suffix == ".eval" and head[:4] == LOCAL_MAGIC

    def read(self, path: Path, content: io.BufferedIOBase, *, after: int = 0) -> Iterator[Piece | Problem]:
        """The head, then every sample; a member that cannot be read costs itself."""
        try:
            archive = zipfile.ZipFile(path)
        except zipfile.BadZipFile as problem:
            raise MalformedInput(f"not a whole zip archive ({problem})", str(path)) from None
        with archive:
            yield from self.packed(_members(path, archive), after=after)


def _members(path: Path, archive: zipfile.ZipFile) -> Iterator[FileLine | Problem]:
    log = _Log(path)
    names = archive.namelist()
    heads = [name for name in ("header.json", "_journal/start.json") if name in names][:1]
    samples = sorted(name for name in names if name.startswith("samples/") and name.endswith(".json"))
    for place, name in enumerate([*heads, *samples], 1):
        try:
            value = table(parse(_member(path, archive.getinfo(name)))[0])
        except (MalformedInput, OSError, EOFError, ValueError, zlib.error, zstandard.ZstdError) as problem:
            reason = problem.reason if isinstance(problem, MalformedInput) else str(problem)
            yield Problem(path, place, f"{name}: {reason}")
            continue
        yield from log.head(value) if name in heads else log.sample(value)
    yield from log.reading.finish()


def _member(path: Path, info: zipfile.ZipInfo) -> bytes:
    """A member's content. zipfile of this Python does not know zstd, so that is unpacked from where it lies."""
    if info.compress_type != ZSTD:
        with zipfile.ZipFile(path) as archive, archive.open(info) as member:
            content = member.read(MAX_DOCUMENT_BYTES + 1)
    else:
        with path.open("rb") as file:
            file.seek(info.header_offset)
            header = LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size))
            file.seek(header[-2] + header[-1], io.SEEK_CUR)
            packed = io.BytesIO(file.read(info.compress_size))
        content = (
            zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True).read(MAX_DOCUMENT_BYTES + 1)
        )
        if zlib.crc32(content) != info.CRC and len(content) <= MAX_DOCUMENT_BYTES:
            raise MalformedInput("its checksum does not match")
    if len(content) > MAX_DOCUMENT_BYTES:
        raise MalformedInput(f"a member of more than {MAX_DOCUMENT_BYTES} bytes")
    return content


class InspectJson(DocumentTranscript, name="Inspect log (.json)"):
    """A log as one JSON document."""

    format = "inspect"
    service = "inspect_ai"
    known = EVENTS | {"evaluation", "sample"}
    memory = InspectMemory

    def recognises(self, path: Path, head: bytes) -> bool:
        """By its first keys."""
        return path.name.endswith(".json") and head.lstrip()[:1] == b"{" and MARK.search(head) is not None

    def taken_apart(self, path: Path, value: Any) -> Iterator[FileLine | Problem]:
        """The head, then every sample."""
        log = _Log(path)
        whole = table(value)
        yield from log.head(whole)
        for sample in whole.get("samples") or []:
            yield from log.sample(table(sample))
        yield from log.reading.finish()
