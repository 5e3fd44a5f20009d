"""The journal's promises: durable, ordered, shared by processes, and honest about damage."""

import multiprocessing
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from journal import Entry, Journal, Record
from journal import segment as segments
from journal.log import OPEN_READERS
from models.errors import JournalUnwritable

SMALL_SEGMENT = 40 * segments.PAGE_BYTES


def entries(count: int, size: int = 200, seed: int = 1) -> list[Entry]:
    source = random.Random(seed)
    return [Entry("test", source.randbytes(size), {"n": n}, items=n) for n in range(count)]


def plain_segments(folder: Path) -> list[Path]:
    return [file.path for file in segments.listing(folder) if not file.compressed]


def filled(folder: Path, count: int = 60, size: int = 50_000) -> list[Entry]:
    """A journal of several closed segments."""
    given = entries(count, size)
    with Journal(folder, segment_bytes=SMALL_SEGMENT, compress=False) as journal:
        for entry in given:
            journal.append(entry)
    return given


def test_what_was_appended_is_read_back_in_order(tmp_path: Path) -> None:
    given = entries(25)
    with Journal(tmp_path) as journal:
        assert journal.append(*given[:10]) == list(range(1, 11))
        assert journal.append(*given[10:]) == list(range(11, 26))
        found = journal.read(max_records=1000)
    assert [(r.body, r.meta, r.items, r.kind) for r in found] == [(e.body, e.meta, e.items, e.kind) for e in given]
    assert [r.position for r in found] == list(range(1, 26))


def test_reading_is_bounded_by_count_and_bytes_but_gives_at_least_one(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(*entries(10, size=1000))
        assert len(journal.read(max_records=3)) == 3
        assert len(journal.read(max_bytes=2500)) == 2
        assert len(journal.read(max_bytes=1)) == 1
        assert [r.position for r in journal.read(after=8)] == [9, 10]


def test_segments_roll_and_positions_go_on(tmp_path: Path) -> None:
    given = filled(tmp_path)
    with Journal(tmp_path) as journal:
        assert len(segments.listing(tmp_path)) > 3
        assert [r.body for r in journal.read(max_records=100, max_bytes=10**9)] == [e.body for e in given]
        assert journal.verify() == []


def test_closed_segments_are_compressed_and_read_the_same(tmp_path: Path) -> None:
    with Journal(tmp_path, segment_bytes=SMALL_SEGMENT, compress=False) as journal:
        for n in range(400):
            journal.append(Entry("test", b"%d " % n * 5000))
        before = journal.read(max_records=1000, max_bytes=10**9)
        size_before = sum(path.stat().st_size for path in tmp_path.glob("segment-*"))
        assert journal.compress_closed(rest_per_work=0) >= 3
        assert journal.read(max_records=1000, max_bytes=10**9) == before
        assert journal.verify() == []
        assert len(plain_segments(tmp_path)) == 1
        assert sum(path.stat().st_size for path in tmp_path.glob("segment-*")) < size_before / 4


def test_a_quiet_segment_is_closed_for_compression_unless_it_is_small(tmp_path: Path) -> None:
    with Journal(tmp_path, segment_bytes=2 * SMALL_SEGMENT, compress=False, quiet_seconds=0.05) as journal:
        journal.append(*entries(3, size=100))
        time.sleep(0.3)
        assert len(segments.listing(tmp_path)) == 1, "a trickle must not become a file each"
        journal.append(*entries(10, size=50_000))
        before = journal.read()
        deadline = time.monotonic() + 10
        while not journal.compress_closed(rest_per_work=0) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert [file.compressed for file in segments.listing(tmp_path)] == [True, False]
        assert journal.append(*entries(1)) == [14]
        assert journal.read()[:13] == before
        assert journal.verify() == []


def test_records_are_acknowledged_though_their_segment_cannot_be_closed(tmp_path: Path) -> None:
    with Journal(tmp_path, segment_bytes=SMALL_SEGMENT, compress=False) as journal:
        journal.append(*entries(1))
        lock = tmp_path / "roll.lock"
        lock.unlink()
        lock.mkdir()  # from here on no segment can be closed, nor one opened
        stored = journal.append(*entries(1, size=2 * SMALL_SEGMENT))
        assert stored == [2]
        with pytest.raises(JournalUnwritable):
            journal.append(*entries(1))
        lock.rmdir()
        assert journal.append(*entries(1)) == [3]
        assert [record.position for record in journal.read()] == [1, 2, 3]
        assert len(segments.listing(tmp_path)) == 2
        assert journal.verify() == []


def test_many_segments_are_read_with_few_files_open(tmp_path: Path) -> None:
    with Journal(tmp_path, segment_bytes=SMALL_SEGMENT, compress=False) as journal:
        for _ in range(3 * OPEN_READERS):
            journal.append(*entries(1, size=SMALL_SEGMENT))
        journal.compress_closed(rest_per_work=0)
        count = 3 * OPEN_READERS
        for after in (0, count // 2, 1, count - 1):
            assert [one.position for one in journal.read(after, max_bytes=10**9)] == list(range(after + 1, count + 1))
        assert sum(total.records for total in journal.totals()) == count
        assert open_below(tmp_path) < 2 * OPEN_READERS


def open_below(folder: Path) -> int:
    """Files in a folder that this process has open."""
    return sum(link.resolve().is_relative_to(folder.resolve()) for link in Path("/proc/self/fd").iterdir())


def test_a_reader_keeps_reading_while_segments_are_compressed_under_it(tmp_path: Path) -> None:
    given = filled(tmp_path)
    with Journal(tmp_path, compress=False) as reader, Journal(tmp_path, compress=False) as other:
        seen = [reader.read(max_records=5)[-1].position]
        other.compress_closed(rest_per_work=0)
        while found := reader.read(after=seen[-1], max_records=5):
            assert found[0].position == seen[-1] + 1
            seen.append(found[-1].position)
    assert seen[-1] == len(given)


def test_cursors_are_named_and_survive(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        assert journal.cursor("loader") == 0
        journal.advance("loader", 7)
        journal.advance("tail", 3)
        journal.advance("loader", 9)
    with Journal(tmp_path) as journal:
        assert journal.cursors() == {"loader": 9, "tail": 3}


def test_totals_count_by_kind(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(Entry("a", b"xx", items=3), Entry("b", b"yyy", items=1), Entry("a", b"z", items=4))
        totals = {t.kind: (t.records, t.items, t.size_bytes) for t in journal.totals()}
    assert totals == {"a": (2, 7, 3), "b": (1, 1, 3)}


def test_concurrent_callers_share_commits(tmp_path: Path) -> None:
    commits = 0

    def counted() -> int:
        nonlocal commits
        commits += 1
        return time.time_ns()

    with Journal(tmp_path, clock_ns=counted) as journal:
        journal.append(Entry("test", b"first"))
        commits = 0
        blocker = sqlite3.connect(plain_segments(tmp_path)[0], isolation_level=None)
        blocker.execute("begin immediate")  # hold the disk so that callers pile up
        threads = [threading.Thread(target=journal.append, args=(Entry("test", b"x"),)) for _ in range(40)]
        for thread in threads:
            thread.start()
        while journal.queued_bytes < 40:
            time.sleep(0.001)
        blocker.execute("rollback")
        blocker.close()
        for thread in threads:
            thread.join()
        assert journal.last_position() == 41
    assert commits <= 2


def test_a_full_queue_refuses_instead_of_growing(tmp_path: Path) -> None:
    from models.errors import JournalBusy

    with Journal(tmp_path, queue_bytes=1000) as journal:
        journal.append(Entry("test", b"first"))
        blocker = sqlite3.connect(plain_segments(tmp_path)[0], isolation_level=None)
        blocker.execute("begin immediate")
        waiting = [journal.submit([Entry("test", b"x" * 400)]) for _ in range(2)]
        with pytest.raises(JournalBusy):
            journal.submit([Entry("test", b"x" * 400)])
        blocker.execute("rollback")
        blocker.close()
        assert [future.result(timeout=30) for future in waiting] == [[2], [3]]
        assert journal.append(Entry("test", b"x" * 5000)) == [4]  # one large entry alone is taken


def test_a_cancelled_caller_does_not_stop_the_writer(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        journal.append(Entry("test", b"first"))
        blocker = sqlite3.connect(plain_segments(tmp_path)[0], isolation_level=None)
        blocker.execute("begin immediate")
        running = journal.submit([Entry("test", b"a")])
        time.sleep(0.05)
        gone = journal.submit([Entry("test", b"b")])
        gone.cancel()
        blocker.execute("rollback")
        blocker.close()
        assert running.result(timeout=30) == [2]
        assert journal.append(Entry("test", b"c"))[0] >= 3


def append_many(folder: Path, seed: int, count: int) -> None:
    with Journal(folder, segment_bytes=SMALL_SEGMENT) as journal:
        source = random.Random(seed)
        for n in range(count):
            journal.append(*[Entry(f"writer-{seed}", source.randbytes(9000), {"n": n}) for _ in range(1 + n % 3)])


def test_several_processes_append_and_read_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=append_many, args=(tmp_path, seed, 60)) for seed in range(3)]
    for writer in writers:
        writer.start()
    seen: list[tuple[str, int]] = []
    with Journal(tmp_path, compress=False) as journal:
        position = 0
        while any(writer.is_alive() for writer in writers) or journal.wait(position, 0):
            for record in journal.read(after=position):
                assert record.position == position + 1
                position = record.position
                seen.append((record.kind, record.meta["n"]))
            journal.compress_closed(rest_per_work=0)
        assert [writer.exitcode for writer in writers] == [0, 0, 0]
        assert journal.verify() == []
    for seed in range(3):
        expected = [n for n in range(60) for _ in range(1 + n % 3)]
        assert [n for kind, n in seen if kind == f"writer-{seed}"] == expected


KILLED_WRITER = """
import sys
from pathlib import Path
from journal import Entry, Journal, Record
journal = Journal(Path(sys.argv[1]), segment_bytes=int(sys.argv[2]))
n = int(sys.argv[3])
while True:
    n += 1
    journal.append(Entry("test", b"%d " % n * 3000, {"n": n}))
    print(n, flush=True)
"""


def test_kill_9_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    source = random.Random(20)
    acknowledged = 0
    for _ in range(12):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED_WRITER, str(tmp_path), str(SMALL_SEGMENT), str(acknowledged + 1000)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        first = int(process.stdout.readline())
        time.sleep(source.uniform(0, 0.15))
        os.kill(process.pid, signal.SIGKILL)
        printed = [first, *(int(line) for line in process.stdout.read().split())]
        process.wait()
        process.stdout.close()
        with Journal(tmp_path, compress=False) as journal:
            assert journal.verify() == []
            stored = {record.meta["n"] for record in everything(journal)}
        assert set(printed) <= stored
        acknowledged = max(printed)


def everything(journal: Journal) -> list[Record]:
    found: list[Record] = []
    while more := journal.read(after=found[-1].position if found else 0):
        found += more
    return found


def test_verify_names_a_changed_record_and_the_others_are_served(tmp_path: Path) -> None:
    given = filled(tmp_path)
    path = plain_segments(tmp_path)[1]
    with sqlite3.connect(path) as connection:
        target = connection.execute("select position from records order by position limit 1 offset 1").fetchone()[0]
        connection.execute("update records set body = ? where position = ?", (b"forged", target))
    connection.close()
    with Journal(tmp_path) as journal:
        problems = journal.verify()
        served = everything(journal)
        assert [(p.problem, p.first_position, p.last_position) for p in problems] == [("changed", target, target)]
        assert [r.body for r in served] == [e.body for n, e in enumerate(given, 1) if n != target]
        assert target in journal.lost


def test_verify_names_a_changed_header_field_and_a_rehashed_forgery(tmp_path: Path) -> None:
    from journal.record import body_digest

    filled(tmp_path, count=6)
    path = plain_segments(tmp_path)[0]
    with sqlite3.connect(path) as connection:
        connection.execute("update records set received_ns = received_ns + 1 where position = 2")
        connection.execute(
            "update records set body = ?, size = 6, body_digest = ? where position = 4",
            (b"forged", body_digest(b"forged")),
        )
    connection.close()
    with Journal(tmp_path) as journal:
        assert [(p.problem, p.first_position) for p in journal.verify()] == [("changed", 2), ("changed", 4)]


def test_verify_names_missing_records_and_a_missing_segment(tmp_path: Path) -> None:
    given = filled(tmp_path)
    paths = plain_segments(tmp_path)
    with sqlite3.connect(paths[0]) as connection:
        connection.execute("delete from records where position in (3, 4)")
    connection.close()
    with sqlite3.connect(paths[2]) as connection:
        first, last = connection.execute("select min(position), max(position) from records").fetchone()
    connection.close()
    paths[2].unlink()
    with Journal(tmp_path) as journal:
        missing = [(p.first_position, p.last_position) for p in journal.verify() if p.problem == "missing"]
        assert (3, 4) in missing
        assert (first, last) in missing
        gone = {3, 4, *range(first, last + 1)}
        assert [r.position for r in everything(journal)] == [n for n in range(1, len(given) + 1) if n not in gone]


@pytest.mark.parametrize("compressed", [False, True])
def test_flipped_bits_anywhere_cost_only_the_records_they_touch(tmp_path: Path, compressed: bool) -> None:
    given = filled(tmp_path, count=40)
    with Journal(tmp_path, compress=False) as journal:
        if compressed:
            journal.compress_closed(rest_per_work=0)
    path = segments.listing(tmp_path)[1].path
    whole = path.read_bytes()
    source = random.Random(7)
    places = [0, 16, 18, 24, 100, 105, segments.PAGE_BYTES + 3] + [source.randrange(len(whole)) for _ in range(25)]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << source.randrange(8)
        path.write_bytes(damaged)
        with Journal(tmp_path, compress=False) as journal:
            served = everything(journal)
            lost = len(given) - len(served)
            assert lost <= 1, f"bit flipped at {place}: {lost} records lost"
            assert all(record.body == given[record.position - 1].body for record in served)
            if lost:
                assert journal.verify(), f"bit flipped at {place}: not noticed"


def test_a_damaged_tree_is_named_and_its_leaves_are_served(tmp_path: Path) -> None:
    given = filled(tmp_path, count=40)
    path = segments.listing(tmp_path)[0].path
    damaged = bytearray(path.read_bytes())
    damaged[:100] = bytes(100)  # the file's header
    path.write_bytes(damaged)
    with Journal(tmp_path, compress=False) as journal:
        assert [record.body for record in everything(journal)] == [entry.body for entry in given]
        assert [problem.problem for problem in journal.verify()] == ["unreadable"]


def test_appending_nothing_is_nothing(tmp_path: Path) -> None:
    with Journal(tmp_path) as journal:
        assert journal.submit([]).result(timeout=20) == []
        assert journal.append(Entry("test", b"x")) == [1]
