"""The index process: loads what is journaled, tells how far it is, streams events, survives damage to its file."""

import json
import os
import re
import signal
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import store
from collector.problems import Problem
from collector.stream import Cursor
from models.errors import QueryFailed
from tests.collector.asking import answered, ask, event, loaded, rows, send
from tests.running import Collector, tachograph


@pytest.fixture
def collector(tmp_path: Path) -> Iterator[Collector]:
    with Collector(tmp_path / "home", everything=True) as running:
        yield running


@pytest.fixture
def client(collector: Collector) -> Iterator[httpx.Client]:
    with collector.client() as found:
        yield found


def test_what_is_sent_can_be_asked_within_a_second(client: httpx.Client) -> None:
    send(client, event(1))
    loaded(client)
    started = time.monotonic()
    send(client, event(2), event(3))
    while rows(client, "select count(*) from events") != [[3]]:
        assert time.monotonic() - started < 2
    while rows(client, "select session_id, events from sessions") != [["s1", 3]]:
        assert time.monotonic() - started < 3


def test_status_tells_what_is_loaded_and_what_waits(collector: Collector, client: httpx.Client) -> None:
    send(client, event(1))
    send(client, event(1))
    send(client, event(2))
    told = loaded(client)
    assert {name: told[name] for name in ("loaded", "records", "events", "duplicates", "undecoded")} == {
        "loaded": 3,
        "records": 2,
        "events": 2,
        "duplicates": 1,
        "undecoded": 0,
    }
    assert (told["lag"], told["trouble"], told["quarantines"]) == ({"records": 0, "seconds": 0.0}, None, [])
    shown = json.loads(tachograph("status", "--json", home=collector.home).stdout)
    assert (shown["index"]["running"], shown["index"]["loaded"]) == (True, 3)
    assert collector.stop() == 0
    with Collector(collector.home) as alone, alone.client() as other:
        send(other, event(3))
    shown = json.loads(tachograph("status", "--json", home=collector.home).stdout)
    index = shown["index"]
    assert (index["running"], index["loaded"], index["lag"]["records"], index["events"]) == (False, 3, 1, 2)


def test_the_socket_is_for_its_owner_only_and_a_stale_one_does_not_matter(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for _ in range(2):
        collector = Collector(home, everything=True)
        path = home / "index.sock"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        with collector.client() as client:
            answered(client)
        collector.kill()
        assert path.exists()


def test_a_home_too_deep_for_a_socket_is_said_clearly(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60) / "home"
    shown = tachograph("up", "--no-dashboard", "--otlp-http", "127.0.0.1:0", "--otlp-grpc", "127.0.0.1:0", home=deep)
    assert shown.returncode == 2
    assert "too long for a Unix socket" in shown.stderr


def test_the_reader_of_the_store_goes_through_the_running_index(collector: Collector, client: httpx.Client) -> None:
    send(client, *(event(number) for number in range(12_000)))
    loaded(client)
    with store.open(collector.home) as reader:
        assert reader.through == "index"
        assert reader.frame("select event_id from events").height == 12_000  # more than a guest would get
        assert reader.events("s1", types=["tool.started"]).collect().height == 12_000
        assert reader.status().position == 1


def test_sigterm_loads_what_was_acknowledged_and_closes_the_file(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "home", everything=True)
    with collector.client() as client:
        for start in range(0, 5_000, 500):
            send(client, *(event(number) for number in range(start, start + 500)))
    started = time.monotonic()
    assert collector.stop() == 0
    assert time.monotonic() - started < 10
    assert not (tmp_path / "home" / "index.sock").exists()
    with store.open(tmp_path / "home") as reader:
        assert (reader.through, reader.status().events) == ("file", 5_000)


def test_kill_9_of_the_index_loses_nothing_and_doubles_nothing(collector: Collector, client: httpx.Client) -> None:
    for number in range(60):
        send(client, event(number))
        if number % 20 == 10:
            answered(client)
            os.kill(collector.pid("index"), signal.SIGKILL)
    assert answered(client) < 10
    loaded(client)
    assert rows(client, "select count(*), count(distinct event_id) from events") == [[60, 60]]


BLOCK_BYTES = 262_144
WHOLE_ROWS = "select count(*), count(distinct event_id), count(payload) from events"


def damage_rows(home: Path) -> None:
    """Flip a bit in a block that holds rows: the file still opens, and reading the rows shows the damage."""
    database = store.Layout(home).database
    content = database.read_bytes()
    for block in range(12_288, len(content), BLOCK_BYTES):
        database.write_bytes(content[: block + 100] + bytes([content[block + 100] ^ 1]) + content[block + 101 :])
        try:
            with store.open(home, wait_seconds=0) as reader:
                reader.status()
                with pytest.raises(QueryFailed, match="checksum"):
                    reader.sql(WHOLE_ROWS)
                return
        except (QueryFailed, pytest.fail.Exception):
            continue  # a block without rows, or one that opening needs
    raise AssertionError("no block holds rows")


def test_damage_met_by_a_query_puts_the_file_aside_and_the_journal_fills_a_new_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Collector(home, everything=True) as collector, collector.client() as client:
        send(client, *(event(number) for number in range(20_000)))
        loaded(client)
    damage_rows(home)
    with Collector(home, everything=True) as collector, collector.client() as client:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            answer = ask(client, WHOLE_ROWS)
            if answer.status_code == 200 and answer.json()["rows"] == [[20_000, 20_000, 20_000]]:
                break
            assert answer.status_code in (200, 503), answer.text
            time.sleep(0.1)
        else:
            raise AssertionError(answer.text)
        told = loaded(client)
        assert len(told["quarantines"]) == 1
        assert str(home) not in json.dumps(told)


# --- the stream ---------------------------------------------------------------------------------------------------


class Follower(threading.Thread):
    """Reads a stream until told to stop; keeps the ids and events it got."""

    def __init__(self, collector: Collector, path: str = "/v1/stream", after: str | None = None) -> None:
        super().__init__(daemon=True)
        self.collector = collector
        self.path = path
        self.after = after
        self.ids: list[str] = []
        self.events: list[dict[str, Any]] = []
        self.ends: list[dict[str, Any]] = []
        self.follows = threading.Event()
        self.stopping = threading.Event()
        self.start()
        assert self.follows.wait(10)

    def run(self) -> None:
        while not self.stopping.is_set():
            headers = {"last-event-id": self.after} if self.after else {}
            try:
                with self.collector.client() as client, client.stream("GET", self.path, headers=headers) as answer:
                    if answer.status_code == 200:
                        self._read(answer)
            except httpx.TransportError:
                pass  # as a browser: connect again
            time.sleep(0.05)

    def _read(self, answer: httpx.Response) -> None:
        kind = ""
        for line in answer.iter_lines():
            self.follows.set()
            name, _, value = line.partition(": ")
            if name == "id":
                self.after = value
                self.ids.append(value)
            elif name == "event":
                kind = value
            elif name == "data":
                (self.ends if kind == "end" else self.events).append(json.loads(value))
            elif not line:
                kind = ""
            if self.stopping.is_set():
                return

    def wait_for(self, count: int) -> list[str]:
        deadline = time.monotonic() + 15
        while len(self.events) < count and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.3)  # and no more than these
        self.stopping.set()
        return [event["event_id"] for event in self.events]


def test_the_stream_tells_new_events_with_all_they_hold(collector: Collector, client: httpx.Client) -> None:
    send(client, event(1))
    loaded(client)
    follower = Follower(collector)
    send(client, event(2), event(3, "s2"))
    assert follower.wait_for(2) == ["s1-000002", "s2-000003"]
    first = follower.events[0]
    assert (first["type"], first["session_id"], first["sequence"]) == ("tool.started", "s1", 2)
    assert first["timestamp"] == "2026-01-01T00:00:02Z"
    assert first["payload"] == {"tool_name": "read_file"}
    assert "model" not in first


def test_the_stream_can_be_filtered_and_begun_at_the_start(collector: Collector, client: httpx.Client) -> None:
    send(client, event(1), event(2, "s2"), event(3, "s2", "tool.completed"), event(4, "s3", "tool.completed"))
    loaded(client)
    assert Follower(collector, "/v1/stream?after=0.0").wait_for(4) == [
        "s1-000001",
        "s2-000002",
        "s2-000003",
        "s3-000004",
    ]
    assert Follower(collector, "/v1/stream?session=s2&session=s3", "0.0").wait_for(3) == [
        "s2-000002",
        "s2-000003",
        "s3-000004",
    ]
    assert Follower(collector, "/v1/stream?session=s2&type=tool.completed", "0.0").wait_for(1) == ["s2-000003"]


def test_resuming_at_every_event_neither_misses_nor_doubles(collector: Collector, client: httpx.Client) -> None:
    for start in (0, 4, 8):
        send(client, *(event(number) for number in range(start, start + 4)))
    loaded(client)
    whole = Follower(collector, after="0.0")
    ids = whole.wait_for(12)
    assert len(ids) == len(set(ids)) == 12
    for at in (0, 2, 3, 4, 10):
        assert Follower(collector, after=whole.ids[at]).wait_for(11 - at) == ids[at + 1 :]


def test_a_stream_longer_than_a_piece_and_restarts_of_the_index_in_it(
    collector: Collector, client: httpx.Client
) -> None:
    follower = Follower(collector, after="0.0")
    for start in range(0, 3_000, 250):
        send(client, *(event(number) for number in range(start, start + 250)))
        if start in (500, 1_500):
            time.sleep(0.3)
            os.kill(collector.pid("index"), signal.SIGKILL)
            answered(client)
    assert follower.wait_for(3_000) == [f"s1-{number:06}" for number in range(3_000)]


def test_the_cursor_means_the_same_after_a_rebuild(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Collector(home, everything=True) as collector, collector.client() as client:
        for start in (0, 5):
            send(client, *(event(number) for number in range(start, start + 5)))
        loaded(client)
        before = Follower(collector, after="0.0")
        before.wait_for(10)
    assert tachograph("rebuild", home=home).returncode == 0
    with Collector(home, everything=True) as collector:
        after = Follower(collector, after="0.0")
        after.wait_for(10)
    assert after.ids == before.ids
    assert after.events == before.events


@pytest.mark.parametrize("after", ["x", "1", "1.", "-1.0", "1.0.0", "99999999999999999999.0"])
def test_what_is_no_cursor_is_refused(client: httpx.Client, after: str) -> None:
    with pytest.raises(Problem):
        Cursor.parse(after)
    answer = client.get("/v1/stream", headers={"last-event-id": after})
    assert (answer.status_code, answer.json()["kind"]) == (400, "request")
    assert client.get("/v1/stream?sesion=x").status_code == 400


def test_a_stream_ends_with_a_word_when_all_stops(tmp_path: Path) -> None:
    with Collector(tmp_path / "home", everything=True) as collector:
        follower = Follower(collector)
        started = time.monotonic()
    assert time.monotonic() - started < 4
    follower.stopping.set()
    assert [end["reason"] for end in follower.ends] == ["restarting"]


def test_a_reader_that_stops_reading_is_cut_off_with_a_word_and_can_resume(tmp_path: Path) -> None:
    home = tmp_path / "home"
    many = [event(number) | {"payload": {"preview": f"{number:05}" * 10_000}} for number in range(400)]
    with Collector(home, everything=True, TACHOGRAPH_STREAM_STALL_S="4") as collector, collector.client() as client:
        for start in range(0, 400, 100):
            send(client, *many[start : start + 100])
        loaded(client)
        host, port = collector.http.removeprefix("http://").rsplit(":", 1)
        with socket.socket() as slow:
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
            slow.settimeout(20)
            slow.connect((host, int(port)))
            slow.sendall(b"GET /v1/stream?after=0.0 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            time.sleep(6)  # past the limit, and before the connection is given up without a word at twice of it
            got = b""
            while b"event: end" not in got and b": still here" not in got and (piece := slow.recv(1 << 20)):
                got += piece
        assert b'"reason":"too slow"' in got
        seen = re.findall(rb"id: (\S+)\ndata", got)
        assert 0 < len(seen) < 400
        rest = Follower(collector, after=seen[-1].decode()).wait_for(400 - len(seen))
        assert rest == [one["event_id"] for one in many[len(seen) :]]


def test_readers_that_never_read_again_do_not_keep_others_out(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Collector(home, everything=True, TACHOGRAPH_STREAM_STALL_S="0.5") as collector, collector.client() as client:
        for start in range(0, 400, 100):
            send(
                client,
                *(event(number) | {"payload": {"preview": "x" * 50_000}} for number in range(start, start + 100)),
            )
        loaded(client)
        host, port = collector.http.removeprefix("http://").rsplit(":", 1)
        stuck = [socket.create_connection((host, int(port))) for _ in range(32)]
        for one in stuck:
            one.sendall(b"GET /v1/stream?after=0.0 HTTP/1.1\r\nhost: localhost\r\n\r\n")
        time.sleep(0.3)
        assert Follower(collector, after="0.0").wait_for(400)[-1] == "s1-000399"
        for one in stuck:
            one.close()
        assert collector.peak_rss_mb() < 300
