"""One flipped bit anywhere in the journal: named, counted where it cost a record, all else served; it goes on."""

import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from journal import Entry, Journal, segment
from tests.chaos.bits import flip
from tests.journal.test_journal import everything

SEGMENT_BYTES = 40 * segment.PAGE_BYTES
SIZES = (200, 2_000, 20_000, 90_000)


def given() -> list[Entry]:
    source = random.Random(5)
    return [Entry("test", source.randbytes(source.choice(SIZES)), {"n": n}, items=n) for n in range(80)]


ENTRIES = given()


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal as a crash leaves it: segments compressed and plain, the last with a write-ahead log."""
    folder = tmp_path_factory.mktemp("journal")
    with Journal(folder / "running", segment_bytes=SEGMENT_BYTES, compress=False) as journal:
        for entry in ENTRIES[:40]:
            journal.append(entry)
        journal.compress_closed(rest_per_work=0)
        for n, entry in enumerate(ENTRIES[40:]):
            journal.append(entry)
            journal.last_position()  # a reader keeps SQLite from folding the log of a segment into it
            if n % 10 == 5:
                with closing(sqlite3.connect(active(folder / "running"))) as other:
                    other.execute("pragma wal_checkpoint")
        copy(folder / "running", folder / "left")
    return folder / "left"


def copy(folder: Path, to: Path) -> None:
    shutil.copytree(folder, to, ignore=shutil.ignore_patterns("*-shm"))


def compressed(folder: Path) -> Path:
    return next(file.path for file in segment.listing(folder) if file.compressed)


def closed(folder: Path) -> Path:
    return next(file.path for file in segment.listing(folder) if not file.compressed)


def active(folder: Path) -> Path:
    return segment.listing(folder)[-1].path


def log_of_active(folder: Path) -> Path:
    path = active(folder)
    return path.with_name(path.name + "-wal")


def log_of_closed(folder: Path) -> Path:
    path = closed(folder)
    return path.with_name(path.name + "-wal")


TARGETS = (compressed, closed, active, log_of_active, log_of_closed)
PAGE = segment.PAGE_BYTES
HEADERS = (0, 15, 16, 18, 19, 20, 21, 24, 28, 44, 47, 52, 56, 59, 100, 103, 105, 108, PAGE - 5, PAGE + 3, 2 * PAGE + 9)
"""Places in the headers of the file and of its first pages; in a log, in its own header and that of its first frame."""


@pytest.mark.parametrize("target", TARGETS)
def test_one_flipped_bit_costs_at_most_the_record_it_is_in(
    crashed: Path, tmp_path: Path, target: Callable[[Path], Path]
) -> None:
    source = random.Random(target.__name__)
    size = target(crashed).stat().st_size
    places = source.sample(HEADERS, 8) + [source.randrange(size) for _ in range(13)]
    assert sum(flipped(crashed, tmp_path, target, place, source) for place in places) > 0, "no flip hit a record"


@pytest.mark.long
@pytest.mark.parametrize("target", TARGETS)
def test_one_flipped_bit_in_any_header_or_at_200_more_places_costs_at_most_a_record(
    crashed: Path, tmp_path: Path, target: Callable[[Path], Path]
) -> None:
    source = random.Random(1)
    size = target(crashed).stat().st_size
    for place in [*HEADERS, *range(0, 100, 4), *(source.randrange(size) for _ in range(200))]:
        flipped(crashed, tmp_path, target, place, source)


def flipped(crashed: Path, tmp_path: Path, target: Callable[[Path], Path], place: int, source: random.Random) -> int:
    """What a flip costs, in records."""
    folder = tmp_path / "flipped"
    shutil.rmtree(folder, ignore_errors=True)
    copy(crashed, folder)
    flip(target(folder), place, source)
    return check(folder, f"{target.__name__}, byte {place}")


def check(folder: Path, where: str) -> int:
    """What one flip cost, in records."""
    with Journal(folder, segment_bytes=SEGMENT_BYTES, compress=False) as journal:
        named = journal.verify()
        served = everything(journal)
        lost = len(ENTRIES) - len(served)
        assert lost <= 1, f"{where}: {lost} records lost"
        right = [entry for n, entry in enumerate(ENTRIES, 1) if n in {record.position for record in served}]
        assert [(r.body, r.meta, r.items) for r in served] == [(e.body, e.meta, e.items) for e in right], where
        assert named or not lost, f"{where}: a lost record is not named"
        counted = sum(finding.records for finding in journal.lost.values())
        assert counted == lost or served[-1].position < len(ENTRIES), f"{where}: counted {counted}"
    with Journal(folder, segment_bytes=SEGMENT_BYTES, compress=False) as journal:
        positions = [journal.append(Entry("test", b"%d" % n))[0] for n in range(3)]
        assert positions == [81, 82, 83], where
        assert [record.body for record in everything(journal)] == [record.body for record in served] + [
            b"0",
            b"1",
            b"2",
        ]
        journal.compress_closed(rest_per_work=0)
        after = everything(journal)
        assert [record.body for record in after] == [record.body for record in served] + [b"0", b"1", b"2"], where
        assert sum(finding.records for finding in journal.verify() if finding.problem != "set aside") == lost, where
    return lost
