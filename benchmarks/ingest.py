"""The whole way, from HTTP to queryable rows, beside the bare pipeline, in one run.

The bare pipeline is decoding, attribute conversion, translation, the insert of both tables and the checkpoint: no HTTP,
journal, dedupe, redaction or roll-ups.
"""

import multiprocessing
import shutil
import statistics
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

import httpx

from benchmarks.load import requests
from benchmarks.sending import send_from_process
from collector.memory import ALLOCATOR
from tests.running import Collector

SPANS, PER_REQUEST = 122_880, 512
BATCH = 22
"""Requests per batch: about 32 MB, as the loader takes them."""

ROW_GROUP = 122_880


def bare(folder: Path, spans: int = SPANS, per_request: int = PER_REQUEST) -> float:
    """Seconds of the bare pipeline, in a process of its own with the index's allocator settings."""
    context = multiprocessing.get_context("spawn")
    parent, child = context.Pipe()
    with ALLOCATOR.applied():
        process = context.Process(target=_bare, args=(child, folder, spans, per_request))
        process.start()
    seconds: float = parent.recv()
    process.join()
    return seconds


def _bare(pipe: Connection, folder: Path, spans: int, per_request: int) -> None:
    from ingest.dialects import translate
    from ingest.otlp.records import decode
    from journal import Record
    from store import database
    from store.schema import EVENTS, RECORDS, create_table

    folder.mkdir()
    entries = [
        Record(position, "otlp.traces", time.time_ns(), per_request, {"content": "protobuf"}, body)
        for position, body in enumerate(requests(spans, per_request, 1), 1)
    ]
    connection = database.connect(folder / "bare.duckdb")
    connection.execute(create_table("records", RECORDS))
    connection.execute(create_table("events", EVENTS))
    started = time.monotonic()
    batch_size = max(1, BATCH * PER_REQUEST // per_request)
    stored = 0
    for first in range(0, len(entries), batch_size):
        batch = decode(entries[first : first + batch_size])
        found = translate(batch)
        connection.execute("begin")
        for name, table in (("records", batch.records), ("events", found.events.to_arrow())):
            connection.register("incoming", table)
            columns = ", ".join(table.column_names)
            connection.execute(
                f"insert into {name} ({columns}) select {columns} from incoming "
                "positional join (select 1 as nothing where false)"  # by one thread, as the store does
            )
            connection.unregister("incoming")
        connection.execute("commit")
        stored += len(batch)
        if stored >= ROW_GROUP:
            connection.execute("checkpoint")
            stored = 0
    connection.execute("checkpoint")
    pipe.send(time.monotonic() - started)


def whole(folder: Path, spans: int = SPANS, per_request: int = PER_REQUEST) -> tuple[float, float, float]:
    """Seconds from the first byte sent until every span is queryable; of that the wait after the last answer; and
    seconds until the roll-ups and the checkpoint are done too and the collector has ended.

    Only the last is like the bare pipeline's time, which ends with its checkpoint.
    """
    with Collector(folder / "home", everything=True) as collector, collector.client() as client:
        sent = send_from_process(collector.http.removeprefix("http://"), (spans, per_request, 1))
        while _stored(client) < spans:
            time.sleep(0.02)
        waited = time.monotonic() - sent.finished
    return sent.seconds + waited, waited, sent.seconds + time.monotonic() - sent.finished


def _stored(client: httpx.Client) -> int:
    answer = client.post("/v1/query", json={"sql": "select count(*) from events", "format": "json"})
    return int(answer.json()["rows"][0][0]) if answer.status_code == httpx.codes.OK else 0


def main(rounds: int = 3) -> None:
    """Print both rates and their ratio, one after the other in each round."""
    ratios = []
    print(f"{SPANS} spans, {PER_REQUEST} per request, 22 attributes; the sender shares the machine")
    for number in range(rounds):
        folder = Path(tempfile.mkdtemp(prefix="tachograph-bench-"))
        try:
            alone = bare(folder / "bare")
            took, waited, ended = whole(folder)
            size = sum(path.stat().st_size for path in (folder / "home").rglob("*") if path.is_file())
        finally:
            shutil.rmtree(folder)
        ratios.append(alone / ended)
        print(
            f"round {number + 1}: bare {SPANS / alone:,.0f} spans/s; queryable {SPANS / took:,.0f} spans/s, "
            f"{waited:.1f} s after the last answer; checkpointed and ended {SPANS / ended:,.0f} spans/s; "
            f"ratio {alone / ended:.0%}; {size / SPANS:.0f} B per span on disk"
        )
    print(f"whole way / bare pipeline, median of {rounds}: {statistics.median(ratios):.0%} (bar: 50 %)")


if __name__ == "__main__":
    main()
