"""`tachograph explain routing` tells a choice in words and as JSON."""

import json
from pathlib import Path

import pytest

from tests.running import tachograph
from tests.runtime.routing.scenarios import Told, fallback_after_rate_limit, keep, none, selected


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explain")
    for number, scenario in enumerate((selected, fallback_after_rate_limit, none), 1):
        turn = Told(turn_id=f"turn_{number}", session_id=f"s-{number}")
        scenario(turn)
        keep(folder, turn.events)
    return folder


def test_a_turn_is_explained_in_words(home: Path) -> None:
    shown = tachograph("explain", "routing", "turn_2", home=home)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[0] == "session s-2, turn turn_2"
    assert lines[2].startswith("profile       general, from the caller; needs tools")
    assert lines[3].startswith("chosen        anthropic/claude-sonnet-4-6, of 5 candidates, by router: ")
    assert lines[4].startswith("fallback      openai/gpt-5.4, of 4 candidates, by router: anthropic/claude-sonnet-4-6")
    assert "openai/gpt-5.4\tfallback\t2.5\t15\t$0.035250\t$0.035250\t" in lines
    assert "anthropic/claude-sonnet-4-6\tchosen\t3\t15\t$0.039900\t-\t" in lines
    assert "scripted/script\texcluded\t0\t0\t$0.000000\t-\tnot_requested: it is taken only if asked for" in lines
    assert any("rate_limit.hit\ttokens\thit\tHTTP 429, try again after 20.0 s" in line for line in lines)


def test_no_model_is_explained_too(home: Path) -> None:
    shown = tachograph("explain", "routing", "turn_3", home=home)
    assert "no model      of 0 candidates: Every model is left out: capability" in shown.stdout
    assert shown.stdout.endswith("recorded: no call\n")


def test_the_same_as_json_by_the_id_of_the_decision(home: Path) -> None:
    document = json.loads(tachograph("explain", "routing", "turn_2.e7", "--json", home=home).stdout)
    assert (document["schema"], document["session_id"], document["turn_id"]) == ("tachograph.routing", "s-2", "turn_2")
    (choice,) = document["choices"]
    assert choice["fallbacks"][0]["event_id"] == "turn_2.e7"
    assert choice["decision"]["timestamp"].endswith("Z")


def test_an_id_that_is_unknown_or_not_unique_is_told(home: Path) -> None:
    missing = tachograph("explain", "routing", "nosuch", home=home)
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "begins with 'nosuch'" in missing.stderr
    several = tachograph("explain", "routing", "turn_", home=home)
    assert several.returncode == 2
    assert "turn_1, turn_2, turn_3" in several.stderr
