"""The prices of a home: chosen once, gone by ever after, by the loader, by a rebuild and by the running index."""

import json
import subprocess
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from genai_prices import data_snapshot

from collector.loader import Loader, rebuild
from collector.prices import Choice, Prices
from collector.repricing import Repricer
from journal import Journal
from models.errors import MalformedInput, UsageError
from models.price_data import document
from models.pricing import TABLE_VERSION, installed
from store import Layout, Store
from tests.captures import captures
from tests.collector.asking import loaded, rows
from tests.collector.test_loader import ask, contents, entry, fill
from tests.running import PROGRAM, Collector

OWN = """
models:
  - model: gpt-4o-mini
    prices: {input_usd_per_mtok: 1000, output_usd_per_mtok: 2000}
"""
PRICED = """
    select count(*), round(sum(cost_usd), 6) from model_calls where cost_state = 'priced' and model like 'gpt-4o-mini%'
"""


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(OWN)
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A journal of real calls, most of which name their price nowhere."""
    home = tmp_path / "home"
    fill(home, [entry(capture) for capture in captures() if capture.run in RUNS])
    return home


RUNS = ("openai_v2/weather", "langgraph/weather", "claude_code/cc_basic", "pydantic_ai/weather")


def load(home: Path, prices: Prices) -> dict[str, object]:
    with Store.open(home) as store, Journal(Layout(home).journal, compress=False) as journal:
        loader = Loader(journal, store, Repricer(store, prices.table(), prices.note))
        loader.catch_up()
        loader.close()
        return contents(store)


def asked(home: Path, query: str) -> list[tuple[Any, ...]]:
    with Store.open(home) as store:
        return ask(store, query)


def test_before_anything_is_chosen_the_installed_table_is_gone_by(tmp_path: Path) -> None:
    prices = Prices(tmp_path)
    assert prices.table() is installed()
    assert [one.version for one in prices.kept()] == [TABLE_VERSION]


def test_what_is_stored_is_priced_again_when_other_prices_were_chosen_and_a_rebuild_gives_the_same(
    home: Path, own: Path
) -> None:
    prices = Prices(home)
    first = load(home, prices)
    before = asked(home, PRICED)
    prices.choose([str(own)], None)
    second = load(home, prices)
    after = asked(home, PRICED)
    assert before[0][0] == after[0][0] > 0
    assert after[0][1] > 100 * before[0][1]
    assert first["records"] == second["records"]
    rebuild(home)
    with Store.open(home) as store:
        assert contents(store) == second
        entries = ask(store, "select distinct price_entry from model_calls where model = 'gpt-4o-mini'")
        assert ("mine.yaml:gpt-4o-mini",) in entries
    prices.choose(["installed"], None)
    assert load(home, prices) == load(home, prices) == first
    noted = [json.loads(line) for line in (home / "prices" / "repricings.jsonl").read_text().splitlines()]
    assert [(one["version_before"] == TABLE_VERSION, one["version"] == TABLE_VERSION) for one in noted] == [
        (True, False),
        (False, True),  # what changed nothing is not written down
    ]
    assert noted[0]["changed"] == noted[1]["changed"] > 0
    assert noted[0]["before"] == noted[1]["after"]
    rebuild(home)
    with Store.open(home) as store:
        assert contents(store) == first


def test_a_table_as_a_file_replaces_the_installed_one(tmp_path: Path) -> None:
    table = tmp_path / "data.json"
    table.write_bytes(document([p for p in data_snapshot.get_snapshot().providers if p.id == "anthropic"]))
    chosen = Prices(tmp_path).choose([str(table)], None)
    assert chosen.version.startswith("genai-prices data sha256:")
    assert chosen.match("openai", "gpt-4o", date(2026, 6, 1)) is None
    assert chosen.match("anthropic", "claude-sonnet-4-5", date(2026, 6, 1)) is not None
    table.unlink()
    assert Prices(tmp_path).table().version == chosen.version


def test_a_version_that_was_known_can_be_gone_back_to_though_its_file_has_changed(tmp_path: Path, own: Path) -> None:
    prices = Prices(tmp_path)
    first = prices.choose([str(own)], None)
    own.write_text(OWN.replace("1000", "3000"))
    second = prices.choose([str(own)], None)
    assert first.version != second.version
    digest = first.version.rpartition("sha256:")[2]
    for words in ([first.version], [digest], [TABLE_VERSION, digest], [TABLE_VERSION.split()[1], digest]):
        assert prices.choose(words, None).version == first.version


def test_without_a_word_the_installed_table_is_taken_and_the_own_file_stays_unless_another_is_set(
    tmp_path: Path, own: Path
) -> None:
    prices = Prices(tmp_path)
    prices.take_own(own)
    digest = prices.choice().own
    assert prices.choose([], None).version == prices.table().version
    assert prices.choice() == Choice("installed", digest)
    other = tmp_path / "other.yaml"
    other.write_text(OWN.replace("1000", "5"))
    assert "other.yaml" in prices.choose([], other).version
    assert prices.choose(["installed"], None).version == TABLE_VERSION


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nonsense"], "no known version 'nonsense'"),
        (["installed", TABLE_VERSION], "only one table"),
    ],
)
def test_what_cannot_be_chosen_is_refused_and_changes_nothing(tmp_path: Path, words: Sequence[str], said: str) -> None:
    prices = Prices(tmp_path)
    with pytest.raises(UsageError, match=said):
        prices.choose(words, None)
    assert prices.choice() == Choice()


def test_a_bad_file_is_refused_with_its_line_and_the_old_prices_stay(tmp_path: Path, own: Path) -> None:
    prices = Prices(tmp_path)
    good = prices.choose([str(own)], None).version
    own.write_text(OWN.replace("1000", "free"))
    with pytest.raises(MalformedInput, match=r"mine\.yaml line 4: models\[0\]\.prices\.input_usd_per_mtok"):
        prices.choose([str(own)], None)
    assert prices.table().version == good


def test_a_chosen_file_that_was_changed_or_is_gone_is_not_silently_done_without(tmp_path: Path, own: Path) -> None:
    prices = Prices(tmp_path)
    prices.take_own(own)
    (kept,) = (one.path for one in prices.kept() if "mine.yaml" in one.version)
    kept.write_text(OWN.replace("1000", "1"))
    with pytest.raises(MalformedInput, match="was changed"):
        prices.table()
    kept.unlink()
    with pytest.raises(MalformedInput, match="is gone"):
        prices.table()


def test_the_running_index_prices_again_when_told_and_what_comes_later_by_the_same(tmp_path: Path, own: Path) -> None:
    bodies = {capture.run: capture for capture in captures() if capture.signal == "traces"}
    body, later = bodies["openai_v2/weather"], bodies["openai_v2/stream"]
    home = tmp_path / "home"
    with Collector(home, everything=True) as collector, collector.client() as client:
        kind = {"content-type": body.content_type}
        client.post("/v1/traces", content=body.body, headers=kind).raise_for_status()
        loaded(client)
        (before,) = rows(client, PRICED)
        told = run_reprice(home, "--table", str(own), "--json")
        assert told["changed"] > 0
        assert told["before"]["cost_usd"] == pytest.approx(before[1], abs=1e-6)
        assert told["after"]["cost_usd"] == pytest.approx(rows(client, PRICED)[0][1], abs=1e-5)
        mine = "select count(*) from model_calls where price_entry = 'mine.yaml:gpt-4o-mini'"
        ((repriced,),) = rows(client, mine)
        kind = {"content-type": later.content_type}
        client.post("/v1/traces", content=later.body, headers=kind).raise_for_status()
        loaded(client)
        assert rows(client, mine)[0][0] > repriced > 0
        with httpx.Client(base_url=collector.http) as outside:
            assert outside.post("/v1/reprice").status_code == 404  # only on the socket in the home folder


def run_reprice(home: Path, *options: str) -> dict[str, Any]:
    ended = subprocess.run(
        [PROGRAM, "--home", str(home), "reprice", *options], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = orjson.loads(ended.stdout)
    return found
