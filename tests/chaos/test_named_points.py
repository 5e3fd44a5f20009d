"""kill -9 at named points, each several times: nothing acknowledged is missing, nothing is doubled."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from collector.loader import rebuild
from journal import Journal, segment
from models.failpoints import VARIABLE
from store import Layout, Store, database
from store.migrations import version_of
from store.schema import VERSION
from tests.chaos import faults, parts
from tests.chaos.history import Clients, check_journal, check_tables
from tests.chaos.tables import digests, load
from tests.running import tachograph

SMALL_SEGMENTS = {"TACHOGRAPH_SEGMENT_BYTES": str(40 * segment.PAGE_BYTES)}
PROJECT = Path(__file__).resolve().parents[2]


JOURNAL_POINTS = ("journal.inserted", "journal.committed", "journal.rolling", "journal.rolled")
STORE_POINTS = ("store.inserted", "store.committed", "store.checkpointing", "store.checkpointed")
LOAD = """
import sys
from pathlib import Path
from store import Store
from tests.chaos.tables import load
with Store.open(Path(sys.argv[1])) as store:
    load(Path(sys.argv[1]), store)
"""


def run(code: str, path: Path, **environment: str) -> int:
    """Run a program in a process of its own; its exit code."""
    command = [sys.executable, "-c", code, str(path)]
    return subprocess.run(command, cwd=PROJECT, env=os.environ | environment, check=False).returncode


def die_at_journal_points(home: Path, port: int, hits: int) -> None:
    """A receiver under load that dies at each point, again and again, and then one that does not."""
    with Clients(f"http://127.0.0.1:{port}") as history:
        for hit in range(hits):
            for point in JOURNAL_POINTS:
                nth = 1 + hit % 3 if "roll" in point else 1 + 7 * hit
                dying = parts.receiver(home, port, **SMALL_SEGMENTS, **{VARIABLE: f"{point}:{nth}"})
                assert dying.died(30), f"{point} was not reached {nth} times"
                assert dying.process.returncode == -signal.SIGKILL
                dying.close()
        last = parts.receiver(home, port, **SMALL_SEGMENTS)
        known = len(history.ok)
        while len(history.ok) < known + 20:
            assert last.alive
    assert last.end() == 0
    position = check_journal(home, history)
    index = parts.index(home)
    check_tables(home, history, position)
    assert index.end() == 0


def test_a_receiver_that_dies_at_points_of_the_journal_loses_nothing(tmp_path: Path, free_port: int) -> None:
    die_at_journal_points(tmp_path / "home", free_port, 2)


@pytest.mark.long
def test_a_receiver_that_dies_at_points_of_the_journal_20_times_loses_nothing(tmp_path: Path, free_port: int) -> None:
    die_at_journal_points(tmp_path / "home", free_port, 20)


@pytest.mark.parametrize("point", ["journal.compressing", "journal.compressed", "journal.compressed.published"])
@pytest.mark.parametrize("nth", [1, 2])
def test_compression_that_is_cut_short_loses_nothing(home: Path, point: str, nth: int) -> None:
    code = (
        "import sys; from pathlib import Path; from journal import Journal; "
        "Journal(Path(sys.argv[1]), compress=False).compress_closed(rest_per_work=0)"
    )
    with Journal(home / "journal", compress=False) as journal:
        before = journal.read(max_records=10**6, max_bytes=10**9)
    assert run(code, home / "journal", **{VARIABLE: f"{point}:{nth}"}) == -signal.SIGKILL
    with Journal(home / "journal", compress=False) as journal:
        assert journal.verify() == []
        assert journal.read(max_records=10**6, max_bytes=10**9) == before
        journal.compress_closed(rest_per_work=0)
    with Journal(home / "journal", compress=False) as journal:
        assert journal.verify() == []
        assert journal.read(max_records=10**6, max_bytes=10**9) == before
        assert [file.compressed for file in segment.listing(home / "journal")].count(False) == 1


@pytest.mark.parametrize("nth", [1, pytest.param(2, marks=pytest.mark.long)])
@pytest.mark.parametrize("point", STORE_POINTS)
def test_a_load_that_dies_at_a_point_ends_with_equal_tables(
    home: Path, expected: dict[str, object], point: str, nth: int
) -> None:
    code = run(LOAD, home, **{VARIABLE: f"{point}:{nth}"})
    assert code == -signal.SIGKILL or (nth == 2 and code == 0)
    assert run(LOAD, home, **{VARIABLE: point}) in (-signal.SIGKILL, 0)
    with Store.open(home) as store:
        load(home, store)
    assert digests(home) == expected


def die_at_writes(home: Path, nths: Sequence[int]) -> int:
    """Loads that are killed at their nth write to the database file; how many were."""
    codes = [run(LOAD, home, **faults.environment(home, kill=f"tachograph.duckdb:{nth}")) for nth in nths]
    assert set(codes) <= {0, -signal.SIGKILL}
    with Store.open(home) as store:
        load(home, store)
    return sum(code != 0 for code in codes)


def test_kills_at_writes_of_a_checkpoint_end_with_equal_tables(home: Path, expected: dict[str, object]) -> None:
    assert die_at_writes(home, (2, 7, 12)) == 3
    assert digests(home) == expected


@pytest.mark.long
def test_kills_at_14_writes_of_a_checkpoint_end_with_equal_tables(home: Path, expected: dict[str, object]) -> None:
    for nth in range(1, 41, 3):
        Layout(home).database.unlink(missing_ok=True)
        die_at_writes(home, (nth,))
        assert digests(home) == expected, f"killed at write {nth}"


@pytest.mark.parametrize("point", ["store.inserted", "store.rebuilt", "store.rebuilt.swapped"])
def test_a_rebuild_that_is_cut_short_leaves_a_whole_index(home: Path, expected: dict[str, object], point: str) -> None:
    rebuild(home)
    assert tachograph("rebuild", home=home, **{VARIABLE: point}).returncode == -signal.SIGKILL
    assert digests(home) == expected
    rebuild(home)
    assert digests(home) == expected
    assert [path.name for path in (home / "index").iterdir() if "rebuilding" in path.name] == []


MIGRATE = """
import sys
from pathlib import Path
from store.migrations import migrate
from store.schema import VERSION
steps = {VERSION + n: lambda c, n=n: c.execute(f"alter table undecoded add column more{n} integer") for n in range(2)}
migrate(Path(sys.argv[1]), target=VERSION + 2, migrations=steps)
"""


@pytest.mark.parametrize(
    ("point", "reached"),
    [
        ("store.migrated.step", VERSION),
        ("store.migrated.step:2", VERSION),
        ("store.migrated", VERSION),
        ("store.migrated.kept", VERSION),
        ("store.migrated.swapped", VERSION + 2),
    ],
)
def test_a_migration_that_is_cut_short_is_done_again_or_was_done(
    untroubled: Path, tmp_path: Path, expected: dict[str, object], point: str, reached: int
) -> None:
    home = tmp_path / "home"
    shutil.copytree(untroubled, home)
    path = Layout(home).database
    assert run(MIGRATE, path, **{VARIABLE: point}) == -signal.SIGKILL
    assert version(path) == reached
    assert run(MIGRATE, path) == 0
    assert version(path) == VERSION + 2
    assert digests(home) | {"undecoded": 0, "meta": 0} == expected | {"undecoded": 0, "meta": 0}


def version(path: Path) -> int | None:
    with database.connect(path, read_only=True) as connection:
        return version_of(connection)
