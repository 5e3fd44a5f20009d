"""More than can be taken: refused with the one answer that asks to come back, and nothing accepted is lost."""

import contextlib
import http.client
import itertools
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import grpc
import httpx
import pytest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans

from tests.collector.test_receiving import PROTOBUF, call, one_span
from tests.collector.test_spine import last_position, loaded
from tests.ingest.otlp.otlp_messages import field
from tests.running import Collector

SPANS = 5
PADDING_BYTES = 100_000
IN_FLIGHT_BYTES = 2_000_000
"""The whole budget of the overloaded receiver: twenty requests."""

OVERLOAD = 3
RECEIVER_MB = 300
DRAIN_SECONDS = 10
LOADED_SECONDS = 240
"""A minute of it is 16 GB of rows, because each span has the padding of its resource."""

RESOURCE = Resource()
RESOURCE.attributes.add(key="service.name").value.string_value = "flood"
RESOURCE.attributes.add(key="padding").value.string_value = "x" * PADDING_BYTES
PADDED = field(0x0A, RESOURCE.SerializeToString())


def body(batch: int) -> bytes:
    """A request of 100 KB, most of it padding that costs its sender nothing; its spans are like no other's."""
    scope = ScopeSpans()
    for number in range(SPANS):
        made = scope.spans.add(
            name="chat m",
            trace_id=(batch + 1).to_bytes(16, "big"),
            span_id=(batch * SPANS + number + 1).to_bytes(8, "big"),
            start_time_unix_nano=1_790_000_000_000_000_000 + batch,
            end_time_unix_nano=1_790_000_000_000_000_005 + batch,
        )
        made.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
    return field(0x0A, PADDED + field(0x12, scope.SerializeToString()))


class Flood:
    """Senders that send as fast as they can, keep count of the answers and never try again."""

    def __init__(self, collector: Collector, connections: int, numbers: "itertools.count[int]") -> None:
        self.answers: Counter[str] = Counter()
        self.accepted: list[int] = []
        self._collector = collector
        self._numbers = numbers
        self._stop = threading.Event()
        kinds = [self._grpc if at % 4 == 3 else self._http for at in range(connections)]
        self._threads = [threading.Thread(target=kind) for kind in kinds]

    def __enter__(self) -> "Flood":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _http(self) -> None:
        address = self._collector.http.removeprefix("http://")
        with contextlib.closing(http.client.HTTPConnection(address, timeout=30)) as connection:
            while not self._stop.is_set():
                batch = next(self._numbers)
                try:
                    connection.request("POST", "/v1/traces", body(batch), PROTOBUF)
                    answer = connection.getresponse()
                    answer.read()
                except (OSError, http.client.HTTPException):
                    connection.close()
                    self.answers["closed"] += 1
                    time.sleep(0.01)
                    continue
                self.answers[str(answer.status)] += 1
                if answer.status == httpx.codes.OK:
                    self.accepted.append(batch)
                elif not answer.headers["retry-after"]:
                    self.answers["no Retry-After"] += 1

    def _grpc(self) -> None:
        with grpc.insecure_channel(self._collector.grpc, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            while not self._stop.is_set():
                batch = next(self._numbers)
                try:
                    call(channel, "traces", body(batch))
                except grpc.RpcError as refusal:
                    self.answers[refusal.code().name] += 1
                    time.sleep(0.01)
                else:
                    self.answers["OK"] += 1
                    self.accepted.append(batch)


def stored(home: Path) -> set[str]:
    """The traces in the index, each with all its spans."""
    with loaded(home, last_position(home), LOADED_SECONDS) as reader:
        rows = reader.sql("select trace_id, count(*) as n from records group by 1").to_pylist()
    assert {row["n"] for row in rows} <= {SPANS, 1}
    return {row["trace_id"] for row in rows if row["n"] == SPANS}


def traces(batches: list[int]) -> set[str]:
    return {f"{batch + 1:032x}" for batch in batches}


@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
def test_three_times_what_fits_is_refused_politely_and_nothing_accepted_is_lost(tmp_path: Path, seconds: int) -> None:
    home, numbers = tmp_path / "home", itertools.count()
    fitting = IN_FLIGHT_BYTES // len(body(0))
    with Collector(home, everything=True, TACHOGRAPH_IN_FLIGHT_BYTES=str(IN_FLIGHT_BYTES)) as collector:
        pid = collector.pid()
        with Flood(collector, OVERLOAD * fitting, numbers) as flood:
            time.sleep(seconds)
        with collector.client() as client:
            started = time.monotonic()
            assert client.post("/v1/traces", content=one_span(), headers=PROTOBUF).status_code == 200
            assert time.monotonic() - started < 5
            recovered = time.monotonic() - started
        assert collector.pid() == pid, "it recovered by itself"
        peak_mb = collector.peak_rss_mb()
        assert peak_mb < RECEIVER_MB
        found = stored(home)
    print(f"{seconds} s: {dict(flood.answers)}; peak {peak_mb:.0f} MB; the next answer after {recovered:.2f} s")
    assert set(flood.answers) <= {"200", "503", "OK", "UNAVAILABLE"}, flood.answers
    assert all(flood.answers[kind] > 0 for kind in ("200", "503", "OK", "UNAVAILABLE")), flood.answers
    assert found == traces(flood.accepted)


def test_ended_under_load_it_drains_in_time_and_keeps_all_it_accepted(tmp_path: Path) -> None:
    home, numbers = tmp_path / "home", itertools.count()
    collector = Collector(home, everything=True)
    parts = [collector.pid(role) for role in ("receiver", "index")]
    with Flood(collector, 8, numbers) as flood:
        time.sleep(1.5)
        started = time.monotonic()
        collector.process.send_signal(signal.SIGTERM)
        assert collector.process.wait(timeout=30) == 0
        took = time.monotonic() - started
    print(f"drained in {took:.1f} s: {dict(flood.answers)}")
    assert took < DRAIN_SECONDS
    for pid in parts:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 0)
            raise AssertionError("a part outlived it")
    assert collector.process.stdout is not None
    collector.process.stdout.close()
    assert set(flood.answers) <= {"200", "503", "OK", "UNAVAILABLE", "CANCELLED", "closed"}, flood.answers
    assert flood.accepted
    with Collector(home, everything=True):
        assert traces(flood.accepted) <= stored(home)
