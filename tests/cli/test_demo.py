"""The demo shows something real, and the verbs that follow a running collector."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running import PROGRAM, tachograph


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """A running demo without its dashboard: its home, and what it printed."""
    home = tmp_path_factory.mktemp("demo") / "home"
    ports = ["--otlp-http", "127.0.0.1:0", "--otlp-grpc", "127.0.0.1:0", "--no-dashboard"]
    process = subprocess.Popen([PROGRAM, "--home", str(home), "demo", *ports], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = ""
    while "SQL" not in printed and process.poll() is None:
        printed += process.stdout.readline()
    yield home, printed
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    process.stdout.close()


def test_the_demo_says_what_it_recorded_and_where_to_look(demo: tuple[Path, str]) -> None:
    home, printed = demo
    assert "recorded " in printed
    assert f"tachograph --home {home} sessions" in printed


def test_the_demo_has_the_sample_session_and_real_clients(demo: tuple[Path, str]) -> None:
    home, _ = demo
    found = json.loads(tachograph("sessions", "--json", "--limit", "500", home=home).stdout)["sessions"]
    sources = {session["service_name"] for session in found}
    assert {"tachograph-runtime", "claude-code", "pydantic-ai-demo", "openai-agents-demo"} <= sources
    (sample,) = [session for session in found if session["session_id"] == "demo-session"]
    assert sample["status"] == "completed"
    assert sample["cost_usd"] > 0
    shown = json.loads(tachograph("show", "demo-session", "--json", home=home).stdout)
    assert len({step["type"] for step in shown["timeline"]}) == 113


def test_status_tells_how_far_the_index_is(demo: tuple[Path, str]) -> None:
    home, _ = demo
    found = json.loads(tachograph("status", "--json", home=home).stdout)
    assert found["running"]
    text = json.dumps(found)
    for word in ("loaded", "lag", "quarantines"):
        assert word in text


def test_tail_follows_and_ends_at_its_limit(demo: tuple[Path, str]) -> None:
    home, _ = demo
    shown = tachograph("tail", "--from-start", "--session", "demo-session", "--limit", "20", "--jsonl", home=home)
    events = [json.loads(line) for line in shown.stdout.splitlines()]
    assert shown.returncode == 0, shown.stderr
    assert [event["sequence"] for event in events] == sorted(event["sequence"] for event in events)
    assert len(events) == 20
    assert len(tachograph("tail", "--from-start", "--limit", "3", home=home).stdout.splitlines()) == 3


def test_tail_without_a_collector_says_so(tmp_path: Path) -> None:
    started = time.monotonic()
    shown = tachograph("tail", home=tmp_path)
    assert shown.returncode == 9
    assert "tachograph up" in shown.stderr
    assert time.monotonic() - started < 20


def test_sql_through_the_running_index_equals_sql_on_the_file(demo: tuple[Path, str]) -> None:
    home, _ = demo
    query = "select type, count(*) as n from events group by 1 order by 1"
    document = json.loads(tachograph("sql", query, "--json", home=home).stdout)
    assert len(document["rows"]) >= 113
    wrong = tachograph("sql", "select sesion_id from sessions", home=home)
    assert wrong.returncode != 0
    assert "session_id" in wrong.stderr
    refused = tachograph("sql", "delete from events", home=home)
    assert refused.returncode != 0
    assert "Traceback" not in refused.stderr
