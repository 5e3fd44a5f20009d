"""Runtimes that send to a collector, and what the collector then holds."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

from ingest.dialects import translate
from ingest.otlp.records import decode
from journal import Journal, Record
from models.event import Correlation, Event, Head
from runtime.telemetry import Endpoint, ExportSettings
from tests.running import Collector

IDS = Correlation(session_id="s-1", thread_id="th-1", turn_id="tu-1")
QUICK = {"linger_s": 0.02, "first_backoff_s": 0.05, "max_backoff_s": 0.3}


def settings(address: str, **other: Any) -> ExportSettings:
    """Send over HTTP to an address such as `http://127.0.0.1:4318`, without long waits."""
    return ExportSettings(
        logs=Endpoint(url=f"{address}/v1/logs"), traces=Endpoint(url=f"{address}/v1/traces"), **(QUICK | other)
    )


def over_grpc(collector: Collector, **endpoint: Any) -> ExportSettings:
    """Send over gRPC."""
    way = Endpoint(url=f"http://{collector.grpc}", protocol="grpc", **endpoint)
    return ExportSettings(logs=way, traces=way, **QUICK)


@dataclass(frozen=True)
class Held:
    """What a collector's journal holds, decoded as the collector itself would."""

    events: list[Event]
    """In the order of arrival, deliveries of the same fact included."""

    spans: list[dict[str, Any]]
    requests: list[Record]

    @property
    def unique(self) -> list[Event]:
        """Each fact once, where it first arrived."""
        return list({event.event_id: event for event in reversed(self.events)}.values())[::-1]


def held(home: Path) -> Held:
    """Read a collector's journal."""
    requests = list(records(home / "journal"))
    batch = decode(requests)
    rows = batch.frame().filter(signal="span").to_dicts()
    return Held([event_of(row) for row in translate(batch).events.to_dicts()], rows, requests)


def records(folder: Path) -> Iterator[Record]:
    """All records of a journal."""
    after = 0
    with Journal(folder, compress=False) as journal:
        while more := journal.read(after):
            yield from more
            after = more[-1].position


def event_of(row: dict[str, Any]) -> Event:
    """An event as a reader of the table sees it."""
    names = set(row) & (set(Head.model_fields) | set(Correlation.model_fields)) - {"timestamp"}
    told = {name: row[name] for name in names if row[name] is not None}
    refs = json.loads(row["refs"]) if row["refs"] else None
    return Event(**told, timestamp=row["timestamp"].replace(tzinfo=UTC), payload=json.loads(row["payload"]), refs=refs)
