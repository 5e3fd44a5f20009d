"""`tachograph reprice` from the command line: what it says, and what it refuses."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from cli.main import cli
from models.errors import MalformedInput
from models.pricing import TABLE_VERSION
from store import Store
from tests.store.frames import event, events, records

OWN = "models:\n  - model: acme\n    prices: {input_usd_per_mtok: 1000000, output_usd_per_mtok: 2}\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Two calls of a model that no table has, and one whose cost was told."""
    home = tmp_path / "home"
    columns = {"session_id": "s", "provider": "acme", "model": "acme", "uncached_input_tokens": 3, "signal": "log"}
    told = [event(f"e{n}", "model.completed", n, cost_state="unknown", **columns) for n in range(2)]
    told.append(event("r", "model.completed", 5, cost_state="reported", cost_usd=1.5, **columns))
    with Store.open(home) as store:
        store.append(records(), events(*told), 1)
    return home


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(OWN)
    return path


def run(home: Path, *words: str, **environment: str) -> Result:
    return CliRunner().invoke(cli, ["--home", str(home), *words], env=environment, catch_exceptions=True)


def test_the_summary_tells_calls_changes_totals_and_the_unpriced_share(home: Path, own: Path) -> None:
    told = run(home, "reprice", "--table", str(own))
    assert told.exit_code == 0, told.output
    lines = [line.split(maxsplit=1) for line in told.stdout.splitlines()]
    version = dict(lines)["prices"]
    assert version.startswith(f"{TABLE_VERSION} + mine.yaml sha256:")
    assert lines[1:] == [
        ["calls", "3, of which 2 cost something else now"],
        ["total", "$1.500000 before, $7.500000 now"],
        ["unpriced", "2 calls (66.7%) before, 0 calls (0.0%) now"],
    ]
    again = run(home, "reprice", "--table", version)
    assert "3, of which 0 cost something else now" in again.stdout
    back = run(home, "reprice", "--table", "installed")
    assert "$7.500000 before, $1.500000 now" in back.stdout
    assert f"before     {version}" in back.stdout


def test_the_file_of_the_setting_is_gone_by_and_listed(home: Path, own: Path) -> None:
    assert run(home, "reprice", TACHOGRAPH_PRICE_FILE=str(own)).exit_code == 0
    listed = run(home, "reprice", "--list").stdout.splitlines()
    assert listed[0].startswith(f"goes by    {TABLE_VERSION} + mine.yaml sha256:")
    assert f"knows      {TABLE_VERSION}" in listed
    assert "mine.yaml:acme" in run(home, "sql", "select distinct price_entry from model_calls").stdout


def test_a_bad_price_file_is_refused_with_its_line_and_nothing_changes(home: Path, own: Path) -> None:
    own.write_text(OWN.replace("1000000", "dear"))
    for words in (("reprice", "--table", str(own)), ("up", "--price-file", str(own))):
        told = run(home, *words)
        assert isinstance(told.exception, MalformedInput)
        assert "mine.yaml line 3: models[0].prices.input_usd_per_mtok" in told.exception.message
    assert run(home, "reprice", "--list").stdout.splitlines()[0] == f"goes by    {TABLE_VERSION}"


def test_before_anything_is_recorded_only_the_choice_is_made(tmp_path: Path, own: Path) -> None:
    told = run(tmp_path / "new", "reprice", "--table", str(own))
    assert (told.exit_code, told.stdout) == (0, "")
    assert "nothing is recorded yet" in told.stderr
    assert "mine.yaml" in run(tmp_path / "new", "reprice", "--list").stdout


def test_sessions_and_show_tell_how_many_calls_are_not_in_the_cost(home: Path) -> None:
    assert "≥ $1.50 (2 unpriced)" in run(home, "sessions").stdout
    assert "≥ $1.50 (2 unpriced)" in run(home, "show", "s").stdout
