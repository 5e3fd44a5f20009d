"""`tachograph import auto`: what is on this machine is found, told and, when agreed to, imported."""

import os
import shutil
import signal
import subprocess
import threading
from pathlib import Path

from collector.import_sources import holding, sources
from tests.running import PROGRAM, tachograph

REAL = Path(__file__).resolve().parents[2] / "sample_traces" / "real"


def machine(tmp_path: Path) -> Path:
    """A user's home folder with sessions of three clients."""
    user = tmp_path / "user"
    for run, folder in (
        ("claude_code/cc_subagent", ".claude/projects"),
        ("codex/cx_basic", ".codex/sessions"),
        ("gemini_cli/gm_basic", ".gemini/tmp"),
    ):
        shutil.copytree(REAL / run / "transcript", user / folder)
    return user


def run(home: Path, user: Path, *words: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    environment = {key: told for key, told in os.environ.items() if key not in ("CLAUDE_CONFIG_DIR", "CODEX_HOME")}
    return subprocess.run(
        [PROGRAM, "--home", str(home), *words],
        capture_output=True,
        text=True,
        input=stdin,
        env=environment | {"HOME": str(user)},
        timeout=120,
        check=False,
    )


def test_what_is_found_is_told_and_imported_once(tmp_path: Path) -> None:
    user, home = machine(tmp_path), tmp_path / "home"
    first = run(home, user, "import", "auto", "--yes")
    assert first.returncode == 0, first.stderr
    assert [line.split("\t")[:3:2] for line in first.stdout.splitlines()[1:]] == [
        ["Claude Code", "5"],
        ["Codex", "1"],
        ["Gemini CLI", "1"],
    ]
    assert "70 records from 7 files" in first.stderr
    again = run(home, user, "import", "auto", "--yes")
    assert "0 records from 0 files" in again.stderr
    assert "7 files have not changed since" in again.stderr
    listed = tachograph("sessions", home=home)
    assert len(listed.stdout.splitlines()) == 4


def test_nothing_is_imported_without_agreement(tmp_path: Path) -> None:
    user, home = machine(tmp_path), tmp_path / "home"
    refused = run(home, user, "import", "auto", stdin="n\n")
    assert "Claude Code" in refused.stdout
    assert not (home / "journal").exists()


def test_clients_may_keep_their_sessions_elsewhere(tmp_path: Path) -> None:
    user = machine(tmp_path)
    moved = {"CLAUDE_CONFIG_DIR": str(user / ".claude"), "CODEX_HOME": str(user / ".codex")}
    moved |= {"GEMINI_CLI_HOME": str(user), "INSPECT_LOG_DIR": str(REAL / "inspect_ai" / "weather" / "transcript")}
    found = {source.client: holding(source) for source in sources(moved, tmp_path / "nobody")}
    assert {client: held.files for client, held in found.items() if held} == {
        "Claude Code": 5,
        "Codex": 1,
        "Gemini CLI": 1,
        "Inspect": 2,
    }


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    shown = tachograph("import", str(tmp_path / "nothing.jsonl"), home=tmp_path / "home")
    assert shown.returncode == 2
    assert "nothing.jsonl" in shown.stderr


def test_watching_follows_new_lines_and_new_files_until_interrupted(tmp_path: Path) -> None:
    user, home = machine(tmp_path), tmp_path / "home"
    words = [PROGRAM, "--home", str(home), "import", str(user / ".claude"), "--watch", "--every", "0.1"]
    source = next((REAL / "claude_code" / "cc_basic" / "transcript").rglob("*.jsonl"))
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as watching:
        assert watching.stderr is not None
        lines = iter(watching.stderr.readline, "")
        assert any("following" in line for line in lines)
        shutil.copy(source, user / ".claude" / "projects" / source.name)
        late = threading.Timer(60, watching.kill)
        late.start()
        assert any("more records from 1 files" in line for line in lines)
        late.cancel()
        watching.send_signal(signal.SIGINT)
        rest = "".join(lines)
        assert watching.wait(60) == 0, rest
    listed = tachograph("sessions", home=home)
    assert source.stem in listed.stdout
