"""The pages about clients: each recorded client has one, and what its table row says is what our relations say."""

import re
from pathlib import Path

import pytest

from ingest.otlp.signals import SIGNALS
from tests.captures import REAL
from tests.ingest.test_real_clients import BLIND, COMPARED, NAMES_A_SESSION, RUNS, answer, client

PROJECT = Path(__file__).resolve().parents[2]
SOURCES = PROJECT / "docs" / "sources"
CLIENTS = sorted(folder.name for folder in REAL.iterdir() if folder.is_dir())
SECTIONS = ("Point it at us", "What it tells", "What it does not tell", "Tested")
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")
TOKEN_WORDS = {
    "uncached_input_tokens": "input",
    "cache_read_tokens": "cache read",
    "cache_write_tokens": "cache write",
    "output_tokens": "output",
    "reasoning_tokens": "reasoning",
}


def page(name: str) -> str:
    return (SOURCES / f"{name}.md").read_text()


def section(name: str, title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page(name), re.MULTILINE | re.DOTALL)
    assert found, f"docs/sources/{name}.md has no section {title!r}"
    return found[1].strip()


def row(name: str) -> dict[str, str]:
    """The client's line of the table, by column."""
    lines = [line for line in page("README").splitlines() if line.startswith("|")]
    columns = [column.strip() for column in lines[0].strip("|").split("|")]
    (found,) = [line for line in lines if f"]({name}.md)" in line.split("|")[1]]
    return dict(zip(columns, (cell.strip() for cell in found.strip("|").split("|")), strict=True))


@pytest.mark.parametrize("name", CLIENTS)
def test_every_recorded_client_has_a_page_with_all_sections(name: str) -> None:
    assert all(section(name, title) for title in SECTIONS)
    told = section(name, "Point it at us")
    assert ("http://127.0.0.1:4318" if name != "inspect_ai" else "tachograph import") in told


@pytest.mark.parametrize("name", CLIENTS)
def test_a_page_names_every_version_that_was_recorded(name: str) -> None:
    versions = re.search(r"^Versions: (.+)\.$", (REAL / name / "README.md").read_text(), re.MULTILINE)
    assert versions
    for piece in versions[1].split("; "):
        package, version = re.split(r"==| ", piece.removeprefix("npm "))
        assert re.search(rf"`{re.escape(package)}(==|` ){re.escape(version)}\b", section(name, "Tested")), piece


@pytest.mark.parametrize("name", CLIENTS)
def test_python_on_a_page_compiles(name: str) -> None:
    for block in re.findall(r"```python\n(.*?)```", page(name), re.DOTALL):
        compile(block, f"{name}.md", "exec")


@pytest.mark.parametrize("name", [name for name in CLIENTS if any(client(run) == name for run in RUNS)])
def test_the_table_names_the_signals_that_were_recorded(name: str) -> None:
    sent = {capture.signal for run in RUNS if client(run) == name for capture in RUNS[run]}
    assert set(row(name)["signals"].split(", ")) == sent <= set(SIGNALS)


@pytest.mark.parametrize("name", CLIENTS)
def test_the_table_says_yes_for_clients_that_name_their_session(name: str) -> None:
    assert row(name)["session id"].startswith("yes") == (name in NAMES_A_SESSION | {"strands", "inspect_ai"})


@pytest.mark.parametrize("name", sorted({client(run) for run in COMPARED}))
def test_the_table_names_the_tokens_costs_and_tools_that_our_relations_have(name: str) -> None:
    found = [answer(run) for run in COMPARED if client(run) == name]
    told = {word for one in found for token, word in TOKEN_WORDS.items() if one.tokens[token] is not None}
    assert row(name)["tokens"] == (", ".join(word for word in TOKEN_WORDS.values() if word in told) or "none")
    costs = {state for one in found for state in one.costs} - {"unknown"}
    assert row(name)["cost"] == ", ".join(sorted(costs) or ["unknown"])
    assert (row(name)["tools"] == "none") == (not any(one.tools for one in found))


@pytest.mark.parametrize("name", BLIND)
def test_a_blind_client_is_said_to_be_blind(name: str) -> None:
    assert row(name)["blind spots"]
    assert re.search(r"cached|[Tt]okens", section(name, "What it does not tell"))


@pytest.mark.parametrize("path", sorted(SOURCES.glob("*.md")), ids=lambda path: path.name)
def test_links_of_a_page_lead_somewhere(path: Path) -> None:
    for link in LINK.findall(path.read_text()):
        if link.startswith(("http://", "https://")):
            continue
        name, _, place = link.partition("#")
        target = (path.parent / name) if name else path
        assert target.exists(), link
        if place:
            heads = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
            assert place in {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}, link


def test_the_index_leads_to_every_page() -> None:
    linked = set(LINK.findall(page("README")))
    assert {path.name for path in SOURCES.glob("*.md")} - {"README.md"} <= linked
