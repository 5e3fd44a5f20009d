"""The receiver beside the bare append of the same bytes with the same SQLite settings, in one run."""

import shutil
import statistics
import tempfile
import time
from contextlib import closing
from pathlib import Path

from benchmarks.load import requests
from benchmarks.sending import send_from_process
from journal import segment
from journal.record import GENESIS, Sealed
from tests.running import Collector

SPANS, PER_REQUEST = 102_400, 512


def bare_append(folder: Path, bodies: list[bytes]) -> float:
    """Seconds for one commit per body, nothing else."""
    folder.mkdir()
    segment.create(folder, 1, 1, GENESIS, 0)
    (file,) = segment.listing(folder)
    with closing(segment.connect(file, write=True)) as connection:
        started = time.monotonic()
        for position, body in enumerate(bodies, 1):
            row = Sealed(position, "otlp.traces", 0, PER_REQUEST, len(body), "{}", GENESIS, GENESIS, "none", body)
            connection.execute("begin immediate")
            segment.insert(connection, [row])
            connection.execute("commit")
        return time.monotonic() - started


def main(rounds: int = 3) -> None:
    """Print both rates and their ratio, interleaved."""
    bodies = list(requests(SPANS, PER_REQUEST, 1))
    size = sum(map(len, bodies))
    ratios = []
    print(f"{len(bodies)} requests of {PER_REQUEST} spans, {size / SPANS:.0f} B per span, 4 connections")
    for number in range(rounds):
        folder = Path(tempfile.mkdtemp(prefix="tachograph-bench-"))
        try:
            bare = bare_append(folder / "bare", bodies)
            with Collector(folder / "home") as collector:
                sent = send_from_process(collector.http.removeprefix("http://"), (SPANS, PER_REQUEST, 1))
                memory = collector.peak_rss_mb()
        finally:
            shutil.rmtree(folder)
        ratios.append(bare / sent.seconds)
        print(
            f"round {number + 1}: bare append {size / bare / 1e6:.0f} MB/s, {SPANS / bare:,.0f} spans/s; receiver "
            f"{size / sent.seconds / 1e6:.0f} MB/s, {SPANS / sent.seconds:,.0f} spans/s; "
            f"ratio {bare / sent.seconds:.0%}; {sent.retries} retries; receiver memory {memory:.0f} MB"
        )
    print(f"receiver / bare append, median of {rounds}: {statistics.median(ratios):.0%} (bar: 40 %)")


if __name__ == "__main__":
    main()
