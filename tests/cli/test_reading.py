"""The verbs that read: import, sessions, show, sql, rebuild."""

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet
import pytest

from tests.captures import REAL
from tests.running import tachograph

RUN = REAL / "pydantic_ai" / "weather2"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with two recorded runs and a few event lines."""
    folder = tmp_path_factory.mktemp("reading")
    lines = folder / "events.jsonl"
    lines.write_text(
        "\n".join(
            json.dumps({"type": "turn.completed", "event_id": f"e{n}", "timestamp": f"2026-01-01T00:00:0{n}Z",
                        "session_id": "lines", "turn_id": "t", "sequence": n, "payload": {"status": "completed"}})
            for n in range(3)
        )
        + "\nnot json\n"
    )  # fmt: skip
    home = folder / "home"
    shown = tachograph("import", str(RUN), str(REAL / "openai_agents" / "weather"), home=home)
    assert shown.returncode == 0, shown.stderr
    shown = tachograph("import", str(lines), home=home)
    assert shown.returncode == 3
    assert f"{lines}:1: 1 refused: line 4: not JSON" in shown.stderr
    return home


def sessions(home: Path) -> list[dict[str, object]]:
    document = json.loads(tachograph("sessions", "--json", home=home).stdout)
    assert document["schema"] == "tachograph.sessions"
    found: list[dict[str, object]] = document["sessions"]
    return found


def test_sessions_have_the_true_totals(home: Path) -> None:
    expected = json.loads((RUN / "expected.json").read_text())
    (session,) = [row for row in sessions(home) if row["service_name"] == "pydantic-ai-demo"]
    assert session["model_calls"] == expected["llm_calls_ok"]
    assert session["output_tokens"] == expected["output_tokens"]
    assert len(sessions(home)) == 3
    table = tachograph("sessions", home=home).stdout.splitlines()
    assert table[0].startswith("session\tstatus")
    assert len(table) == 4


def test_importing_again_adds_nothing(home: Path) -> None:
    before = tachograph("sql", "select count(*) as n from records", "--json", home=home).stdout
    assert tachograph("import", str(RUN), home=home).returncode == 0
    assert tachograph("sql", "select count(*) as n from records", "--json", home=home).stdout == before


def test_show_takes_a_beginning_of_the_id(home: Path) -> None:
    (session,) = [row for row in sessions(home) if row["service_name"] == "pydantic-ai-demo"]
    prefix = str(session["session_id"])[:8]
    document = json.loads(tachograph("show", prefix, "--json", home=home).stdout)
    assert document["session"]["session_id"] == session["session_id"]
    assert len(document["timeline"]) == session["events"]
    words = tachograph("show", prefix, home=home).stdout
    assert "model calls" in words
    assert "tool.result" in words
    missing = tachograph("show", "nosuch", home=home)
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "no session begins with" in missing.stderr


def test_sql_in_every_form(home: Path, tmp_path: Path) -> None:
    query = "select session_id, model_calls, started from sessions order by session_id"
    document = json.loads(tachograph("sql", query, "--json", home=home).stdout)
    assert document["columns"] == ["session_id", "model_calls", "started"]
    rows = list(csv.reader(io.StringIO(tachograph("sql", query, "--csv", home=home).stdout)))
    assert rows[0] == document["columns"]
    assert [row[0] for row in rows[1:]] == [row[0] for row in document["rows"]]
    file = tmp_path / "out.parquet"
    assert tachograph("sql", query, "--parquet", str(file), home=home).returncode == 0
    assert pyarrow.parquet.read_table(file).num_rows == len(document["rows"])


def test_sql_with_a_misspelt_column_suggests_the_right_one(home: Path) -> None:
    shown = tachograph("sql", "select sesion_id from sessions", home=home)
    assert shown.returncode != 0
    assert "session_id" in shown.stderr
    assert "Traceback" not in shown.stderr


def test_rebuild_gives_the_same_answers(home: Path) -> None:
    before = tachograph("sessions", "--json", home=home).stdout
    assert tachograph("rebuild", home=home).returncode == 0
    assert tachograph("sessions", "--json", home=home).stdout == before


def test_an_empty_home_says_what_to_do(tmp_path: Path) -> None:
    for verb in ("sessions", "show x", "sql select+1"):
        shown = tachograph(
            *verb.replace("+", "\x00").replace(" ", "\n").replace("\x00", " ").split("\n"), home=tmp_path
        )
        assert shown.returncode != 0
        assert "tachograph" in shown.stderr, shown.stderr
        assert "Traceback" not in shown.stderr
