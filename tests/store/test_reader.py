"""Reading: the same answers from the file and from a running process."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingUnixStreamServer

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import store
from models.errors import Locked, NoIndex, QueryFailed, SchemaTooNew
from store import Layout, Store, database
from tests.store.frames import BASE_US, event, events, record, records, spans


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with Store.open(tmp_path) as writer:
        writer.append(*spans(100, session="a"), position=1)
        writer.append(*spans(50, first=100, session="b"), position=2)
    return tmp_path


@contextmanager
def index(home: Path) -> Iterator[Store]:
    """A process that has the index open and answers on its socket, in as few lines as it takes."""
    writer = Store.open(home)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            try:
                with writer.cursor() as cursor:
                    table = cursor.sql(asked["sql"], params=asked["params"]).to_arrow_table()
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, table.schema) as stream:
                    stream.write_table(table)
                status, body = 200, sink.getvalue().to_pybytes()
            except duckdb.Error as error:
                status, body = 400, json.dumps({"error": {"message": str(error)}}).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def address_string(self) -> str:
            return "socket"

        def log_message(self, *_: object) -> None:
            return

    with ThreadingUnixStreamServer(str(Layout(home).socket), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield writer
        finally:
            server.shutdown()
            thread.join()
            writer.close()


HOLDER = """
import sys, time
from pathlib import Path
from store import Store
store = Store.open(Path(sys.argv[1]))
print("holding", flush=True)
time.sleep(60)
"""
PROJECT = Path(__file__).resolve().parents[2]

QUERIES = (
    "select * from sessions order by session_id",
    "select * from costs order by all",
    "select * from timeline where session_id = 'b' order by place",
    "select count(*) as n, max(timestamp) as latest from events",
)


def test_the_file_and_the_running_index_give_equal_answers(home: Path) -> None:
    with store.open(home) as reader:
        assert reader.through == "file"
        from_file = [reader.sql(query) for query in QUERIES]
        events = reader.events("a").collect()
    with index(home), store.open(home) as reader:
        assert reader.through == "index"
        assert [reader.sql(query) for query in QUERIES] == from_file
        assert reader.events("a").collect().equals(events)
        assert reader.sql("select ? + 1 as n", [41]).to_pylist() == [{"n": 42}]
    assert from_file[0].num_rows == 2
    assert events.height == 100


def test_events_appended_since_the_last_roll_up_are_read_however_old_they_are(home: Path) -> None:
    def told(second: int, position: int) -> tuple[pa.Table, pl.DataFrame]:
        ids = {"journal_position": position, "session_id": "c"}
        return records(record(f"r{second}", second)), events(event(f"e{second}", "tool.started", second, **ids))

    with index(home) as writer, store.open(home) as reader:
        writer.append(*told(20, 3), position=3)
        writer.refresh()
        writer.append(*told(30, 4), position=4)  # later than all that is rolled up of the session
        writer.append(*told(10, 5), position=5)  # and earlier
        assert writer.stale
        assert set(reader.events("c").collect()["event_id"]) == {"e10", "e20", "e30"}
        assert set(reader.facts("c")["event_id"]) == {"e10", "e20", "e30"}


def test_events_can_be_narrowed(home: Path) -> None:
    start = datetime.fromtimestamp(BASE_US / 1e6, UTC)
    with store.open(home) as reader:
        turns = reader.events(types=["turn.completed"], columns=["event_id", "type"]).collect()
        early = reader.events(until=start + timedelta(milliseconds=9.5)).collect()
        late = reader.events("b", since=start + timedelta(milliseconds=140)).collect()
    assert turns.columns == ["event_id", "type"]
    assert (turns.height, early.height, late.height) == (15, 10, 10)


def test_status_tells_what_is_loaded(home: Path) -> None:
    with store.open(home) as reader:
        status = reader.status()
    assert (status.position, status.records, status.events, status.duplicates) == (2, 150, 150, 0)
    assert status.quarantines == ()


def test_without_a_database_the_error_says_what_to_run(tmp_path: Path) -> None:
    with pytest.raises(NoIndex) as error:
        store.open(tmp_path)
    assert error.value.next_step is not None
    assert "tachograph up" in error.value.next_step


def test_a_file_of_a_newer_program_is_not_touched(home: Path) -> None:
    with database.connect(Layout(home).database) as connection:
        connection.execute("update meta set value = '999' where key = 'schema_version'")
        connection.execute("checkpoint tachograph")
    before = Layout(home).database.read_bytes()
    with pytest.raises(SchemaTooNew):
        store.open(home)
    with pytest.raises(SchemaTooNew):
        Store.open(home)
    assert Layout(home).database.read_bytes() == before


def test_a_wrong_query_is_an_error_of_its_own_on_both_ways(home: Path) -> None:
    with store.open(home) as reader, pytest.raises(QueryFailed, match="sesion"):
        reader.sql("select sesion from sessions")
    with index(home), store.open(home) as reader, pytest.raises(QueryFailed, match="sesion"):
        reader.sql("select sesion from sessions")


def test_the_reader_can_neither_write_nor_reach_other_files(home: Path) -> None:
    with store.open(home) as reader:
        for query in ("delete from events", "select * from read_text('/etc/hostname')", "set memory_limit = '20GB'"):
            with pytest.raises(QueryFailed) as error:
                reader.sql(query)
            assert str(home) not in error.value.reason


def test_a_process_that_holds_the_file_without_answering_is_named_as_the_reason(home: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(home)], stdout=subprocess.PIPE, cwd=PROJECT) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(Locked):
            store.open(home, wait_seconds=0.2)
        holder.kill()


def test_a_damaged_file_is_reported_with_the_way_out(home: Path) -> None:
    Layout(home).database.write_bytes(b"not a database" * 1000)
    with pytest.raises(QueryFailed) as error:
        store.open(home)
    assert error.value.next_step is not None
    assert "tachograph up" in error.value.next_step
