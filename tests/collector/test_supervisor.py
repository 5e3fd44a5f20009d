"""`tachograph up`: one line when all is up, everything kept running, everything ended in order."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import httpx
import pytest

import store
from collector.home import Home
from tests.collector.asking import answered, event, loaded, rows, send
from tests.running import PROGRAM, Collector, tachograph

PORTS = ("--otlp-http", "127.0.0.1:0", "--otlp-grpc", "127.0.0.1:0")


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def parts(home: Path) -> dict[str, int]:
    return {process["role"]: process["pid"] for process in Home(home).processes()}


def test_receiving_loading_and_asking_work_when_the_ready_line_comes(tmp_path: Path) -> None:
    with Collector(tmp_path / "home", everything=True) as collector, collector.client() as client:
        assert rows(client, "select 1") == [[1]]
        assert set(parts(collector.home)) == {"supervisor", "receiver", "index"}
        send(client, event(1))
        loaded(client)
        assert rows(client, "select count(*) from events") == [[1]]
    assert parts(tmp_path / "home") == {}


def test_a_part_that_dies_is_started_again_on_the_same_ports(tmp_path: Path) -> None:
    with Collector(tmp_path / "home", everything=True) as collector:
        for role in ("index", "receiver"):
            before = collector.pid(role)
            os.kill(before, signal.SIGKILL)
            deadline = time.monotonic() + 10
            while parts(collector.home).get(role) in (None, before):
                assert time.monotonic() < deadline
                time.sleep(0.02)
        with collector.client() as client:
            answered(client)
            send(client, event(1))
        assert "the index ended (exit code -9); it is started again" in collector.log.read_text()


def test_receiving_goes_on_while_the_index_is_down(tmp_path: Path) -> None:
    with Collector(tmp_path / "home", everything=True) as collector, collector.client() as client:
        os.kill(collector.pid("index"), signal.SIGSTOP)
        stopped = collector.pid("index")
        for number in range(20):
            send(client, event(number))
        os.kill(stopped, signal.SIGCONT)
        loaded(client)
        assert rows(client, "select count(*) from events") == [[20]]


def test_killing_the_supervisor_ends_everything_and_a_new_one_can_start(tmp_path: Path) -> None:
    home = tmp_path / "home"
    collector = Collector(home, everything=True)
    pids = parts(home)
    assert len(pids) == 3
    collector.kill()
    assert not any(alive(pid) for pid in pids.values())
    with Collector(home, everything=True) as again, again.client() as client:
        answered(client)


def test_a_second_up_on_one_home_is_refused_but_a_second_receiver_is_not(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Collector(home, everything=True) as collector, collector.client() as client:
        shown = tachograph("up", "--no-dashboard", *PORTS, home=home)
        assert (shown.returncode, shown.stdout) == (5, "")
        assert f"process {collector.pid('supervisor')}" in shown.stderr
        with Collector(home) as second, second.client() as other:
            send(other, event(1))
            send(client, event(2))
            loaded(client)
            assert rows(other, "select count(*) from events") == [[2]]


def test_a_second_sigterm_ends_at_once_and_loses_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    collector = Collector(home, everything=True)
    pids = parts(home)
    with collector.client() as client:
        send(client, event(1))
        os.kill(pids["index"], signal.SIGSTOP)  # so that it cannot end by itself
        collector.process.send_signal(signal.SIGTERM)
        time.sleep(1)
        collector.process.send_signal(signal.SIGTERM)
        started = time.monotonic()
        assert collector.process.wait(10) == 143
        assert time.monotonic() - started < 1
        assert collector.process.stdout is not None
        collector.process.stdout.close()
    deadline = time.monotonic() + 5
    while any(alive(pid) for pid in pids.values()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    with Collector(home, everything=True) as again, again.client() as client:
        answered(client)
        loaded(client)
        assert rows(client, "select event_id from events") == [["s1-000001"]]


def test_an_index_that_hangs_does_not_keep_up_from_ending(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "home", everything=True)
    os.kill(collector.pid("index"), signal.SIGSTOP)
    started = time.monotonic()
    assert collector.stop() == 0
    assert time.monotonic() - started < 10


def test_a_first_start_that_fails_ends_with_the_code_of_the_part(tmp_path: Path) -> None:
    with Collector(tmp_path / "one") as taken:
        address = taken.http.removeprefix("http://")
        shown = tachograph(
            "up", "--no-dashboard", "--otlp-http", address, "--otlp-grpc", "127.0.0.1:0", home=tmp_path / "h"
        )
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr.count("cannot listen on") == 1


def test_an_index_made_by_a_newer_program_ends_up_with_code_6(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Collector(home, everything=True) as collector, collector.client() as client:
        send(client, event(1))
        loaded(client)
    with store.Store.open(home) as index:
        index.cursor().execute("update meta set value = '999' where key like '%version%'")
        index._written = False  # so that closing writes it
    shown = tachograph("up", "--no-dashboard", *PORTS, home=home)
    assert (shown.returncode, shown.stdout) == (6, "")


@pytest.mark.skipif(not (Path(__file__).parents[2] / "dashboard" / "app.py").exists(), reason="there is no dashboard")
def test_the_dashboard_answers_when_the_ready_line_comes_and_ends_with_the_rest(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [PROGRAM, "--home", str(tmp_path / "home"), "up", *PORTS, "--dashboard", "127.0.0.1:0"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,  # whatever lies in the current folder
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.fullmatch(r"ready otlp-http=\S+ otlp-grpc=\S+ dashboard=(http://127\.0\.0\.1:\d+) home=\S+\n", line)
    assert found, line
    assert httpx.get(f"{found[1]}/_stcore/health").status_code == 200
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    process.stdout.close()
    with pytest.raises(httpx.ConnectError):
        httpx.get(found[1])


def test_a_dashboard_address_in_use_or_beyond_this_machine_is_refused(tmp_path: Path) -> None:
    if not (Path(__file__).parents[2] / "dashboard" / "app.py").exists():
        pytest.skip("there is no dashboard")
    with Collector(tmp_path / "one") as taken:
        shown = tachograph("up", *PORTS, "--dashboard", taken.http.removeprefix("http://"), home=tmp_path / "home")
    assert (shown.returncode, "cannot listen on" in shown.stderr) == (2, True)
    shown = tachograph("up", *PORTS, "--dashboard", "0.0.0.0:0", home=tmp_path / "home")
    assert (shown.returncode, "no token is set" in shown.stderr) == (2, True)
