"""The pages without a browser: loaded, empty, partial and failing, and what a hostile sender can make them say."""

import re
import shutil
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from collector.home import Home
from collector.tokens import TokenStore
from dashboard import reading
from dashboard.labels import escape
from journal import Entry, Journal
from store import Layout
from tests.captures import captures
from tests.dashboard.homes import HOSTILE

PROJECT = Path(__file__).resolve().parents[2]
PAGES = ("overview", "sessions", "session")

pytestmark = pytest.mark.usefixtures("on_loopback")


def shown(home: Path, page: str, monkeypatch: pytest.MonkeyPatch, **address: str) -> AppTest:
    """The page after its first run."""
    monkeypatch.setenv("TACHOGRAPH_HOME", str(home))
    app = AppTest.from_file(str(PROJECT / "dashboard" / "navigation.py"), default_timeout=30)
    for name, value in address.items():
        app.query_params[name] = value
    app.run()
    if page != "overview":
        app.switch_page(f"pages/{page}.py").run()
    assert not app.exception, app.exception
    return app


def said(app: AppTest) -> str:
    """All that the page says outside tables."""
    kinds = ("title", "header", "subheader", "caption", "text", "code", "info", "warning", "error", "metric")
    found = []
    for kind in kinds:
        for element in getattr(app, kind):
            found += [str(element.value), str(getattr(element, "label", ""))]
    return "\n".join(found)


def test_overview_shows_sums_of_what_is_recorded(recorded_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = shown(recorded_home, "overview", monkeypatch)
    sums = reading.totals(recorded_home)
    figures = {metric.label: metric.value for metric in app.metric}
    assert figures["Sessions"] == str(sums["sessions"]) != "0"
    assert figures["Model calls"] == str(sums["model_calls"]) != "0"
    assert figures["Receiver"] == "stopped"
    assert figures["Behind"] == "0"
    assert not app.error


def test_an_empty_home_says_how_to_record_something(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TACHOGRAPH_OTLP_HTTP", "127.0.0.1:9876")
    app = shown(tmp_path / "nothing", "overview", monkeypatch)
    assert "Nothing is recorded yet" in said(app)
    lines = "\n".join(code.value for code in app.code)
    assert "tachograph demo" in lines
    assert "CLAUDE_CODE_ENABLE_TELEMETRY=1" in lines
    assert lines.count("OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:9876") == 2
    assert not (tmp_path / "nothing").exists(), "looking must not create anything"


@pytest.mark.parametrize("page", ["sessions", "session"])
def test_the_other_pages_of_an_empty_home_lead_to_the_overview(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = shown(tmp_path / "nothing", page, monkeypatch)
    assert "Nothing is recorded yet" in said(app)
    assert not app.error


def test_what_waits_in_the_journal_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = captures()[0]
    with Journal(Layout(tmp_path).journal, compress=False) as journal:
        journal.append(Entry(f"otlp.{first.signal}", first.body, {"content": first.encoding}))
    app = shown(tmp_path, "overview", monkeypatch)
    assert "1 request wait in the journal" in said(app)
    assert {metric.label: metric.value for metric in app.metric}["Behind"] == "1"


@pytest.mark.parametrize("page", PAGES)
def test_an_index_that_cannot_be_read_is_told_with_what_to_do(
    page: str, recorded_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    shutil.copytree(recorded_home, home)
    Layout(home).database.write_bytes(b"no database" * 1000)
    app = shown(home, page, monkeypatch, session="sess-str")
    words = said(app)
    assert "could not be read" in words
    assert "tachograph up" in words
    assert "Report " in words
    assert "Traceback" not in words


def test_sessions_are_found_by_text_and_outcome(recorded_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = shown(recorded_home, "sessions", monkeypatch)
    everything = app.dataframe[0].value
    assert len(everything) == reading.totals(recorded_home)["sessions"]
    app.text_input(key="q").set_value("LangGraph").run()
    assert 0 < len(app.dataframe[0].value) < len(everything)
    assert app.dataframe[0].value["Agent"].str.contains("langgraph").all()
    app.pills(key="status").set_value(["failed"]).run()
    assert set(app.dataframe[0].value["Status"]) == {"failed"}
    app.text_input(key="q").set_value("no such thing").run()
    assert "No session matches" in said(app)
    app.button[0].click().run()
    assert len(app.dataframe[0].value) == len(everything)


def test_an_unknown_cost_stays_unknown(recorded_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = shown(recorded_home, "session", monkeypatch, session="sess-42")
    figures = {metric.label: metric.value for metric in app.metric}
    assert figures["Cost"] == "unknown"
    known = shown(recorded_home, "session", monkeypatch, session="sess-str")
    assert {metric.label: metric.value for metric in known.metric}["Cost"] == escape("$0.0002")


def test_more_sessions_than_a_page_are_told(recorded_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PAGE_ROWS", 3)
    reading.sessions.clear()
    app = shown(recorded_home, "sessions", monkeypatch)
    reading.sessions.clear()
    assert len(app.dataframe[0].value) == 3
    assert f"Showing 3 of {reading.totals(recorded_home)['sessions']} sessions" in said(app)


def test_a_session_shows_its_steps_and_the_event_of_the_address(
    recorded_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = reading.session(recorded_home, "sess-str")
    assert row is not None
    story = reading.story(recorded_home, "sess-str", row["first_time"], row["last_time"])
    call = story["model_calls"].row(0, named=True)
    app = shown(recorded_home, "session", monkeypatch, session="sess-str", event=call["sightings"][0])
    assert len(app.dataframe[0].value) == 16
    assert "gpt-4o-mini" in said(app)
    assert f"span_id           {call['span_id']}" in said(app)
    assert any("gen_ai.request.model" in element.value for element in app.json), "the record's attributes"


def test_a_session_that_is_not_there_is_told(recorded_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = shown(recorded_home, "session", monkeypatch, session="nobody", event="nothing")
    assert "There is no such session" in said(app)
    app = shown(recorded_home, "session", monkeypatch, session="sess-str", event="nothing")
    assert "an event that this session does not have" in said(app)


def test_gaps_are_told(hostile_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = shown(hostile_home, "session", monkeypatch, session=HOSTILE)
    assert "This record is incomplete" in said(app)


@pytest.mark.parametrize("page", PAGES)
def test_hostile_text_reaches_rendered_places_only_escaped(
    page: str, hostile_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = shown(hostile_home, page, monkeypatch, session=HOSTILE, event="e1")
    for kind in ("title", "header", "subheader", "caption", "info", "warning", "error", "metric", "markdown"):
        for element in getattr(app, kind):
            for text in (str(element.value), str(getattr(element, "label", ""))):
                assert not re.search(r"(?<!\\)(<\w|!\[|\]\()|//beacon", text), text


def test_a_token_is_asked_for_once_tokens_exist(
    recorded_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    shutil.copytree(recorded_home, home)
    text, _ = TokenStore(Home(home).tokens).create(["read"])
    weak, _ = TokenStore(Home(home).tokens).create(["ingest"])
    app = shown(home, "overview", monkeypatch)
    assert not app.metric
    for given in ("nonsense", weak):
        app.text_input[0].set_value(given)
        app.button[0].click().run()
        assert not app.metric
        assert "not valid" in said(app)
    app.text_input[0].set_value(text)
    app.button[0].click().run()
    assert app.metric
