"""Making the index again from the journal, beside the bare pipeline, in one run.

The bare pipeline is that of `benchmarks.ingest`. A rebuild also reads the journal, checks every hash, finds what is
stored already and makes the roll-ups.
"""

import multiprocessing
import shutil
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.ingest import PER_REQUEST, SPANS, bare
from benchmarks.load import requests
from collector.memory import ALLOCATOR

BAR = 0.7


def rebuilt(home: Path, spans: int = SPANS, per_request: int = PER_REQUEST) -> float:
    """Seconds that a rebuild takes, in a process of its own with the index's allocator settings."""
    context = multiprocessing.get_context("spawn")
    parent, child = context.Pipe()
    with ALLOCATOR.applied():
        process = context.Process(target=_rebuild, args=(child, home, spans, per_request))
        process.start()
    seconds: float = parent.recv()
    process.join()
    return seconds


def _rebuild(pipe: Connection, home: Path, spans: int, per_request: int) -> None:
    from collector.loader import rebuild
    from journal import Entry, Journal

    with Journal(home / "journal", compress=False) as journal:
        for body in requests(spans, per_request, 1):
            journal.append(Entry("otlp.traces", body, {"content": "protobuf"}, per_request))
    started = time.monotonic()
    rebuild(home)
    pipe.send(time.monotonic() - started)


def main(rounds: int = 3) -> None:
    """Print both rates and their ratio, one after the other in each round."""
    ratios = []
    print(f"{SPANS} spans, {PER_REQUEST} per request, 22 attributes")
    for number in range(rounds):
        folder = Path(tempfile.mkdtemp(prefix="tachograph-bench-"))
        try:
            alone, took = bare(folder / "bare"), rebuilt(folder / "home")
        finally:
            shutil.rmtree(folder)
        ratios.append(alone / took)
        print(
            f"round {number + 1}: bare {SPANS / alone:,.0f} spans/s; rebuild {SPANS / took:,.0f} spans/s; "
            f"ratio {alone / took:.0%}"
        )
    print(f"rebuild / bare pipeline, median of {rounds}: {statistics.median(ratios):.0%} (bar: {BAR:.0%})")


if __name__ == "__main__":
    main()
