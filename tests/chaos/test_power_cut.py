"""Unsynced writes lost or torn under the journal: everything acknowledged is still there, and the journal is whole."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from journal import Journal, segment
from tests.chaos import faults
from tests.chaos.journal_writer import body
from tests.journal.test_journal import everything

PROJECT = Path(__file__).resolve().parents[2]
SEGMENT_BYTES = 40 * segment.PAGE_BYTES


def cut_once(folder: Path, log: Path, name: str, source: random.Random) -> tuple[set[str], int]:
    """Run a writer, leave on disk what a power cut could have; what it acknowledged, and how much was unsure."""
    log.unlink(missing_ok=True)
    disk = faults.Disk(folder)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.journal_writer", str(folder), str(SEGMENT_BYTES), name],
        cwd=PROJECT,
        env=os.environ | faults.environment(folder, log=log),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    first = process.stdout.readline()
    time.sleep(source.uniform(0, 0.08))
    process.kill()
    printed = (first + process.stdout.read()).split("\n")[:-1]
    process.wait()
    process.stdout.close()
    disk.follow(log)
    return set(printed), disk.cut(source)


def cut_often(folder: Path, runs: int, seed: int) -> tuple[int, int]:
    """Power cuts one after the other on one journal; how much it acknowledged, and how much was unsure."""
    source = random.Random(seed)
    acknowledged: set[str] = set()
    unsure = 0
    (folder / "journal").mkdir()
    for run in range(runs):
        printed, changes = cut_once(folder / "journal", folder / "log", f"{seed}.{run}", source)
        acknowledged |= printed
        unsure += changes
        with Journal(folder / "journal", compress=False) as journal:
            assert journal.verify() == [], f"seed {seed}, run {run}"
            stored = {record.meta["name"]: record.body for record in everything(journal)}
        missing = acknowledged - stored.keys()
        assert not missing, f"seed {seed}, run {run}: {len(missing)} acknowledged records are missing"
    assert all(stored[name] == body(name) for name in acknowledged)
    return len(acknowledged), unsure


def test_30_power_cuts_lose_nothing_acknowledged(tmp_path: Path) -> None:
    acknowledged = unsure = 0
    for seed in range(3):
        (tmp_path / str(seed)).mkdir()
        found = cut_often(tmp_path / str(seed), 10, seed)
        acknowledged, unsure = acknowledged + found[0], unsure + found[1]
    assert acknowledged > 300
    assert unsure > 30, "the layer saw no unsynced change: nothing was tested"


@pytest.mark.long
def test_200_power_cuts_lose_nothing_acknowledged(tmp_path: Path) -> None:
    for seed in range(10):
        (tmp_path / str(seed)).mkdir()
        cut_often(tmp_path / str(seed), 20, seed)
