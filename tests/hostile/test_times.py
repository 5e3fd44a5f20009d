"""Times as they should not be: out of order, late, skewed, absurd. The answers are those of the load in order."""

import hashlib
import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.loader import prepare
from journal import Record
from models.event import Event
from store import Store

HOUR_NS = 3_600 * 10**9
DAY_NS = 24 * HOUR_NS
START_NS = 1_790_000_000 * 10**9
LATEST_NS = 2**64 - 1
RELATIONS = ("sessions", "model_calls", "tool_calls", "timeline", "gaps", "costs")
HOSTS = ("agent", "gateway", "tools")


def span(
    trace: int, number: int, parent: int | None, start_ns: int, lasted_ns: int, host: str = "agent", **more: Any
) -> ExportTraceServiceRequest:
    """A request with one span; hosts other than the gateway speak a dialect, the gateway none."""
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    resource.resource.attributes.add(key="service.name").value.string_value = host
    made = resource.scope_spans.add().spans.add(
        trace_id=trace.to_bytes(16, "big"),
        span_id=(trace * 1000 + number).to_bytes(8, "big"),
        parent_span_id=b"" if parent is None else (trace * 1000 + parent).to_bytes(8, "big"),
        start_time_unix_nano=start_ns,
        end_time_unix_nano=max(0, min(start_ns + lasted_ns, LATEST_NS)),
        name=f"{host} {number}",
    )
    told: dict[str, str | int] = {}
    if host == "agent":
        told = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o", "gen_ai.usage.output_tokens": number}
    elif host == "tools":
        told = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "shell"}
    for key, value in (told | more).items():
        target = made.attributes.add(key=key).value
        if isinstance(value, int):
            target.int_value = value
        else:
            target.string_value = value
    return request


def session(
    trace: int, rng: random.Random, skew_ns: dict[str, int], first_ns: int
) -> Iterator[ExportTraceServiceRequest]:
    """A gateway's root, agents below it, tools below them; every host by its own clock."""
    yield span(trace, 1, None, first_ns + skew_ns["gateway"], 60 * 10**9, "gateway")
    for number in range(2, 12):
        host = rng.choice(("agent", "tools"))
        parent = 1 if number < 4 else rng.randrange(1, number)
        start = first_ns + number * 10**9 + skew_ns[host]
        yield span(trace, number, parent, start, rng.randrange(10**6, 10**9), host)


def requests() -> list[ExportTraceServiceRequest]:
    """Honest sessions, skewed ones, late ones, and such whose times are no times at all."""
    rng = random.Random(8)
    found: list[ExportTraceServiceRequest] = []
    for trace in range(1, 41):
        skew = {host: rng.choice((0, 0, -HOUR_NS, HOUR_NS)) for host in HOSTS}
        late = rng.choice((0, 0, 30 * DAY_NS))
        found += session(trace, rng, skew, START_NS - late + trace * 10**9)
    for number, start in enumerate((1, 10**9, 2**63 - 1, 2**63, LATEST_NS - 5, LATEST_NS), 1):
        found.append(span(100 + number, 1, None, start, 10, "agent"))
        found.append(span(100 + number, 2, 1, START_NS, 10, "agent"))
    found.append(span(200, 1, None, START_NS, -5 * 10**9))  # it ends before it starts
    found.append(span(200, 2, 1, START_NS, LATEST_NS))
    found.append(span(201, 1, None, 0, 0))  # told no time: it gets the time of receipt
    return found


def load(folder: Path, sent: Sequence[ExportTraceServiceRequest], per_batch: int) -> Store:
    """The requests in the index as the loader puts them there, so many at a time; each received at the same moment."""
    store = Store.open(folder)
    for first in range(0, len(sent), per_batch):
        entries = [
            Record(at, "otlp.traces", START_NS + DAY_NS, 1, {"content": "protobuf"}, request.SerializeToString())
            for at, request in enumerate(sent[first : first + per_batch], first + 1)
        ]
        prepared = prepare(entries, first)
        assert prepared.undecoded == ()
        store.append(prepared.records, prepared.events, prepared.position, prepared.undecoded)
        store.refresh()
    return store


def rows(store: Store, relation: str) -> list[str]:
    with store.cursor() as cursor:
        return sorted(map(repr, cursor.execute(f"select * from {relation}").fetchall()))


def digests(store: Store) -> dict[str, str]:
    return {name: hashlib.sha256("\n".join(rows(store, name)).encode()).hexdigest() for name in RELATIONS}


@pytest.fixture(scope="module")
def in_order(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with load(tmp_path_factory.mktemp("in order"), requests(), 1000) as store:
        yield store


@pytest.mark.parametrize(("seed", "per_batch"), [(1, 40), (2, 40), (3, 1000), (4, 13)])
def test_any_order_of_arrival_gives_the_answers_of_the_load_in_order(
    tmp_path: Path, in_order: Store, seed: int, per_batch: int
) -> None:
    sent = requests()
    random.Random(seed).shuffle(sent)
    with load(tmp_path, sent, per_batch) as store:
        different = [name for name in RELATIONS if digests(store)[name] != digests(in_order)[name]]
        for name in different:
            ours, theirs = set(rows(store, name)), set(rows(in_order, name))
            print(name, sorted(ours - theirs)[:3], sorted(theirs - ours)[:3])
        assert different == []


def ask(store: Store, query: str) -> list[tuple[Any, ...]]:
    with store.cursor() as cursor:
        return cursor.execute(query).fetchall()


def test_nothing_is_missing_and_no_duration_is_negative(in_order: Store) -> None:
    assert ask(in_order, "select * from gaps where kind = 'missing_parent'") == []
    for relation in ("sessions", "model_calls", "tool_calls", "timeline"):
        assert ask(in_order, f"select count(*) from {relation} where duration_ms < 0") == [(0,)]
    spans = sum(len(one.resource_spans[0].scope_spans[0].spans) for one in requests())
    assert ask(in_order, "select count(*), count(distinct record_id) from records") == [(spans, spans)]


def test_times_are_kept_to_the_nanosecond_from_1970_to_2554(in_order: Store) -> None:
    kept = {row[0] for row in ask(in_order, "select time_ns from records where trace_id < repeat('0', 30) || '6b'")}
    assert {1, 10**9, 2**63 - 1, 2**63, LATEST_NS - 5, LATEST_NS} <= kept
    assert ask(in_order, "select year(max(time)) from records") == [(2554,)]


def marks(store: Store) -> dict[str, str]:
    return {row[0]: row[1] for row in ask(store, "select subject, detail from gaps where kind = 'clock_skew'")}


@pytest.mark.parametrize("skew_ns", [-HOUR_NS, HOUR_NS])
@pytest.mark.parametrize("parent_first", [True, False])
@pytest.mark.parametrize("parent_host", ["gateway", "agent"])
def test_a_parent_whose_clock_is_an_hour_off_is_found_and_the_skew_marked(
    tmp_path: Path, skew_ns: int, parent_first: bool, parent_host: str
) -> None:
    pair = [
        span(1, 1, None, START_NS + skew_ns, 10**9, parent_host),
        span(1, 2, 1, START_NS, 10**6, "agent"),
    ]
    with load(tmp_path, pair if parent_first else pair[::-1], 1) as store:
        assert ask(store, "select kind from gaps where kind <> 'clock_skew'") == []
        late_parent = {"service:agent": "1 spans begin before their parents, by up to 3600 s"}
        assert marks(store) == (late_parent if skew_ns > 0 else {})


@pytest.mark.parametrize(
    ("start_ns", "lasted_ns", "sign"),
    [
        (START_NS, -5 * 10**9, "1 spans end before they begin; how long they took is unknown"),
        (START_NS + 2 * DAY_NS, 10**6, "1 records are dated later than they were received"),
        (LATEST_NS, 0, "1 records are dated later than they were received"),
        (1, 10**6, "1 records are dated before the year 2000"),
    ],
)
def test_a_time_that_cannot_be_is_marked(tmp_path: Path, start_ns: int, lasted_ns: int, sign: str) -> None:
    with load(tmp_path, [span(1, 1, None, start_ns, lasted_ns)], 1) as store:
        assert marks(store) == {"service:agent": sign}
        assert ask(store, "select gaps from sessions") == [(1,)]


def test_honest_times_are_not_marked(tmp_path: Path) -> None:
    rng, late_ns = random.Random(1), 30 * DAY_NS
    sent = list(session(1, rng, dict.fromkeys(HOSTS, 0), START_NS - late_ns))
    with load(tmp_path, sent, 3) as store:
        assert ask(store, "select * from gaps") == []


def numbered(seconds: Sequence[float]) -> list[bytes]:
    """Events of one session with its own count, at the given seconds by its clock."""
    moment = datetime.fromtimestamp(START_NS / 1e9, UTC)
    return [
        Event(type="turn.started", event_id=f"e{at}", timestamp=moment + timedelta(seconds=second), session_id="s",
              sequence=at).to_json()
        for at, second in enumerate(seconds, 1)
    ]  # fmt: skip


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_clock_set_back_mid_session_does_not_change_the_order_and_is_marked(tmp_path: Path, shuffled: bool) -> None:
    lines = numbered([0, 1, 2, -3600, -3599, -3598.5, -3599, 5])
    if shuffled:
        random.Random(3).shuffle(lines)
    with Store.open(tmp_path) as store:
        for at, line in enumerate(lines, 1):
            entry = Record(at, "events", START_NS + DAY_NS, 1, {"content": "json"}, line)
            prepared = prepare([entry], at - 1)
            store.append(prepared.records, prepared.events, prepared.position, prepared.undecoded)
            store.refresh()
        assert ask(store, "select event_id from timeline order by place") == [(f"e{at}",) for at in range(1, 9)]
        told = "the clock goes back while the count goes on: 1 times, by up to 3602 s, first at number 4"
        assert marks(store) == {"e4": told}
        assert ask(store, "select duration_ms from sessions") == [(3605_000.0,)]
