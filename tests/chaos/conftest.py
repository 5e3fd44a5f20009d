"""Fixtures of the fault tests."""

import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.loader import rebuild
from journal.segment import PAGE_BYTES
from tests.captures import captures
from tests.chaos import parts
from tests.chaos.tables import digests, fill


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    """Whatever a failed test leaves running is ended."""
    yield
    for part in list(parts.RUNNING):
        part.close()


@pytest.fixture
def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def untroubled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with all captured bodies in its journal and its tables, made without any trouble."""
    home = tmp_path_factory.mktemp("untroubled")
    fill(home / "journal", captures(), segment_bytes=12 * PAGE_BYTES)
    rebuild(home)
    return home


@pytest.fixture(scope="session")
def expected(untroubled: Path) -> dict[str, object]:
    """The digests of its tables."""
    return digests(untroubled)


@pytest.fixture
def home(untroubled: Path, tmp_path: Path) -> Path:
    """A home with its journal and no tables."""
    shutil.copytree(untroubled / "journal", tmp_path / "home" / "journal")
    return tmp_path / "home"
