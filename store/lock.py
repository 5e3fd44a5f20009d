"""One writer at a time: a lock that ends with its process, however it ends."""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from models.errors import Locked


class FileLock:
    """Holds a lock file until closed; a second holder gets Locked, which names the first."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._file, 64, 0).decode(errors="replace").strip()
            os.close(self._file)
            raise Locked(
                path,
                f"process {holder}" if holder else None,
                next_step="stop the other process, or ask it: it answers queries while it runs",
            ) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def close(self) -> None:
        """Let go; the file stays, because unlinking it would let two processes hold two files of one name."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
