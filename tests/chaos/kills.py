"""kill -9 at random moments: one part after the other of a collector under load, then the check of everything."""

import contextlib
import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from collector.home import Home
from tests.chaos.history import Clients, check_journal, check_tables
from tests.running import Collector

PARTS = ("receiver", "receiver", "index", "index", "supervisor")
SMALL_SEGMENTS = {"TACHOGRAPH_SEGMENT_BYTES": str(2 * 1024 * 1024)}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did."""

    seed: int
    kills: Counter[str]
    acknowledged: int
    unknown: int
    refused: int
    seconds: float


def run(home: Path, kills: int, seed: int) -> Outcome:
    """Kill so many times and check; raises AssertionError with the seed where a promise is broken."""
    source = random.Random(seed)
    started = time.monotonic()
    killed: Counter[str] = Counter()
    collector = Collector(home, everything=True, **SMALL_SEGMENTS)
    port = collector.http.rsplit(":", 1)[1]
    try:
        with Clients(collector.http, seed) as history:
            while killed.total() < kills:
                time.sleep(source.uniform(0.02, 0.3))
                part = source.choice(PARTS)
                if part == "supervisor":
                    collector.kill()
                    collector = Collector(home, "--otlp-http", f"127.0.0.1:{port}", everything=True, **SMALL_SEGMENTS)
                    killed[part] += 1
                else:
                    killed[part] += _kill(home, part)
        assert collector.stop() == 0
        position = check_journal(home, history)
        collector = Collector(home, everything=True, **SMALL_SEGMENTS)
        check_tables(home, history, position)
    except AssertionError as broken:
        raise AssertionError(f"seed {seed}: {broken}") from broken
    finally:
        if collector.process.poll() is None:
            collector.stop()
    took = time.monotonic() - started
    return Outcome(seed, killed, len(history.ok), len(history.unknown), len(history.refused), took)


def _kill(home: Path, part: str) -> int:
    """Kill a part if it runs; how many were killed."""
    for process in Home(home).processes():
        if process["role"] == part:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process["pid"], signal.SIGKILL)
                return 1
    return 0
