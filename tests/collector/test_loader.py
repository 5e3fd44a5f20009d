"""The loader: the whole journal in the tables, once, whatever single bodies hold and whatever fails on the way."""

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.loader import Loader, rebuild
from journal import Entry, Journal
from store import Appended, Layout, Store, Undecoded
from tests.captures import REAL, Capture, captures

PROJECT = Path(__file__).resolve().parents[2]
TABLES = (
    "records",
    "events",
    "trace_sessions",
    "session_rollup",
    "cost_rollup",
    "session_gaps",
    "call_links",
    "undecoded",
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def entry(capture: Capture) -> Entry:
    return Entry(f"otlp.{capture.signal}", capture.body, {"content": capture.encoding})


def fill(home: Path, entries: Sequence[Entry]) -> None:
    with Journal(Layout(home).journal, compress=False) as journal:
        for one in entries:
            journal.append(one)


def load(home: Path, store: Store) -> Loader:
    with Journal(Layout(home).journal, compress=False) as journal:
        loader = Loader(journal, store)
        loader.catch_up()
        loader.close()
    return loader


def ask(store: Store, query: str) -> list[tuple[Any, ...]]:
    with store.cursor() as cursor:
        return cursor.execute(query).fetchall()


def contents(store: Store) -> dict[str, object]:
    """Every table by the hash of its sorted rows."""
    query = "select count(*), md5(string_agg(row, '|' order by row)) from (select t::varchar as row from {} as t)"
    return {table: ask(store, query.format(table)) for table in TABLES}


def trace(*spans: tuple[str, str]) -> Entry:
    """A request of spans, each a trace id and a span id of hex digits."""
    request = ExportTraceServiceRequest()
    scope = request.resource_spans.add().scope_spans.add()
    for trace_id, span_id in spans:
        span = scope.spans.add(trace_id=bytes.fromhex(trace_id), span_id=bytes.fromhex(span_id), name="work")
        span.start_time_unix_nano = 1_763_450_000_000_000_000 + int(span_id, 16)
        span.end_time_unix_nano = span.start_time_unix_nano + 1000
    return Entry("otlp.traces", request.SerializeToString(), {"content": "protobuf"})


def traces(count: int) -> list[Entry]:
    return [trace((f"{at:032x}", f"{at * 2:016x}"), (f"{at:032x}", f"{at * 2 + 1:016x}")) for at in range(1, count + 1)]


def sent(run: str) -> Counter[str]:
    """How many spans, log records and data points a run's bodies hold, counted without our decoder."""
    count: Counter[str] = Counter()
    for capture in captures():
        if capture.run == run:
            for node in walk(capture.decoded):
                count["span"] += len(node.get("spans", ()))
                count["log"] += len(node.get("logRecords", ()))
                count["metric"] += len(node.get("dataPoints", ()))
    return count


def walk(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from walk(value)
    elif isinstance(node, list):
        for value in node:
            yield from walk(value)


@pytest.mark.parametrize("run", sorted({capture.run for capture in captures()}))
def test_everything_a_real_client_sent_is_stored_once_though_sent_twice(home: Path, run: str) -> None:
    bodies = [entry(capture) for capture in captures() if capture.run == run]
    fill(home, bodies + bodies)
    with Store.open(home) as store:
        load(home, store)
        assert dict(ask(store, "select signal, count(*) from records group by signal")) == dict(+sent(run))
        assert ask(store, "select count(*) from undecoded") == [(0,)]


TOLD = (
    "agent_framework",
    "anthropic_oi",
    "google_adk",
    "langgraph",
    "litellm",
    "pydantic_ai",
    "smolagents",
    "strands",
    "traceloop",
)
"""Clients that speak GenAI or OpenInference and record what the model used."""

LOCAL = {"langgraph/fakemodel", "pydantic_ai/testmodel"}
"""Runs of a model inside the client, of which the server that counts knows nothing."""


@pytest.mark.parametrize(
    "run",
    sorted(run for run in {capture.run for capture in captures()} if run.split("/")[0] in TOLD and run not in LOCAL),
)
def test_model_calls_add_up_to_what_the_model_server_counted(home: Path, run: str) -> None:
    fill(home, [entry(capture) for capture in captures() if capture.run == run])
    expected = json.loads((REAL / run / "expected.json").read_text())
    with Store.open(home) as store:
        load(home, store)
        calls = ask(
            store,
            """
            select count(*) filter (where status = 'completed'), count(*) filter (where status = 'failed'), count(*),
                sum(uncached_input_tokens), sum(cache_read_tokens), sum(cache_write_tokens), sum(output_tokens)
            from model_calls
            """,
        )[0]
        rolled = ask(store, "select sum(model_calls), sum(output_tokens) from sessions")[0]
    good, bad = expected["llm_calls_ok"], len(expected["llm_calls_failed"])
    assert calls[:3] == (good, bad, good + bad)
    names = ("uncached_input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")
    assert [value or 0 for value in calls[3:]] == [expected[name] for name in names]
    assert (rolled[0], rolled[1] or 0) == (good + bad, expected["output_tokens"])


def test_a_body_that_cannot_be_decoded_is_noted_and_the_others_are_loaded(home: Path) -> None:
    good = traces(6)
    bad = [
        Entry("otlp.traces", b"\xff\xff\xff", {"content": "protobuf"}),
        Entry("otlp.logs", b"{", {"content": "json"}),
    ]
    fill(home, [*good[:3], bad[0], *good[3:], bad[1], Entry("who.knows", b"?")])
    with Store.open(home) as store:
        load(home, store)
        assert ask(store, "select count(*) from records") == [(12,)]
        assert ask(store, "select position, kind from undecoded order by position") == [
            (4, "otlp.traces"),
            (8, "otlp.logs"),
            (9, "who.knows"),
        ]
        assert all(reason for (reason,) in ask(store, "select reason from undecoded"))
        assert store.position() == 9


class Failing(Store):
    """A store that fails the way DuckDB does."""

    refuses: str | None = None
    fails_after_commit: int = 0

    def append(
        self,
        records: pa.Table,
        events: pa.Table | pl.DataFrame,
        position: int,
        undecoded: Sequence[Undecoded] = (),
    ) -> Appended:
        if self.refuses in records["span_id"].to_pylist():
            raise duckdb.ConversionException("a value that no table takes")
        stored = super().append(records, events, position, undecoded)
        if self.fails_after_commit:
            self.fails_after_commit -= 1
            self.checkpoint()
            raise duckdb.FatalException("COMMIT succeeded and is durable, but what followed failed")
        return stored


def test_a_commit_that_failed_but_was_stored_is_not_stored_again(home: Path) -> None:
    fill(home, traces(5))
    with Failing.open(home) as store:
        store.fails_after_commit = 2
        load(home, store)
        assert ask(store, "select count(*), count(distinct record_id) from records") == [(10, 10)]
        assert ask(store, "select records, duplicates from progress") == [(10, 0)]


def test_a_record_that_cannot_be_stored_is_passed_over_and_named(home: Path) -> None:
    fill(home, traces(9))
    with Failing.open(home) as store:
        store.refuses = f"{2 * 5:016x}"
        load(home, store)
        assert ask(store, "select count(*) from records") == [(16,)]
        assert ask(store, "select position, reason from undecoded") == [
            (5, "cannot be stored: a value that no table takes")
        ]


def test_a_damaged_database_is_put_aside_and_filled_again(home: Path) -> None:
    fill(home, traces(20))
    with Store.open(home) as store:
        load(home, store)
        whole = contents(store)
    path = Layout(home).database
    damaged = bytearray(path.read_bytes())
    damaged[12288 : 12288 + 8192] = bytes(8192)
    path.write_bytes(damaged)
    with Store.open(home) as store:
        load(home, store)
        assert contents(store) == whole
    assert len(list(Layout(home).quarantine.glob("*.duckdb"))) == 1


def test_a_rebuild_gives_equal_tables(home: Path) -> None:
    fill(home, [entry(capture) for capture in captures()] + traces(5))
    with Store.open(home) as store:
        load(home, store)
        before = contents(store)
        assert ask(store, "select count(*) > 1000 from records") == [(True,)]
    told: list[int] = []
    rebuild(home, told.append)
    with Store.open(home) as store:
        assert contents(store) == before
    assert told[-1] == store_position(home)
    assert [path.name for path in Layout(home).database.parent.iterdir() if "rebuilding" in path.name] == []


def store_position(home: Path) -> int:
    with Store.open(home) as store:
        return store.position()


RUN = """
import sys, threading
from pathlib import Path
from collector.loader import Loader
from journal import Journal
from store import Layout, Store
home = Path(sys.argv[1])
with Store.open(home) as store, Journal(Layout(home).journal, compress=False) as journal:
    loader = Loader(journal, store)
    while loader.step():
        if store.position() % 3 == 0:
            store.checkpoint()
        print(store.position(), flush=True)
    loader.close()
"""


def test_a_loader_killed_again_and_again_ends_with_equal_tables(home: Path) -> None:
    code = RUN.replace("home = Path", "import collector.loader; collector.loader.BATCH_RECORDS = 5\nhome = Path")
    bodies = [entry(capture) for capture in captures()]
    fill(home / "whole", bodies)
    shutil.copytree(home / "whole", home / "killed")
    last = 0
    for _ in range(6):
        with subprocess.Popen(
            [sys.executable, "-c", code, str(home / "killed")], cwd=PROJECT, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if int(line) > last + 9:
                    last = int(line)
                    process.send_signal(signal.SIGKILL)
                    break
    with Store.open(home / "whole") as whole, Store.open(home / "killed") as killed:
        load(home / "whole", whole)
        load(home / "killed", killed)
        assert contents(killed) == contents(whole)
        assert ask(killed, "select count(*) = count(distinct record_id) from records") == [(True,)]


def test_what_is_acknowledged_can_be_asked_for_within_a_second(home: Path) -> None:
    stop = threading.Event()
    with Store.open(home) as store, Journal(Layout(home).journal, compress=False) as journal:
        loader = Loader(journal, store)
        thread = threading.Thread(target=loader.run, args=(stop,))
        thread.start()
        try:
            for at, one in enumerate(traces(3), 1):
                journal.append(one)
                acknowledged = time.monotonic()
                while ask(store, "select count(*) from records") != [(2 * at,)]:
                    assert time.monotonic() - acknowledged < 1.0
                    time.sleep(0.01)
        finally:
            stop.set()
            thread.join()
        assert store.written
