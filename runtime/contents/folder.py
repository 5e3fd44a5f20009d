"""The folder of contents on disk: whole files under their hash, and a mark for each that is still to be sent."""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from models import failpoints

FAN_OUT = tuple(f"{number:02x}" for number in range(256))


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class ContentFolder:
    """`ab/<sha256>` holds content, `waiting/<sha256>` is there until the collector has it, `new/` is being written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.waiting = path / "waiting"
        self._new = path / "new"
        if not self.waiting.is_dir():  # made last
            path.mkdir(parents=True, exist_ok=True, mode=0o700)
            for name in (*FAN_OUT, "new"):
                (path / name).mkdir(exist_ok=True, mode=0o700)
            sync_folder(path)
            self.waiting.mkdir(exist_ok=True, mode=0o700)
            sync_folder(path)
        self._lock = (path / "lock").open("ab")
        with contextlib.suppress(BlockingIOError):  # beside a living runtime there is nothing to clear away
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._clear()

    def _clear(self) -> None:
        """Remove what a crash left: files without a name, to which nothing refers, and marks of content never named."""
        for left in self._new.iterdir():
            left.unlink(missing_ok=True)
        for mark in self.waiting.iterdir():
            if not self.file(mark.name).exists():
                mark.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the folder."""
        self._lock.close()

    def file(self, sha256: str) -> Path:
        """Where a content is or would be."""
        return self.path / sha256[:2] / sha256

    def read(self, sha256: str) -> bytes | None:
        """A content as it is on disk, unchecked; None if there is none."""
        try:
            return self.file(sha256).read_bytes()
        except FileNotFoundError:
            return None

    def write(self, contents: Mapping[str, bytes]) -> list[str]:
        """Store contents together and durably; which of them are new.

        The parts that wait for the disk are done for all at once: it is one wait for a handful of contents.
        """
        # What an earlier process left may lack its last sync, or be damaged: it is looked at once, then trusted.
        fresh = [sha256 for sha256, data in contents.items() if self.read(sha256) != data]
        unfinished: dict[str, Path] = {}
        try:
            for sha256 in fresh:
                unfinished[sha256] = self._written(contents[sha256])
            for sha256, path in unfinished.items():
                _sync_file(path)
                (self.waiting / sha256).touch(mode=0o600)
            if fresh:
                sync_folder(self.waiting)  # before the content has its name, so that none is ever forgotten
            failpoints.reached("contents.marked")
            for sha256, path in unfinished.items():
                path.replace(self.file(sha256))
        except OSError:
            for path in unfinished.values():
                path.unlink(missing_ok=True)
            raise
        failpoints.reached("contents.named")
        for folder in {self.file(sha256).parent for sha256 in contents}:
            sync_folder(folder)
        return fresh

    def _written(self, data: bytes) -> Path:
        path = self._new / secrets.token_hex(8)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        finally:
            os.close(descriptor)
        return path

    def unsent(self) -> list[str]:
        """Contents the collector may not have, oldest first."""
        with os.scandir(self.waiting) as found:
            marks = sorted((mark.stat().st_mtime_ns, mark.name) for mark in found)
        return [name for _, name in marks]

    def sent(self, sha256: str) -> None:
        """The collector has it. Should a crash undo this, it is sent once more, and the collector notices."""
        (self.waiting / sha256).unlink(missing_ok=True)


def own_key(folder: Path, size_bytes: int = 32) -> bytes:
    """The key of this runtime's digests of secrets; made once, so that equal content keeps its address."""
    path = folder / "redaction.key"
    if not path.exists():
        mine = path.with_name(f"{path.name}.new")
        descriptor = os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(size_bytes))
            file.flush()
            os.fsync(file.fileno())
        mine.replace(path)
        sync_folder(folder)
    return path.read_bytes()
