"""The dashboard in a real browser: it draws, its links work, and hostile text neither runs nor tells anyone."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import pytest

from tests.browser import Browser, browser
from tests.dashboard.homes import HOSTILE

PROJECT = Path(__file__).resolve().parents[2]

PLACE = """(() => {
    const table = document.querySelector('[data-testid="stDataFrame"]');
    table.scrollIntoView({block: 'center'});
    const box = table.getBoundingClientRect();
    return [box.x, box.y];
})()"""
ROW_PIXELS = 35
BARS = "document.querySelectorAll('[data-testid=\"stVegaLiteChart\"] .mark-rect path')"


@contextmanager
def dashboard(home: Path, log: Path) -> Iterator[str]:
    """The dashboard as `tachograph up` starts it, from a foreign working folder."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--server.address", "127.0.0.1", "--server.port", str(port), "--server.headless", "true"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "streamlit", "run", str(PROJECT / "dashboard" / "app.py"), *options],
            env=os.environ | {"TACHOGRAPH_HOME": str(home)},
            cwd=log.parent,
            stdout=output,
            stderr=output,
        )
    try:
        yield _answering(f"http://127.0.0.1:{port}", process, log)
    finally:
        process.terminate()
        process.wait(timeout=20)


def _answering(url: str, process: "subprocess.Popen[bytes]", log: Path) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/_stcore/health").status_code == 200:
                return url
        except httpx.TransportError:
            time.sleep(0.2)
    raise AssertionError(f"the dashboard did not start: {log.read_text()}")


def foreign(page: Browser, url: str) -> list[str]:
    """Requests that went anywhere else."""
    own = urlsplit(url).netloc
    return [each for each in page.requests if urlsplit(each).netloc not in ("", own)]


def draws(page: Browser, address: str, text: str) -> None:
    page.open(address)
    page.wait_for_text(text)
    page.settle()


def click_row(page: Browser, row: int) -> None:
    """Click the second cell of a row of the first table."""
    left, top = page.run(PLACE)
    page.click(left + 150, top + ROW_PIXELS * (row + 1.5))


@pytest.fixture(scope="module")
def recorded_url(recorded_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with dashboard(recorded_home, tmp_path_factory.mktemp("server") / "log") as url:
        yield url


def test_a_click_on_a_session_leads_to_its_steps_and_a_click_on_a_step_to_its_facts(
    recorded_url: str, tmp_path: Path
) -> None:
    with browser(tmp_path) as page:
        draws(page, f"{recorded_url}/sessions?q=strands", "1 session, newest first")
        click_row(page, 0)
        page.wait_for_text("Steps (16)")
        assert page.run("new URLSearchParams(location.search).get('session')") == "sess-str"
        page.settle()
        click_row(page, 2)
        page.wait_for_text("Payload")
        event = page.run("new URLSearchParams(location.search).get('event')")
        assert event
        draws(page, f"{recorded_url}/session?session=sess-str&event={quote(event)}", "Payload")
        page.wait_for_text(event)
        page.wait_for(f"{BARS}.length == 16")
        left, top = page.run(
            f"(bar => [bar.x + bar.width / 2, bar.y + bar.height / 2])({BARS}[0].getBoundingClientRect())"
        )
        page.click(left, top)
        page.wait_for(f"new URLSearchParams(location.search).get('event') != {json.dumps(event)}")
        assert not foreign(page, recorded_url)


def test_the_pages_draw_and_ask_nobody_else(recorded_url: str, tmp_path: Path) -> None:
    with browser(tmp_path) as page:
        draws(page, recorded_url, "Latest sessions")
        assert page.run("document.querySelectorAll('[data-testid=\"stVegaLiteChart\"] canvas, svg.marks').length") > 0
        draws(page, f"{recorded_url}/session?session=t-1", "how its last work ended")
        assert "failed" in page.text()
        assert page.requests
        assert not foreign(page, recorded_url)
        assert not [said for said in page.complaints if "404" not in said], page.complaints


def test_hostile_text_runs_nothing_and_tells_nobody(hostile_home: Path, tmp_path: Path) -> None:
    session = quote(HOSTILE)
    pages = {
        "": "Latest sessions",
        "sessions": "1 session, newest first",
        f"session?session={session}": "This record is incomplete",
        f"session?session={session}&view=events": "All events",
        f"session?session={session}&event=e1": "Payload",
        f"session?session={session}&event={session}": "Payload",
    }
    with dashboard(hostile_home, tmp_path / "log") as url, browser(tmp_path) as page:
        for address, text in pages.items():
            draws(page, f"{url}/{address}", text)
            page.run("document.querySelectorAll('[role=tab]').forEach(tab => tab.click())")
            page.settle()
            assert page.run("window.pwned") is None, address
            links = page.run("[...document.querySelectorAll('a')].map(link => link.href)")
            assert {link.split("/")[2] for link in links if link} == {urlsplit(url).netloc}, address
            assert not page.run("[...document.images].some(image => image.src.includes('beacon'))"), address
        title = page.run("document.querySelector('h1').innerText")
        assert title.replace("\u2060", "").startswith(HOSTILE[:100]), "it is shown as it is"
        assert not foreign(page, url)


def test_the_policy_would_stop_a_beacon_that_was_rendered_after_all(recorded_url: str, tmp_path: Path) -> None:
    with browser(tmp_path) as page:
        draws(page, recorded_url, "Latest sessions")
        asked = json.dumps("http://127.0.0.2:9/beacon.png")
        stopped = (
            "new Promise(done => {document.addEventListener('securitypolicyviolation', e => done(e.blockedURI));"
            f"new Image().src = {asked}; setTimeout(() => done('asked'), 3000)}})"
        )
        assert page.run(stopped) == "http://127.0.0.2:9/beacon.png"


def test_an_empty_home_is_noticed_when_the_first_record_arrives(recorded_home: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    with dashboard(home, tmp_path / "log") as url, browser(tmp_path) as page:
        draws(page, url, "Nothing is recorded yet")
        home.symlink_to(recorded_home)
        page.wait_for_text("Latest sessions")


def test_a_foreign_host_name_gets_nothing(recorded_url: str) -> None:
    assert httpx.get(recorded_url, headers={"host": "evil.invalid"}).status_code == 421
