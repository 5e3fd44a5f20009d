"""Clients that remember how each request ended, and the check of what they remember against journal and tables."""

import random
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import store
from journal import Journal
from models.errors import TachographError
from tests.collector.test_receiving import PROTOBUF

SPANS = 8
FILLINGS = (20, 20, 500, 500, 8_000, 25_000)
"""Bytes of padding, twice in hex, in each span: requests of 1 to 400 KB."""

BASE_NS = 1_790_000_000_000_000_000


def request(number: int) -> bytes:
    """A body that is made from its number, so that every span of it can be named again."""
    body = ExportTraceServiceRequest()
    scope = body.resource_spans.add().scope_spans.add()
    filling = random.Random(number).randbytes(random.Random(number).choice(FILLINGS)).hex()
    for at in range(SPANS):
        span = scope.spans.add(
            name="chat m",
            trace_id=(number + 1).to_bytes(16, "big"),
            span_id=(number * SPANS + at + 1).to_bytes(8, "big"),
        )
        span.start_time_unix_nano = BASE_NS + number * 10**6 + at
        span.end_time_unix_nano = span.start_time_unix_nano + 5
        span.attributes.add(key="gen_ai.operation.name").value.string_value = "chat"
        span.attributes.add(key="filling").value.string_value = filling
    return body.SerializeToString()


@dataclass
class History:
    """How the requests ended, by their numbers."""

    ok: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    """Answered with 503; nothing may be concluded about the journal but that a client tries again."""

    unknown: set[int] = field(default_factory=set)
    """No answer: it may or may not be stored."""

    wrong: Counter[int] = field(default_factory=Counter)
    """Answers that may never be given, by status."""

    no_retry_after: int = 0


class Client(threading.Thread):
    """Sends requests one after the other, and some of them again, until it is told to stop."""

    def __init__(self, url: str, numbers: range, history: History, seed: int) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.history = history
        self.stopping = threading.Event()
        self._numbers = iter(numbers)
        self._source = random.Random(seed)

    def run(self) -> None:
        with httpx.Client(timeout=10) as client:
            for number in self._numbers:
                for _ in range(self._source.choice((1, 1, 1, 2))):
                    if self.stopping.is_set():
                        return
                    self.send(client, number)

    def send(self, client: httpx.Client, number: int) -> None:
        """One try; how it ended is kept."""
        try:
            answer = client.post(f"{self.url}/v1/traces", content=request(number), headers=PROTOBUF)
        except httpx.TransportError:
            self.history.unknown.add(number)
            time.sleep(0.03)
            return
        if answer.status_code == httpx.codes.OK:
            self.history.ok.add(number)
        elif answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            self.history.refused.add(number)
            self.history.no_retry_after += "retry-after" not in answer.headers
            time.sleep(0.03)
        else:
            self.history.wrong[answer.status_code] += 1


class Clients:
    """Several clients and their common history; use as a context."""

    def __init__(self, url: str, seed: int = 1, count: int = 3, first: int = 0) -> None:
        self.history = History()
        starts = [n * 10**6 + first for n in range(count)]
        self._clients = [Client(url, range(start, start + 10**5), self.history, seed * 100 + start) for start in starts]

    def __enter__(self) -> History:
        for client in self._clients:
            client.start()
        return self.history

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.stopping.set()
        for client in self._clients:
            client.join()


def span_ids(numbers: set[int]) -> set[str]:
    """The ids of every span of the requests."""
    return {(number * SPANS + at + 1).to_bytes(8, "big").hex() for number in numbers for at in range(SPANS)}


def check_journal(home: Path, history: History) -> int:
    """The journal is whole and holds every acknowledged request; its last position."""
    with Journal(home / "journal", compress=False) as journal:
        assert journal.verify() == []
        stored = set()
        after = 0
        while found := journal.read(after):
            stored |= {record.body for record in found}
            after = found[-1].position
    missing = [number for number in history.ok if request(number) not in stored]
    assert not missing, f"{len(missing)} acknowledged requests are not in the journal: {missing[:5]}"
    return after


def await_loaded(home: Path, position: int, timeout: float = 60) -> store.Reader:
    """A reader of the index once it has loaded up to a journal position."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        try:
            reader = store.open(home, wait_seconds=0.5)
            if reader.status().position >= position:
                return reader
            reader.close()
        except TachographError:
            pass  # it is starting, or being opened anew
        time.sleep(0.05)
    raise AssertionError(f"not loaded up to {position} within {timeout} s")


def check_tables(home: Path, history: History, position: int) -> None:
    """Every acknowledged span is in the tables once; nothing is there that nobody sent, nothing twice."""
    with await_loaded(home, position) as reader:
        rows = reader.sql("select span_id, count(*) as n from records group by 1").to_pylist()
        events = reader.sql("select count(*) as n, count(distinct event_id) as ids from events").to_pylist()[0]
    found = {row["span_id"]: row["n"] for row in rows}
    missing = span_ids(history.ok) - found.keys()
    assert not missing, f"{len(missing)} acknowledged spans are not in the tables"
    doubled = [span for span, n in found.items() if n > 1]
    assert not doubled, f"{len(doubled)} spans are in the tables twice"
    assert found.keys() <= span_ids(history.ok | history.unknown | history.refused)
    assert events == {"n": len(found), "ids": len(found)}
    assert history.wrong == Counter()
    assert history.no_retry_after == 0
