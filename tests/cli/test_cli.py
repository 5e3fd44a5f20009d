"""The program as scripts and people use it."""

import json
import sqlite3
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.collector.test_receiving import JSON, PROTOBUF, one_span
from tests.running import Collector, tachograph


def test_help_lists_every_verb_and_loads_none() -> None:
    shown = tachograph("--help")
    assert shown.returncode == 0
    for verb in ("up", "status", "doctor", "token", "schema", "journal"):
        assert f"  {verb} " in shown.stdout
    probe = "import sys, cli.main as m; m.cli.main(['-h'], standalone_mode=False); print(*sys.modules, file=sys.stderr)"
    loaded = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True).stderr.split()
    assert not {"pydantic", "duckdb", "polars", "grpc", "streamlit", "uvicorn"} & set(loaded)


def test_every_verb_explains_itself() -> None:
    for verb in ("up", "status", "doctor", "token", "schema", "journal", "journal verify"):
        shown = tachograph(*verb.split(), "--help")
        assert shown.returncode == 0, shown.stderr
        assert len(shown.stdout.splitlines()) > 4


def test_a_misspelt_verb_gets_a_suggestion_and_exit_code_2() -> None:
    shown = tachograph("statsu")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "Did you mean `status`?" in shown.stderr


def test_schema_prints_every_type_in_both_spellings(tmp_path: Path) -> None:
    snake = json.loads(tachograph("schema").stdout)
    camel = json.loads(tachograph("schema", "--camel").stdout)
    assert len(snake) == len(camel) == 113
    assert "event_id" in json.dumps(snake["tool.result"])
    assert "eventId" in json.dumps(camel["tool.result"])
    assert tachograph("schema", "--list").stdout.split() == sorted(snake)
    wrong = tachograph("schema", "tool.reslt")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "tool.result" in wrong.stderr


def test_status_counts_what_came_in_and_what_was_refused(tmp_path: Path) -> None:
    home = tmp_path / "home"
    before = json.loads(tachograph("status", "--json", home=home).stdout)
    assert (before["running"], before["journal"]["position"]) == (False, 0)
    with Collector(home) as collector, collector.client() as client:
        for _ in range(3):
            client.post("/v1/traces", content=one_span(), headers=PROTOBUF)
        client.post("/v1/traces", content=one_span(trace_id=b"short"), headers=PROTOBUF)
        client.post("/v1/traces", content=b"\xff", headers=PROTOBUF)
        client.post("/v1/logs", content=b"{", headers=JSON)
        time.sleep(1.5)  # counts are written down every second
        running = json.loads(tachograph("status", "--json", home=home).stdout)
    after = json.loads(tachograph("status", "--json", home=home).stdout)
    assert running["running"]
    assert not after["running"]
    for found in (running, after):
        traces = found["signals"]["traces"]
        assert (traces["received"]["requests"], traces["received"]["items"]) == (4, 3)
        assert traces["rejected"]["items"] == 1
        assert traces["refused"]["by_reason"] == {"undecodable": 1}
        assert traces["journaled"]["records"] == traces["journaled"]["items"] == 3
        assert traces["journaled"]["bytes"] == 3 * len(one_span())
        assert traces["journaled"]["last"].endswith("Z")
        assert found["signals"]["logs"]["refused"]["requests"] == 1
    words = tachograph("status", home=home).stdout
    assert "not running" in words
    assert "undecodable" in words


def test_doctor_passes_on_a_good_home_and_names_what_is_wrong(tmp_path: Path) -> None:
    home = tmp_path / "home"
    ports = {"TACHOGRAPH_OTLP_HTTP": "127.0.0.1:0", "TACHOGRAPH_OTLP_GRPC": "127.0.0.1:0"}
    assert tachograph("doctor", home=home, **ports).returncode == 0
    with Collector(home):
        shown = tachograph("doctor", home=home)
        assert shown.returncode == 0, shown.stdout
        assert "ready at" in shown.stdout
    home.chmod(0o755)
    shown = tachograph("doctor", home=home, **ports)
    assert shown.returncode == 3
    assert f"fix: chmod 700 {home}" in shown.stdout
    checks = json.loads(tachograph("doctor", "--json", home=home, **ports).stdout)["checks"]
    assert [check["name"] for check in checks if not check["ok"]] == ["home folder"]


def test_tokens_are_made_listed_and_revoked(tmp_path: Path) -> None:
    home = tmp_path / "home"
    made = tachograph("token", "create", "--scope", "ingest", "--expires", "30d", "--note", "laptop", home=home)
    token = made.stdout.strip()
    assert token.startswith("tg_ingest_")
    assert stat.S_IMODE((home / "tokens.json").stat().st_mode) == 0o600
    listed = tachograph("token", "list", home=home).stdout
    assert "laptop" in listed
    assert token not in listed
    (info,) = json.loads(tachograph("token", "list", "--json", home=home).stdout)
    with Collector(home) as collector, collector.client() as client:
        headers = JSON | {"authorization": f"Bearer {token}"}
        assert client.post("/v1/logs", content=b"{}", headers=headers).status_code == 200
        assert tachograph("token", "revoke", info["id"], home=home).returncode == 0
        time.sleep(1)
        assert client.post("/v1/logs", content=b"{}", headers=headers).status_code == 401
    assert tachograph("token", "revoke", "nosuchid", home=home).returncode == 2
    assert tachograph("token", "create", "--scope", "ingest", "--expires", "soon", home=home).returncode == 2


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:4318"])
def test_an_address_others_can_reach_is_not_opened_without_tokens(tmp_path: Path, address: str) -> None:
    shown = tachograph(
        "up", "--no-dashboard", "--otlp-http", address, "--otlp-grpc", "127.0.0.1:0", home=tmp_path / "home"
    )
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "no token is set" in shown.stderr
    assert "token create" in shown.stderr


def test_with_tokens_another_address_opens_and_asks_for_them(tmp_path: Path) -> None:
    token = tachograph("token", "create", "--scope", "ingest", home=tmp_path / "home").stdout.strip()
    with Collector(tmp_path / "home", "--otlp-http", "0.0.0.0:0") as collector, collector.client() as client:
        url = f"http://127.0.0.1:{collector.http.rsplit(':', 1)[1]}/v1/logs"
        assert client.post(url, content=b"{}", headers=JSON).status_code == 401
        (tmp_path / "home" / "tokens.json").unlink()
        time.sleep(0.6)
        assert client.post(url, content=b"{}", headers=JSON).status_code == 401, "removing the file opened the port"
    assert token


def test_a_port_in_use_is_said_clearly(tmp_path: Path) -> None:
    with Collector(tmp_path / "home") as collector:
        taken = collector.http.removeprefix("http://")
        shown = tachograph(
            "up", "--no-dashboard", "--otlp-http", taken, "--otlp-grpc", "127.0.0.1:0", home=tmp_path / "other"
        )
    assert shown.returncode == 2
    assert f"cannot listen on {taken}" in shown.stderr


def test_journal_verify_says_whole_or_what_is_damaged(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert tachograph("journal", "verify", home=home).returncode == 3
    with Collector(home) as collector, collector.client() as client:
        for _ in range(3):
            client.post("/v1/traces", content=one_span(), headers=PROTOBUF)
    shown = tachograph("journal", "verify", home=home)
    assert (shown.returncode, shown.stdout) == (0, "whole: 3 records in 1 segments\n")
    with sqlite3.connect(next((home / "journal").glob("segment-*.sqlite"))) as connection:
        connection.execute("update records set body = x'00' where position = 2")
    connection.close()
    shown = tachograph("journal", "verify", home=home)
    assert shown.returncode == 3
    assert "record 2 changed" in shown.stderr
    report = json.loads(tachograph("journal", "verify", "--json", home=home).stdout)
    assert [finding["first_position"] for finding in report["findings"]] == [2]


def test_a_wrong_setting_is_named(tmp_path: Path) -> None:
    shown = tachograph("status", home=tmp_path, TACHOGRAPH_MAX_ITEMS="many")
    assert shown.returncode == 2
    assert "TACHOGRAPH_MAX_ITEMS" in shown.stderr
