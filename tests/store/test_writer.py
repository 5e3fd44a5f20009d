"""Appending: exactly once, whatever is delivered again, and whatever happens in between."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

from models.errors import Locked
from store import Appended, Layout, Store, Undecoded, quarantine
from tests.store import frames
from tests.store.frames import event, events, record, records, spans

PROJECT = Path(__file__).resolve().parents[2]


def rows(store: Store, query: str) -> list[tuple[object, ...]]:
    store.refresh()
    with store.cursor() as cursor:
        return cursor.execute(query).fetchall()


def contents(store: Store) -> dict[str, object]:
    """Every table by the hash of its sorted rows."""
    tables = ("records", "events", "trace_sessions", "session_rollup", "cost_rollup", "session_gaps", "call_links")
    query = "select count(*), md5(string_agg(row, '|' order by row)) from (select t::varchar as row from {} as t)"
    return {table: rows(store, query.format(table)) for table in tables}


def test_appending_the_same_batch_twice_stores_it_once(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        assert store.append(*spans(100), position=1) == Appended(records=100, duplicates=0, events=100)
        assert store.append(*spans(100), position=2) == Appended(records=0, duplicates=100, events=0)
        assert rows(store, "select count(*), count(distinct record_id) from records") == [(100, 100)]
        assert rows(store, "select count(*), count(distinct event_id) from events") == [(100, 100)]
        assert store.position() == 2


def test_a_batch_delivered_again_after_a_restart_is_not_stored_again(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.append(*spans(100), position=1)
    with Store.open(tmp_path) as store:
        assert store.position() == 1
        overlapping = spans(100, first=50)
        assert store.append(*overlapping, position=2) == Appended(records=50, duplicates=50, events=50)


def test_a_record_that_comes_twice_in_one_batch_is_stored_once_with_its_event(tmp_path: Path) -> None:
    twice = [record("r", 1), record("r", 1), record("other", 2)]
    told = [event("e", "tool.result", 1, record_id="r")] * 2 + [event("o", "tool.result", 2, record_id="other")]
    with Store.open(tmp_path) as store:
        assert store.append(records(*twice), events(*told), 1) == Appended(records=2, duplicates=1, events=2)


def test_two_honest_equal_lines_stay_two(tmp_path: Path) -> None:
    lines = records(record("hash#0", 1, signal="log", body='"same"'), record("hash#1", 1, signal="log", body='"same"'))
    with Store.open(tmp_path) as store:
        assert store.append(lines, events(), 1).records == 2
        assert store.append(lines, events(), 2).records == 0


@pytest.mark.parametrize("second", [-1_700_000_000, 16_600_000_000, -86_400 * 30])
def test_records_with_absurd_times_are_stored_once_and_do_not_hide_others(tmp_path: Path, second: int) -> None:
    batch = records(record("now", 0), record("absurd", second), record("soon", 1))
    with Store.open(tmp_path) as store:
        assert store.append(batch, events(), 1).records == 3
        assert store.append(batch, events(), 2).duplicates == 3


def test_records_without_a_time_are_recognised_although_they_are_received_at_another_time(tmp_path: Path) -> None:
    first = records(record("timeless", 0, time_ns=None))
    again = records(record("timeless", 7200, time_ns=None), record("dated", 7200))
    with Store.open(tmp_path) as store:
        store.append(first, events(), 1)
        assert store.append(again, events(), 2) == Appended(records=1, duplicates=1, events=0)


def test_more_scattered_times_than_there_are_windows_are_still_recognised(tmp_path: Path) -> None:
    scattered = records(*(record(f"r{at}", at * 3600) for at in range(100)))
    with Store.open(tmp_path) as store:
        store.append(scattered, events(), 1)
        assert store.append(scattered, events(), 2).duplicates == 100


def test_an_event_that_comes_by_two_ways_is_stored_once(tmp_path: Path) -> None:
    by_log = (
        records(record("log", 5, signal="log")),
        events(event("own", "turn.started", 5, record_id="log", signal="log")),
    )
    by_line = (
        records(record("line", 5, signal="event")),
        events(event("own", "turn.started", 5, record_id="line", signal=None)),
    )
    with Store.open(tmp_path) as store:
        store.append(*by_log, position=1)
        assert store.append(*by_line, position=2) == Appended(records=1, duplicates=0, events=0)


def test_an_event_is_given_the_signal_of_its_record(tmp_path: Path) -> None:
    told = events(event("e", "tool.result", record_id="r", signal=None))
    with Store.open(tmp_path) as store:
        store.append(records(record("r", signal="log")), told, 1)
        assert rows(store, "select signal from events") == [("log",)]


def test_json_is_stored_as_sent_and_addressable_by_key(tmp_path: Path) -> None:
    batch = records(record("r", attributes='{"gen_ai.request.model":"m","n":1.50}'))
    with Store.open(tmp_path) as store:
        store.append(batch, events(), 1)
        found = rows(store, """select attributes ->> '$."gen_ai.request.model"', attributes::varchar from records""")
        assert found == [("m", '{"gen_ai.request.model":"m","n":1.50}')]


def test_what_could_not_be_decoded_is_noted_with_the_position(tmp_path: Path) -> None:
    bad = Undecoded(position=7, kind="otlp.traces", received_us=frames.BASE_US, reason="truncated")
    with Store.open(tmp_path) as store:
        store.append(records(), events(), 7, [bad])
        assert rows(store, "select position, kind, reason from undecoded") == [(7, "otlp.traces", "truncated")]
        assert rows(store, "select position, undecoded from progress") == [(7, 1)]


def test_a_failed_append_stores_nothing(tmp_path: Path) -> None:
    good, told = spans(10)
    with Store.open(tmp_path) as store:
        with pytest.raises(duckdb.Error):
            store.append(good.drop_columns(["kind"]), told, 1)
        assert rows(store, "select count(*) from records") == [(0,)]
        assert store.position() == 0
        assert store.append(good, told, 1).records == 10


def test_reopening_after_a_failure_tells_the_position_of_the_last_checkpoint(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        store.append(*spans(10), position=1)
        store.checkpoint()
        store.append(*spans(10, first=10), position=2)
        assert store.reopen() == 1
        assert store.append(*spans(10, first=10), position=2).records == 10
        assert rows(store, "select count(*) from records") == [(20,)]


def test_a_second_writer_is_told_who_holds_the_index(tmp_path: Path) -> None:
    with Store.open(tmp_path), pytest.raises(Locked) as refusal:
        Store.open(tmp_path)
    assert refusal.value.holder == f"process {os.getpid()}"
    Store.open(tmp_path).close()


LOADER = """
import sys
from pathlib import Path
from store import Store
from tests.store.frames import spans
with Store.open(Path(sys.argv[1])) as store:
    for position in range(store.position() + 1, 61):
        store.append(*spans(200, first=(position - 1) * 150, session=f"s{position // 7}"), position=position)
        if position % 9 == 0:
            store.checkpoint()
        print(position, flush=True)
"""


def load(home: Path, kill_after: int | None) -> None:
    """Load sixty overlapping batches in a process of its own, which may be killed after one of them."""
    with subprocess.Popen(
        [sys.executable, "-c", LOADER, str(home)], cwd=PROJECT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if kill_after is not None and int(line) >= kill_after:
                time.sleep(0.005 * (kill_after % 7))
                process.send_signal(signal.SIGKILL)
                break
    assert process.returncode == (0 if kill_after is None else -signal.SIGKILL)


def test_a_load_killed_at_many_moments_ends_with_the_same_rows_as_one_that_was_not(tmp_path: Path) -> None:
    load(tmp_path / "whole", None)
    for kill_after in (3, 17, 25, 26, 40, 52):
        load(tmp_path / "killed", kill_after)
    load(tmp_path / "killed", None)
    with Store.open(tmp_path / "whole") as whole, Store.open(tmp_path / "killed") as killed:
        assert rows(whole, "select count(*) from records") == [(59 * 150 + 200,)]
        assert contents(killed) == contents(whole)
        assert killed.position() == whole.position() == 60


@pytest.mark.parametrize("batch", [7, 100, 1000])
def test_the_order_and_size_of_batches_makes_no_difference(tmp_path: Path, batch: int) -> None:
    made, told = spans(1000, per_trace=25)
    sent = {row["record_id"]: row for row in told.to_dicts()}
    with Store.open(tmp_path / "whole") as store:
        store.append(made, told, 1)
        whole = contents(store)
    with Store.open(tmp_path / "pieces") as store:
        for start in reversed(range(0, 1000, batch)):
            piece = made.slice(start, batch)
            store.append(piece, told.filter(told["record_id"].is_in(piece["record_id"].to_pylist())), start + 1)
            store.refresh()
        assert len(sent) == 1000
        assert contents(store) == whole


def test_a_file_that_will_not_open_is_put_aside_with_a_note_and_begun_anew(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    with Store.open(tmp_path) as store:
        store.append(*spans(10), position=1)
    damaged = bytearray(layout.database.read_bytes())
    damaged[4096:8192] = os.urandom(4096)
    layout.database.write_bytes(damaged)
    with Store.open(tmp_path) as store:
        assert store.position() == 0
        assert store.append(*spans(10), position=1).records == 10
    (note,) = quarantine.notes(layout)
    assert (layout.quarantine / note.file).read_bytes() == damaged
    assert note.size_bytes == len(damaged)
    assert note.reason
    assert str(tmp_path) not in note.reason


def test_the_writer_reaches_no_other_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    with Store.open(tmp_path) as store, store.cursor() as cursor:
        for query in (
            f"select * from read_text('{secret}')",
            f"attach '{tmp_path / 'x.duckdb'}' as x",
            f"copy events to '{tmp_path / 'x.csv'}'",
            "set memory_limit = '20GB'",
            "install httpfs",
        ):
            with pytest.raises(duckdb.Error):
                cursor.execute(query)


def test_what_the_sender_dropped_is_a_gap(tmp_path: Path) -> None:
    cut = record("cut", session_key="s", extra='{"dropped_attributes_count":3,"dropped_links_count":0,"flags":1}')
    whole = record("whole", session_key="s", extra='{"dropped_attributes_count":0}')
    with Store.open(tmp_path) as store:
        store.append(records(cut, whole), events(), 1)
        found = rows(store, "select kind, subject, detail from gaps")
    assert found == [("truncated", "cut", 'the sender dropped parts of this record: {"dropped_attributes_count":3}')]
