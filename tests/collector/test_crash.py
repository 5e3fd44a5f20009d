"""What two receivers of one home acknowledged is in the journal, once and whole."""

import random
import threading
import time
from pathlib import Path

import httpx
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

from tests.collector.test_receiving import PROTOBUF, journaled
from tests.running import Collector

SENDERS = 4


def body(name: str, size: int) -> bytes:
    request = trace_service_pb2.ExportTraceServiceRequest()
    span = request.resource_spans.add().scope_spans.add().spans.add(name=name, trace_id=b"t" * 16, span_id=b"s" * 8)
    span.attributes.add(key="filling").value.string_value = random.Random(name).randbytes(size // 2).hex()
    return request.SerializeToString()


class Sender(threading.Thread):
    """Sends without end and remembers what was acknowledged."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(name=name)
        self.url = url
        self.acknowledged: list[bytes] = []
        self.stopping = threading.Event()

    def run(self) -> None:
        source = random.Random(self.name)
        with httpx.Client(timeout=10) as client:
            for step in range(1_000_000):
                content = body(f"{self.name}-{step}", source.choice([200, 3_000, 60_000, 400_000]))
                if self.stopping.is_set():
                    return
                try:
                    answer = client.post(f"{self.url}/v1/traces", content=content, headers=PROTOBUF)
                except httpx.TransportError:
                    return  # unknown: it may or may not be stored
                if answer.status_code == 200:
                    self.acknowledged.append(content)


def test_two_receivers_on_one_home_lose_and_tear_nothing(tmp_path: Path) -> None:
    small = str(4 * 1024 * 1024)
    with (
        Collector(tmp_path / "home", TACHOGRAPH_SEGMENT_BYTES=small) as one,
        Collector(tmp_path / "home", TACHOGRAPH_SEGMENT_BYTES=small) as other,
    ):
        senders = [Sender((one, other)[number % 2].http, f"s{number}") for number in range(SENDERS)]
        for sender in senders:
            sender.start()
        time.sleep(2)
        for sender in senders:
            sender.stopping.set()
            sender.join()
    stored = [record.body for record in journaled(tmp_path / "home")]
    acknowledged = [content for sender in senders for content in sender.acknowledged]
    assert len(acknowledged) > 50
    assert sorted(stored) == sorted(acknowledged)
