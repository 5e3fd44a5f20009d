"""A damaged index file that was put aside is told on the overview, with what to do, until it is removed."""

import random
import shutil
from pathlib import Path

import pytest

from collector.loader import Loader
from dashboard.health import health
from journal import Journal
from store import Layout, Store
from tests.chaos.bits import flip
from tests.dashboard.test_pages import said, shown

pytestmark = pytest.mark.usefixtures("on_loopback")

MAIN_HEADER_BYTE = 9


def mended(recorded: Path, home: Path) -> Path:
    """A copy of a home whose database had a flipped bit, and was put aside and made again when it was opened."""
    shutil.copytree(recorded, home)
    flip(Layout(home).database, MAIN_HEADER_BYTE, random.Random(1))
    with Journal(Layout(home).journal, compress=False) as journal, Store.open(home) as store:
        loader = Loader(journal, store)
        loader.catch_up()
        loader.close()
    return home


def test_a_quarantine_is_told_on_the_overview_beside_all_that_was_recorded(
    recorded_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {metric.label: metric.value for metric in shown(recorded_home, "overview", monkeypatch).metric}
    home = mended(recorded_home, tmp_path / "home")
    app = shown(home, "overview", monkeypatch)
    (notice,) = [found for found in app.warning if "put aside" in found.value]
    assert "1 index file had damage and was put aside" in notice.value
    assert "nothing that was recorded is lost" in notice.value
    assert "check it, and then remove the folder below" in notice.value
    (file,) = Layout(home).quarantine.glob("*.duckdb")
    assert file.name in said(app)
    assert str(Layout(home).quarantine) in said(app)
    after = {metric.label: metric.value for metric in app.metric}
    assert after["Sessions"] == before["Sessions"] != "0"
    shutil.rmtree(Layout(home).quarantine)
    health.clear()
    gone = said(shown(home, "overview", monkeypatch))
    assert "put aside" not in gone, "done as told, the notice goes away"
