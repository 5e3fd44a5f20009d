"""For every recorded run with session files: what our relations say of the files alone equals the truth."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import models.event  # noqa: F401 - declares every event type
from collector.loader import rebuild
from models.payload import Payload
from tests.captures import captures
from tests.ingest.importers.importing_home import imported, one, rows

REAL = Path(__file__).resolve().parents[3] / "sample_traces" / "real"
RUNS = sorted(str(folder.parent.relative_to(REAL)) for folder in REAL.glob("*/*/transcript"))
TOKENS = ("uncached_input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
TRUTH_NAMES = ("input_tokens", "cache_read", "cache_write", "output_tokens", "reasoning")

FILES_MISSING = {"inspect_ai/weather2": "of its two evaluations only one left a log"}
"""Runs of which the session files hold a part only; they are compared with the calls in the time of the files."""

ONE_SESSION = frozenset({"claude_code", "claude_agent_sdk", "codex", "gemini_cli"})
"""Clients whose run is one session; Inspect's samples are sessions of their own."""


@pytest.fixture(scope="module", params=RUNS)
def run(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def home(run: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home") / "home"
    done = imported(folder, REAL / run / "transcript")
    assert not done.problems
    assert not done.unknown
    return folder


def truth(run: str, home: Path) -> dict[str, Any]:
    """The totals of the run; for one of which files are missing, those of the calls in the time of its files."""
    expected: dict[str, Any] = json.loads((REAL / run / "expected.json").read_text())
    if run not in FILES_MISSING:
        return expected
    began = one(home, "select epoch(min(time)) from records")
    calls = [json.loads(line) for line in (REAL / run / "truth.jsonl").read_text().splitlines()]
    calls = [call for call in calls if call["t"] >= began]
    assert 0 < len(calls) < expected["llm_calls_ok"]
    sums = {ours: sum(call[theirs] for call in calls) for ours, theirs in zip(TOKENS, TRUTH_NAMES, strict=True)}
    tools = [tool for call in calls for tool, _ in call["tools"]]
    return expected | sums | {"llm_calls_ok": len(calls), "tool_calls_requested": tools}


def test_model_calls_and_models_equal_the_truth(run: str, home: Path) -> None:
    expected = truth(run, home)
    calls = rows(home, "select status, model from model_calls")
    assert sum(call["status"] == "completed" for call in calls) == expected["llm_calls_ok"]
    assert sum(call["status"] == "failed" for call in calls) == len(expected["llm_calls_failed"])
    assert {call["model"] for call in calls} == set(expected["models"])


def test_tokens_equal_the_truth(run: str, home: Path) -> None:
    sums = ", ".join(f"coalesce(sum({name}), 0)::bigint as {name}" for name in TOKENS)
    (found,) = rows(home, f"select {sums} from model_calls")
    assert found == {name: truth(run, home)[name] for name in TOKENS}


def test_requested_tools_equal_the_truth(run: str, home: Path) -> None:
    found = Counter(row["tool_name"] for row in rows(home, "select tool_name from tool_calls"))
    assert found == Counter(truth(run, home)["tool_calls_requested"])


def test_the_roll_up_says_the_same_as_the_relations(run: str, home: Path) -> None:
    expected = truth(run, home)
    (found,) = rows(
        home,
        "select sum(model_calls)::bigint as calls, sum(output_tokens)::bigint as output,"
        " sum(tool_calls)::bigint as tools from sessions",
    )
    tools = len(expected["tool_calls_requested"])
    assert found == {"calls": expected["llm_calls_ok"], "output": expected["output_tokens"], "tools": tools}


def test_a_run_of_a_client_that_names_its_session_is_one_session(run: str, home: Path) -> None:
    if run.split("/")[0] not in ONE_SESSION:
        pytest.skip("each sample is a session")
    (session,) = rows(home, "select session_id from sessions")
    names = {path.stem for path in (REAL / run / "transcript").rglob("*.jsonl")}
    assert any(session["session_id"] in name or session["session_id"][:8] in name for name in names)


def test_every_record_tells_its_file_and_line(run: str, home: Path) -> None:
    found = rows(
        home,
        """select distinct attributes ->> '$."file.path"' as path, signal from records
        where (attributes ->> '$."file.line"')::bigint >= 1""",
    )
    assert {row["signal"] for row in found} == {"file"}
    assert all(Path(row["path"]).is_file() for row in found)
    assert one(home, "select count(*) from records") == one(home, "select count(distinct record_id) from records")


def test_importing_again_adds_nothing(run: str, home: Path) -> None:
    before = one(home, "select records from progress")
    again = imported(home, REAL / run / "transcript")
    assert again.items == 0
    (home / "imports.json").unlink()
    again = imported(home, REAL / run / "transcript")
    assert again.items == before
    assert one(home, "select records from progress") == before


def test_payloads_are_valid_for_their_type_and_hold_no_prompt(run: str, home: Path) -> None:
    for event in rows(home, "select type, payload, status from events"):
        assert "[[scenario:" not in event["payload"]
        Payload.registry[event["type"]].model_validate_json(event["payload"])


def test_the_events_are_the_same_whatever_batches_they_come_in(run: str, home: Path) -> None:
    ask = "select * exclude (journal_position) from events order by event_id"
    before = rows(home, ask)
    rebuild(home)
    assert rows(home, ask) == before


@pytest.mark.parametrize("files_first", [True, False])
def test_files_and_telemetry_together_count_nothing_twice(run: str, tmp_path: Path, files_first: bool) -> None:
    sent = [capture.path for capture in captures() if capture.run == run]
    if not sent:
        pytest.skip("this client sends no telemetry")
    files = [REAL / run / "transcript"]
    both = tmp_path / "home"
    imported(both, *(files + sent if files_first else sent + files))
    expected = truth(run, both)
    (session,) = rows(both, "select model_calls, tool_calls, output_tokens, cache_read_tokens from sessions")
    assert session == {
        "model_calls": expected["llm_calls_ok"],
        "tool_calls": len(expected["tool_calls_requested"]),
        "output_tokens": expected["output_tokens"],
        "cache_read_tokens": expected["cache_read_tokens"],
    }
