"""Real session files from public repositories: every one is read, and what is not known is kept and counted."""

import json
from pathlib import Path

import pytest

from tests.ingest.importers.importing_home import imported, one, rows


@pytest.fixture(scope="module")
def public(shared: Path) -> Path:
    folder = shared / "public_data"
    if not folder.is_dir():
        pytest.skip(f"no public session files beside the checkout ({folder} is missing)")
    return folder


@pytest.fixture(scope="module")
def home(public: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home") / "home"
    imported(folder, public)
    return folder


def test_every_file_is_recognised_and_read(public: Path, tmp_path: Path) -> None:
    files = [path for path in sorted(public.rglob("*")) if path.is_file() and path.name != "README.md"]
    assert len(files) > 20
    done = imported(tmp_path / "home", *files, strict=True)
    assert done.files == len(files)
    # Each problem is about a line that is no JSON object, and names it.
    assert all("not JSON" in problem.reason or "not an object" in problem.reason for problem in done.problems)
    assert all(problem.line > 0 and problem.path in files for problem in done.problems)


def test_nothing_trips_a_dialect(home: Path) -> None:
    assert one(home, "select count(*) from undecoded") == 0


def test_lines_of_unknown_kinds_are_kept_and_counted(public: Path, tmp_path: Path) -> None:
    done = imported(tmp_path / "home", public)
    kept = one(tmp_path / "home", "select count(*) from records where signal = 'file' and name is null")
    assert done.unknown["claude_code (no type)"] == kept == 1


def test_one_answer_over_several_lines_counts_once_with_its_most_output(home: Path, public: Path) -> None:
    for path in (public / "claude_code").glob("sniffly-*.jsonl"):
        most: dict[str, int] = {}
        for line in path.read_text().splitlines():
            try:
                message = json.loads(line).get("message", {})
            except json.JSONDecodeError:
                continue
            if message.get("usage"):
                most[message["id"]] = max(most.get(message["id"], 0), message["usage"]["output_tokens"])
        session = next(json.loads(line)["sessionId"] for line in path.read_text().splitlines() if '"sessionId"' in line)
        (found,) = rows(
            home,
            "select count(*) as calls, sum(output_tokens)::bigint as output from model_calls"
            f" where session_id = '{session}'",
        )
        assert found == {"calls": len(most), "output": sum(most.values())}


def test_a_generation_that_repeats_the_one_below_it_is_no_second_call(home: Path) -> None:
    calls = rows(
        home, "select output_tokens from model_calls where session_id = 'trace:df41e597d0a85e0d7a6ae8ebfaa70aa0'"
    )
    assert calls == [{"output_tokens": 85}]


def test_steps_without_token_counts_are_unknown_and_not_zero(home: Path) -> None:
    found = rows(home, "select distinct output_tokens, cost_state from model_calls where session_id like 'pydicom%'")
    assert found == [{"output_tokens": None, "cost_state": "unknown"}]
