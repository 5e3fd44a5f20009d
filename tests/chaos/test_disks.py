"""Disks that are full, fail or may not be written: 503 with Retry-After, alive, and by itself back when they are."""

import errno
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import store
from models.errors import NoIndex, QueryFailed
from store import Layout
from tests.chaos import faults, parts
from tests.chaos.history import Clients, History, check_journal, check_tables

RESUME_SECONDS = 10.0
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small volume needs root")


@contextmanager
def volume(path: Path, size: str) -> Iterator[None]:
    """A small file system of its own at a path."""
    path.mkdir(parents=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", path], check=False)
    if mounted.returncode:
        pytest.skip("this machine does not let us mount a volume")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def resize(path: Path, size: str) -> None:
    subprocess.run(["mount", "-o", f"remount,size={size}", path], check=True)


def until(what: Callable[[], bool], seconds: float, why: str) -> float:
    """Wait for something; how long it took."""
    started = time.monotonic()
    while not what():
        assert time.monotonic() - started < seconds, why
        time.sleep(0.02)
    return time.monotonic() - started


def refuses(history: History, receiver: parts.Part) -> None:
    """New requests are refused, none is acknowledged, and the process lives."""

    def only_refusals() -> bool:
        acknowledged, known = len(history.ok), len(history.refused)
        time.sleep(0.3)  # a small request may still find room after a large one did not
        return len(history.ok) == acknowledged and len(history.refused) > known + 5

    until(only_refusals, 30, "requests were acknowledged, or nothing was refused")
    assert receiver.alive


def resumes(history: History) -> None:
    """New requests are acknowledged again, soon."""
    acknowledged = len(history.ok)
    until(lambda: len(history.ok) > acknowledged + 5, RESUME_SECONDS, "it did not resume by itself")


def index_status(home: Path) -> dict[str, Any]:
    transport = httpx.HTTPTransport(uds=str(Layout(home).socket))
    with httpx.Client(transport=transport, timeout=20) as client:
        answer: dict[str, Any] = client.get("http://index/v1/index").raise_for_status().json()
        return answer


def in_file(home: Path) -> int:
    """How far the database file has come; 0 if there is none."""
    try:
        with store.open(home) as reader:
            return reader.status().position
    except (NoIndex, QueryFailed):
        return 0


@root_only
def test_a_full_journal_volume_refuses_and_resumes(tmp_path: Path, free_port: int) -> None:
    home = tmp_path / "home"
    with volume(home / "journal", "3m"):
        receiver = parts.receiver(home, free_port)
        with Clients(f"http://127.0.0.1:{free_port}") as history:
            refuses(history, receiver)
            resize(home / "journal", "200m")
            resumes(history)
        assert receiver.end() == 0
        position = check_journal(home, history)
        index = parts.index(home)
        check_tables(home, history, position)
        assert index.end() == 0


@root_only
def test_a_full_database_volume_stops_only_loading_and_doubles_nothing(tmp_path: Path, free_port: int) -> None:
    home = tmp_path / "home"
    with volume(home / "index", "2m"):
        receiver, index = parts.receiver(home, free_port), parts.index(home)
        with Clients(f"http://127.0.0.1:{free_port}") as history:
            until(lambda: len(history.ok) > 300, 30, "nothing was received")
        index.process.terminate()  # it writes everything to the file before it ends: there is no room
        assert index.process.wait(30) == 0, index.log.read_text()
        index.close()
        position = check_journal(home, history)
        assert in_file(home) < position, "the volume was not too small: nothing was tested"
        full = parts.index(home)
        until(lambda: (index_status(home)["loaded"] or 0) > 0, 30, "nothing was loaded")
        resize(home / "index", "200m")
        check_tables(home, history, position)
        assert receiver.alive
        assert not history.refused
        assert [full.end(), receiver.end()] == [0, 0]
        assert in_file(home) == position
        check_tables(home, history, position)


@root_only
def test_full_temporary_space_matters_to_nobody(tmp_path: Path, free_port: int) -> None:
    home, space = tmp_path / "home", tmp_path / "space"
    with volume(space, "64k"):
        (space / "filling").write_bytes(bytes(64 * 1024))
        temporary = {"TMPDIR": str(space), "SQLITE_TMPDIR": str(space)}
        receiver, index = parts.receiver(home, free_port, **temporary), parts.index(home, **temporary)
        with Clients(f"http://127.0.0.1:{free_port}") as history:
            until(lambda: len(history.ok) > 100, 30, "nothing was received")
        check_tables(home, history, check_journal(home, history))
        assert not history.refused
        assert [receiver.end(), index.end()] == [0, 0]


def test_failing_writes_are_refused_or_waited_out_and_nothing_is_lost(tmp_path: Path, free_port: int) -> None:
    home, control = tmp_path / "home", tmp_path / "control"
    layer = faults.environment(home, control=control)
    receiver, index = parts.receiver(home, free_port, **layer), parts.index(home, **layer)
    with Clients(f"http://127.0.0.1:{free_port}") as history:
        resumes(history)
        for code in (errno.EIO, errno.ENOSPC, errno.EROFS):
            control.write_text(f"/journal/ {code}")
            refuses(history, receiver)
            control.unlink()
            resumes(history)
    control.write_text(f"tachograph.duckdb {errno.EIO}")  # met at the checkpoint that follows when all is quiet
    until(lambda: index_status(home)["trouble"] is not None, 30, "the index told no trouble")
    with Clients(f"http://127.0.0.1:{free_port}", first=len(history.ok) + 10**5) as more:
        resumes(more)  # receiving does not need the index
    assert index.alive
    assert not more.refused
    control.unlink()
    history.ok |= more.ok
    assert receiver.end() == 0
    check_tables(home, history, check_journal(home, history))
    assert index.end() == 0
    with store.open(home) as reader:
        assert reader.through == "file"
        assert reader.status().position == check_journal(home, history)
