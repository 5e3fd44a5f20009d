"""Compressing closed segments: record by record, so that damage later costs one record and not the segment."""

import sqlite3
import threading
import time
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import zstandard

from journal import segment
from journal.record import Sealed
from journal.segment import SegmentFile

LEVEL = 3
REST_PER_WORK = 1.0
"""Seconds of rest for each second of work, so that receiving keeps its share of a small machine."""


def compress_closed(folder: Path, stopping: threading.Event, *, rest_per_work: float = REST_PER_WORK) -> int:
    """Compress every closed segment that is not yet; returns how many. One process at a time does it."""
    done = 0
    with segment.locked(folder, "compress", wait=False) as mine:
        if not mine:
            return 0
        for file in segment.listing(folder):
            plain = segment.path_of(folder, file.number)
            if file.compressed:
                _forget(plain)
            elif not stopping.is_set() and _closed(file) and _compress(folder, file, stopping, rest_per_work):
                done += 1
    return done


def _closed(file: SegmentFile) -> bool:
    with suppress(sqlite3.DatabaseError), closing(segment.connect(file)) as connection:
        return segment.header(connection).closed_ns is not None
    return False  # a damaged one stays as it is: `verify` names it, `read` salvages it


def _compress(folder: Path, file: SegmentFile, stopping: threading.Event, rest_per_work: float) -> bool:
    with closing(segment.connect(file)) as source:
        busy = source.execute("pragma wal_checkpoint(truncate)").fetchone()[0]
        if busy:  # readers are in it; without its log the plain file would look shorter to a late opener
            return False
        head = segment.header(source)
        unfinished = segment.create(
            folder, file.number, head.first_position, head.previous_digest, head.created_ns, compressed=True
        )
        compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
        with closing(sqlite3.connect(unfinished, isolation_level=None)) as target:
            target.execute("begin")
            for row in segment.rows(source):
                if stopping.is_set():
                    unfinished.unlink()
                    return False
                started = time.monotonic()
                segment.insert(target, [_smaller(row, compressor)])
                stopping.wait(rest_per_work * (time.monotonic() - started))
            target.execute(
                "update segment set closed_ns = ?, last_position = ?, last_digest = ?",
                (head.closed_ns, head.last_position, head.last_digest),
            )
            target.execute("commit")
    segment.publish(unfinished, segment.path_of(folder, file.number, compressed=True))
    _forget(file.path)
    return True


def _smaller(row: Sealed, compressor: zstandard.ZstdCompressor) -> Sealed:
    body = compressor.compress(row.body)
    return replace(row, codec="zstd", body=body) if len(body) < len(row.body) else row


def _forget(plain: Path) -> None:
    """Remove the uncompressed form; readers that have it open keep reading it."""
    if plain.exists():
        for path in (plain, plain.with_name(plain.name + "-wal"), plain.with_name(plain.name + "-shm")):
            path.unlink(missing_ok=True)
        segment.sync_folder(plain.parent)
