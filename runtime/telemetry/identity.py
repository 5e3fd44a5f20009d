"""Who the runtime is: an id that outlives restarts, in a folder that one process at a time works in."""

import fcntl
import os
import uuid
from pathlib import Path
from typing import IO

from models.errors import Locked, UsageError

FILE = "runtime_id"
LOCK = "runtime.lock"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, never a part."""
    unfinished = path.with_name(f"{path.name}.new")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def claim(folder: Path) -> IO[bytes]:
    """Hold the folder until the file is closed or the process ends, however it ends; raises Locked if it is taken."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = (folder / LOCK).open("ab")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        raise Locked(folder, "another runtime", next_step="give each runtime a folder of its own") from None
    return file


def runtime_id(folder: Path, wanted: str | None) -> str:
    """The folder's id; a folder without one gets the wanted one, or a new one, and keeps it."""
    path = folder / FILE
    kept = path.read_text().strip() if path.exists() else ""
    if kept and wanted not in (None, kept):
        raise UsageError(
            f"{folder} belongs to runtime {kept}, not to {wanted}", next_step="give each runtime a folder of its own"
        )
    if kept:
        return kept
    chosen = wanted or f"rt-{uuid.uuid4()}"
    write_whole(path, f"{chosen}\n".encode())
    return chosen
