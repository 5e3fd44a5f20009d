"""What dialects cost: decoding, translating and storing with all of them, with the conventions only, and with none.

Without any, records are decoded and stored and nothing is understood. The share is what of that throughput is lost.
"""

import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.load import requests
from ingest.dialects import Dialect, translate
from ingest.otlp.records import decode
from journal import Record
from store import database
from store.schema import EVENTS, RECORDS, create_table

SPANS, PER_REQUEST, BATCH = 40_960, 512, 20
CONVENTIONS = ("agent_runtime", "openinference", "gen_ai")


def entries() -> list[Record]:
    """The requests of the ingest benchmark as the journal holds them."""
    return [
        Record(position, "otlp.traces", time.time_ns(), PER_REQUEST, {"content": "protobuf"}, body)
        for position, body in enumerate(requests(SPANS, PER_REQUEST, 1), 1)
    ]


def seconds(told: list[Record], spoken: tuple[str, ...]) -> float:
    """Seconds until everything is stored, with these dialects only."""
    kept = dict(Dialect.registry)
    for name in kept.keys() - set(spoken):
        del Dialect.registry[name]
    try:
        with tempfile.TemporaryDirectory() as folder:
            return _stored(told, Path(folder), understand=bool(spoken))
    finally:
        Dialect.registry.clear()
        Dialect.registry.update(kept)


def _stored(told: list[Record], folder: Path, *, understand: bool) -> float:
    connection = database.connect(folder / "bare.duckdb")
    connection.execute(create_table("records", RECORDS))
    connection.execute(create_table("events", EVENTS))
    started = time.perf_counter()
    for at in range(0, len(told), BATCH):
        batch = decode(told[at : at + BATCH])
        tables = {"records": batch.records}
        if understand:
            tables["events"] = translate(batch).events.to_arrow()
        for name, table in tables.items():
            connection.register("incoming", table)
            columns = ", ".join(table.column_names)
            connection.execute(f"insert into {name} ({columns}) select {columns} from incoming")
            connection.unregister("incoming")
    connection.execute("checkpoint")
    took = time.perf_counter() - started
    connection.close()
    return took


def main(rounds: int = 3) -> None:
    """Print the throughput of each, and the share that understanding costs."""
    told = entries()
    rows = {"no dialect": (), "conventions": CONVENTIONS, "all dialects": tuple(Dialect.registry)}
    seconds(told, CONVENTIONS)
    times: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(rounds):
        for name, spoken in rows.items():
            times[name].append(seconds(told, spoken))
    bare = statistics.median(times["no dialect"])
    for name, took in times.items():
        one = statistics.median(took)
        print(f"{name:13} {one:6.2f} s, {SPANS / one:9,.0f} spans/s, {1 - bare / one:6.1%} of the throughput")


if __name__ == "__main__":
    main()
