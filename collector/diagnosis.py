"""Checks of the machine and the home folder, each with what mends it."""

import os
import shutil
import sqlite3
import stat
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError

from collector import addresses
from collector.home import Home
from collector.tokens import TokenStore
from journal import Entry, Journal
from models.address import Address
from models.errors import TachographError
from models.settings import MIB, Settings
from store import Layout, quarantine

LOW_DISK_BYTES = 1024 * MIB
EARLIEST_CREDIBLE_S = 1_700_000_000


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the diagnosis."""

    name: str
    ok: bool
    detail: str
    fix: str = ""


def diagnose(settings: Settings) -> Iterator[Check]:
    """Every check in turn; none changes what is recorded."""
    home = Home(settings.home)
    for name, examine in (
        ("home folder", _folder),
        ("disk room", _room),
        ("clock", _clock),
        ("tokens", _tokens),
        ("journal", _journal),
        ("durable write", _durable),
        ("index", _index),
        ("receiver", _receiver),
        ("ports", _ports),
    ):
        yield _examined(name, lambda examine=examine: examine(home, settings))  # type: ignore[misc]


def _examined(name: str, examine: Callable[[], tuple[bool, str, str]]) -> Check:
    try:
        return Check(name, *examine())
    except TachographError as problem:
        return Check(name, False, problem.message, problem.next_step or "")
    except (OSError, sqlite3.Error) as problem:
        return Check(name, False, str(problem), "see the message")


def _folder(home: Home, _: Settings) -> tuple[bool, str, str]:
    if not home.path.is_dir():
        return True, f"{home.path} does not exist yet; `tachograph up` makes it", ""
    mode = stat.S_IMODE(home.path.stat().st_mode)
    if mode & 0o077:
        return False, f"{home.path} can be read by others (mode {mode:o})", f"chmod 700 {home.path}"
    if not os.access(home.path, os.W_OK):
        return False, f"{home.path} cannot be written", "run as its owner"
    return True, str(home.path), ""


def _existing(path: Path) -> Path:
    return path if path.exists() else _existing(path.parent)


def _room(home: Home, _: Settings) -> tuple[bool, str, str]:
    free = shutil.disk_usage(_existing(home.path)).free
    return free >= LOW_DISK_BYTES, f"{free / 1e9:.1f} GB free", "free some disk room: a full disk refuses new records"


def _clock(_: Home, __: Settings) -> tuple[bool, str, str]:
    now = time.time()
    return now > EARLIEST_CREDIBLE_S, time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(now)), "set the system clock"


def _tokens(home: Home, _: Settings) -> tuple[bool, str, str]:
    if not home.tokens.exists():
        return True, "none: ports on loopback are open to this machine, other addresses stay closed", ""
    mode = stat.S_IMODE(home.tokens.stat().st_mode)
    if mode & 0o077:
        return False, f"{home.tokens} can be read by others (mode {mode:o})", f"chmod 600 {home.tokens}"
    return True, f"{len(TokenStore(home.tokens).list())} on file", ""


def _journal(home: Home, _: Settings) -> tuple[bool, str, str]:
    if not home.journal.is_dir():
        return True, "empty", ""
    with Journal(home.journal, compress=False) as journal:
        last = journal.last_position()
        journal.read(after=max(0, last - 100))
        if journal.lost:
            return False, "; ".join(map(str, journal.lost.values())), "run `tachograph journal verify`"
    return True, f"{last} records, the newest 100 are whole", ""


def _durable(home: Home, _: Settings) -> tuple[bool, str, str]:
    if not home.path.is_dir():
        return True, "not tried: no home folder yet", ""
    trial = home.path / f"doctor-{os.getpid()}"
    try:
        with Journal(trial, compress=False) as journal:
            started = time.perf_counter()
            for _number in range(10):
                journal.append(Entry("doctor", b"x" * 20_000))
            each_ms = (time.perf_counter() - started) * 100
    finally:
        shutil.rmtree(trial, ignore_errors=True)
    return each_ms < 100, f"{each_ms:.1f} ms per commit", "put the home folder on a faster disk"


def _index(home: Home, _: Settings) -> tuple[bool, str, str]:
    """Damage is mended by itself; it is told because it speaks of the disk."""
    notes = quarantine.notes(Layout(home.path))
    if not notes:
        return True, "never damaged", ""
    told = (
        f"{len(notes)} damaged file(s) put aside, the last at {notes[-1].time:%Y-%m-%d %H:%M:%SZ}: {notes[-1].reason}"
    )
    return False, told, f"check the disk; then remove {Layout(home.path).quarantine}: the tables were made again"


def _receiver(home: Home, _: Settings) -> tuple[bool, str, str]:
    running = [process for process in home.processes() if process["role"] == "receiver"]
    if not running:
        return True, "not running; `tachograph up` starts it", ""
    for process in running:
        try:
            with urllib.request.urlopen(f"http://{process['http']}/readyz", timeout=3) as answer:
                answer.read()
        except (URLError, OSError) as problem:
            return False, f"pid {process['pid']} at {process['http']} does not answer: {problem}", "restart it"
    return True, f"{len(running)} ready at {', '.join(process['http'] for process in running)}", ""


def _ports(home: Home, settings: Settings) -> tuple[bool, str, str]:
    if any(process["role"] == "receiver" for process in home.processes()):
        return True, "in use by the receiver", ""
    for text in (settings.otlp_http, settings.otlp_grpc):
        addresses.bind(Address.parse(text)).close()
    return True, f"{settings.otlp_http} and {settings.otlp_grpc} are free", ""
