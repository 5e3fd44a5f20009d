"""Compressing closed segments: record by record, so that damage later costs one record and not the segment."""

import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import zstandard

from journal import damage, segment
from journal.record import Sealed
from journal.segment import SegmentFile
from models.failpoints import reached

LEVEL = 3
REST_PER_WORK = 1.0
"""Seconds of rest for each second of work, so that receiving keeps its share of a small machine."""


def compress_closed(folder: Path, stopping: threading.Event, *, rest_per_work: float = REST_PER_WORK) -> int:
    """Compress every closed segment that is not yet; returns how many. One process at a time does it."""
    done = 0
    with segment.locked(folder, "compress", wait=False) as mine:
        if not mine:
            return 0
        segment.sweep(folder)
        for file in segment.listing(folder):
            plain = segment.path_of(folder, file.number)
            if file.compressed:
                _forget(plain)
            elif not stopping.is_set() and not file.set_aside:
                done += _compress_or_set_aside(folder, file, stopping, rest_per_work)
    return done


def _compress_or_set_aside(folder: Path, file: SegmentFile, stopping: threading.Event, rest_per_work: float) -> bool:
    try:
        return _compress(folder, file, stopping, rest_per_work)
    except sqlite3.DatabaseError as problem:
        if not damage.shows_damage(problem, file) or not file.path.exists():
            raise
        segment.set_aside(file)
        return False


def _compress(folder: Path, file: SegmentFile, stopping: threading.Event, rest_per_work: float) -> bool:
    with closing(segment.connect(file)) as source:
        head = segment.header(source)
        if head.closed_ns is None or head.last_position is None or head.last_digest is None:
            return False
        busy = source.execute("pragma wal_checkpoint(truncate)").fetchone()[0]
        if busy:  # readers are in it; without its log the plain file would look shorter to a late opener
            return False
        unfinished = segment.create(
            folder, file.number, head.first_position, head.previous_digest, head.created_ns, compressed=True
        )
        compressor = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True)
        with closing(sqlite3.connect(unfinished, isolation_level=None)) as target:
            target.execute("begin")
            for row in segment.rows(source):
                reached("journal.compressing")
                if stopping.is_set():
                    unfinished.unlink()
                    return False
                started = time.monotonic()
                segment.insert(target, [_smaller(row, compressor)])
                stopping.wait(rest_per_work * (time.monotonic() - started))
            segment.close(target, head.closed_ns, head.last_position, head.last_digest)
            target.execute("commit")
    reached("journal.compressed")
    segment.publish(unfinished, segment.path_of(folder, file.number, compressed=True))
    reached("journal.compressed.published")
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
