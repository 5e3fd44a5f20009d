"""The mark: how far the journal has acknowledged, kept beside the segments so that one that lost its end is noticed.

It is written after each commit and never synced: after a power cut it may be older than the records, never newer. So it
costs a small write and proves a lower bound: a journal that ends before its mark has lost something.
"""

import hashlib
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from journal.record import GENESIS

NAME = "last"
_FORM = struct.Struct(">Q32s")
_SUM_BYTES = 8


@dataclass(frozen=True, slots=True)
class Mark:
    """The newest record that is known to have been acknowledged."""

    position: int
    digest: bytes


NOTHING = Mark(0, GENESIS)


def read(folder: Path) -> Mark:
    """The mark of a journal; `NOTHING` where there is none or it is damaged."""
    try:
        raw = (folder / NAME).read_bytes()
    except FileNotFoundError:
        return NOTHING
    content, told = raw[: _FORM.size], raw[_FORM.size :]
    return Mark(*_FORM.unpack(content)) if told == _sum(content) and len(content) == _FORM.size else NOTHING


def write(folder: Path, position: int, digest: bytes) -> None:
    """Move the mark. Of several processes the last one wins, which may set it back a little: it stays a lower bound."""
    content = _FORM.pack(position, digest)
    descriptor = os.open(folder / NAME, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.pwrite(descriptor, content + _sum(content), 0)
    finally:
        os.close(descriptor)


def _sum(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()[:_SUM_BYTES]
