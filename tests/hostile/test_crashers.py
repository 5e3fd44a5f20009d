"""Inputs that once broke something, found by fuzzing: each holds now."""

from pathlib import Path

import pytest

from fuzz.targets import TARGETS

CRASHERS = sorted(path for path in (Path(__file__).parent / "crashers").rglob("*") if path.is_file())


@pytest.mark.parametrize("crasher", CRASHERS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_once_broke_holds(crasher: Path) -> None:
    TARGETS[crasher.parent.name](crasher.read_bytes())


def test_there_are_some() -> None:
    assert CRASHERS
