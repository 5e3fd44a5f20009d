"""The fault layer: compiled when first used; what a power cut may leave of the files it watched."""

import os
import random
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

SECTOR_BYTES = 512
_HEAD = struct.Struct("=5q")


@cache
def layer() -> Path:
    """The compiled layer; skips the test where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc) to build the fault layer with")
    built = Path(tempfile.mkdtemp(prefix="tachograph-faults-")) / "faults.so"
    source = Path(__file__).with_name("faults.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", built, source, "-ldl", "-lpthread"], check=True)
    return built


def environment(folder: Path, **settings: object) -> dict[str, str]:
    """Variables that put the layer under a process: `log`, `control` and `kill` as the layer's source says."""
    told = {f"FAULTS_{name.upper()}": str(value) for name, value in settings.items()}
    return {"LD_PRELOAD": str(layer()), "FAULTS_FOLDER": str(folder), **told}


@dataclass
class File:
    """A file as the disk has it, and the changes that no sync has made sure."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[str, int, bytes]] = field(default_factory=list)

    def sync(self) -> None:
        for change in self.pending:
            self._apply(*change)
        self.pending.clear()

    def cut(self, source: random.Random) -> None:
        """Some of the unsynced changes reach the disk, in any combination; some of those in part."""
        for what, at, content in self.pending:
            fate = source.choice(("kept", "lost", "torn"))
            if fate == "kept" or (fate == "torn" and what == "T"):
                self._apply(what, at, content)
            elif fate == "torn":
                for start in range(0, len(content), SECTOR_BYTES):
                    if source.random() < 0.5:
                        self._apply(what, at + start, content[start : start + SECTOR_BYTES])
        self.pending.clear()

    def _apply(self, what: str, at: int, content: bytes) -> None:
        if what == "T":
            del self.durable[at:]
            self.durable.extend(bytes(at - len(self.durable)))
            return
        self.durable.extend(bytes(max(0, at - len(self.durable))))
        self.durable[at : at + len(content)] = content


class Disk:
    """The files of one folder, followed through the log of the layer."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names = {str(path): File(bytearray(path.read_bytes())) for path in folder.glob("*")}
        self.durable_names = dict(self.names)
        self.unsure: list[tuple[str, str, str, File | None]] = []

    def follow(self, log: Path) -> None:
        """Everything the process did."""
        for what, path, other, at, content in entries(log):
            if what == "S" and Path(path) == self.folder:
                self.durable_names, self.unsure = dict(self.names), []
            elif what == "S":
                self._file(path).sync()
            elif what in "WT":
                self._file(path).pending.append((what, at, content))
            else:
                change = (what, path, other, File() if what == "C" else None)
                _change(self.names, *change)
                self.unsure.append(change)

    def _file(self, path: str) -> File:
        return self.names.setdefault(path, File())

    def cut(self, source: random.Random) -> int:
        """Write to the folder what a power cut may have left; how many changes were not yet sure."""
        unsure = len(self.unsure) + sum(len(file.pending) for file in self.names.values())
        for change in self.unsure[: source.randint(0, len(self.unsure))]:  # a file system keeps these in order
            _change(self.durable_names, *change)
        for path in self.folder.glob("*"):
            path.unlink()
        for name, file in self.durable_names.items():
            file.cut(source)
            if not name.endswith("-shm"):  # shared memory of the processes that are gone
                Path(name).write_bytes(file.durable)
        return unsure


def _change(names: dict[str, File], what: str, path: str, other: str, made: File | None) -> None:
    if what == "C" and made is not None:
        names.setdefault(path, made)
    elif what == "R" and path in names:
        names[other] = names.pop(path)
    elif what == "U":
        names.pop(path, None)


def entries(log: Path) -> Iterator[tuple[str, str, str, int, bytes]]:
    """The log, entry by entry; the last one may be cut off by the kill."""
    raw = log.read_bytes()
    at = 0
    while at + _HEAD.size <= len(raw):
        what, path_len, other_len, offset, count = _HEAD.unpack_from(raw, at)
        start = at + _HEAD.size
        at = start + path_len + other_len + count
        if at > len(raw):
            return
        path, other = raw[start : start + path_len], raw[start + path_len : start + path_len + other_len]
        yield chr(what), os.fsdecode(path), os.fsdecode(other), offset, raw[at - count : at]
