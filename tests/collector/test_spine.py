"""The whole way, from a sender to the tables: everything acknowledged is there, once, whatever dies on the way."""

import contextlib
import json
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import store
from journal import Journal
from models.errors import TachographError
from models.event import Event
from models.payload import Payload
from runtime.samples import sample_session
from runtime.telemetry import ExportSettings, Telemetry
from tests.captures import captures
from tests.collector.test_receiving import PROTOBUF
from tests.running import Collector

KILLS = 20
SENDERS = 4
SPANS = 20


def loaded(home: Path, position: int, timeout: float = 60) -> store.Reader:
    """A reader of the index once it has loaded up to a journal position."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        with contextlib.suppress(TachographError):
            reader = store.open(home)
            if reader.status().position >= position:
                return reader
            reader.close()
        time.sleep(0.05)
    raise AssertionError(f"not loaded up to {position} within {timeout} s")


def last_position(home: Path) -> int:
    with Journal(home / "journal", compress=False) as journal:
        return journal.last_position()


def spans(batch: int) -> bytes:
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = "spine"
    scope = resource.scope_spans.add()
    for number in range(SPANS):
        span = scope.spans.add(
            name="chat m",
            trace_id=(batch + 1).to_bytes(16, "big"),
            span_id=(batch * SPANS + number + 1).to_bytes(8, "big"),
        )
        span.start_time_unix_nano = 1_790_000_000_000_000_000 + batch * 10**9 + number
        span.end_time_unix_nano = span.start_time_unix_nano + 5
        span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
    return request.SerializeToString()


def logs(batch: int) -> bytes:
    """Ten equal lines and one that names the batch: equal lines of one request stay ten."""
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    for _ in range(10):
        records.add(time_unix_nano=1_790_000_000_000_000_000 + batch).body.string_value = "same"
    records.add(time_unix_nano=1_790_000_000_000_000_000 + batch).body.string_value = f"batch {batch}"
    return request.SerializeToString()


class RetryingSender(threading.Thread):
    """Sends each batch until it is acknowledged, and some of them again, as clients do whose answer was lost."""

    def __init__(self, url: str, batches: range, stopping: threading.Event) -> None:
        super().__init__()
        self.url = url
        self.batches = batches
        self.stopping = stopping
        self.acknowledged: list[int] = []

    def run(self) -> None:
        source = random.Random(self.batches.start)
        with httpx.Client(timeout=5) as client:
            for batch in self.batches:
                if self.stopping.is_set():
                    return
                for _ in range(source.choice([1, 1, 1, 2, 5])):
                    self.deliver(client, "traces", spans(batch))
                    self.deliver(client, "logs", logs(batch))
                self.acknowledged.append(batch)

    def deliver(self, client: httpx.Client, signal_name: str, body: bytes) -> None:
        while True:
            with contextlib.suppress(httpx.TransportError):
                if client.post(f"{self.url}/v1/{signal_name}", content=body, headers=PROTOBUF).status_code == 200:
                    return
            time.sleep(0.02)


def test_kill_9_of_receiver_and_index_under_retrying_senders_loses_and_doubles_nothing(tmp_path: Path) -> None:
    source = random.Random(3)
    home = tmp_path / "home"
    stopping = threading.Event()
    with Collector(home, everything=True, TACHOGRAPH_SEGMENT_BYTES=str(4 * 1024 * 1024)) as collector:
        senders = [
            # Two senders each deliver the same batches at the same time.
            RetryingSender(collector.http, range(number % 2 * 10**6, (number % 2 + 1) * 10**6), stopping)
            for number in range(SENDERS)
        ]
        for sender in senders:
            sender.start()
        for kill in range(KILLS):
            time.sleep(source.uniform(0.1, 0.6))
            with contextlib.suppress(AssertionError, ProcessLookupError):  # it may be down already
                os.kill(collector.pid("index" if kill % 2 else "receiver"), signal.SIGKILL)
        time.sleep(1)
        stopping.set()
        for sender in senders:
            sender.join()
        acknowledged = {batch for sender in senders for batch in sender.acknowledged}
        with loaded(home, last_position(home)) as reader:
            counts = reader.sql(
                "select signal, count(*) as n, count(distinct record_id) as ids from records group by 1 order by 1"
            ).to_pylist()
            lines = reader.sql("select count(distinct body) as n from records where signal = 'log'").to_pylist()
            events = reader.sql("select count(*) as n, count(distinct event_id) as ids from events").to_pylist()
    assert len(acknowledged) > KILLS
    n = len(acknowledged)
    assert counts == [
        {"signal": "log", "n": 11 * n, "ids": 11 * n},
        {"signal": "span", "n": SPANS * n, "ids": SPANS * n},
    ]
    assert lines == [{"n": n + 1}]
    assert events == [{"n": SPANS * n, "ids": SPANS * n}]


def test_every_real_body_sent_twice_is_in_the_tables_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    sent = captures()
    with Collector(home, everything=True) as collector, collector.client() as client:
        for capture in [*sent, *sent]:
            headers = {"content-type": capture.content_type}
            assert client.post(f"/v1/{capture.signal}", content=capture.body, headers=headers).status_code == 200
        with loaded(home, last_position(home)) as reader:
            counts = {row["signal"]: row["n"] for row in reader.sql(
                "select signal, count(*) as n from records group by 1"
            ).to_pylist()}  # fmt: skip
    documents = [capture.decoded for capture in sent]
    points = [
        part
        for metric in below(documents, "resourceMetrics", "scopeMetrics", "metrics")
        for kind in ("gauge", "sum", "histogram", "exponentialHistogram", "summary")
        for part in metric.get(kind, {}).get("dataPoints", [])
    ]
    assert counts == {
        "span": len(below(documents, "resourceSpans", "scopeSpans", "spans")),
        "log": len(below(documents, "resourceLogs", "scopeLogs", "logRecords")),
        "metric": len(points),
    }


def below(documents: list[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
    """Everything reached by following lists under the keys."""
    for key in keys:
        documents = [inner for document in documents for inner in document.get(key, [])]
    return documents


@pytest.mark.req("AR-31", "AR-33", "AR-38")
def test_all_113_types_travel_to_the_events_table_and_back_to_an_equal_payload(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Collector(home, everything=True) as collector:
        address = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.http}
        with Telemetry(tmp_path / "runtime", settings=ExportSettings.from_environment(address)) as telemetry:
            emitted = sample_session(telemetry, session_id="sample")
            assert telemetry.flush(60)
        with loaded(home, last_position(home)) as reader:
            rows = reader.sql("select * from events order by sequence").to_pylist()
    assert {event.type for event in emitted} == set(Payload.registry)
    assert [row["event_id"] for row in rows] == [event.event_id for event in emitted]
    assert [row["sequence"] for row in rows] == sorted({row["sequence"] for row in rows})
    for row, event in zip(rows, emitted, strict=True):
        read_back = Event.from_json(
            {"type": row["type"], "event_id": row["event_id"], "timestamp": event.timestamp.isoformat(),
             "payload": json.loads(row["payload"])}
        )  # fmt: skip
        assert type(read_back.payload) is Payload.registry[event.type]
        assert read_back.payload == event.payload
        assert (row["session_id"], row["trace_id"], row["span_id"]) == (event.session_id, event.trace_id, event.span_id)
