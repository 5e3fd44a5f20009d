"""The list of models: what comes with the program, what the user adds, and where a mistake in the file is."""

from pathlib import Path

import pytest

from models.errors import MalformedInput
from runtime.routing import load, own_file
from tests.runtime.routing.scenarios import NOON

OWN = """\
providers:
  local: {}
models:
  - provider: local
    model: llama
    capabilities: [tools]
    context_window_tokens: 32000
    cost_class: free
    prices: {input_usd_per_mtok: 0.5, output_usd_per_mtok: 2}
    fallback: [anthropic/claude-haiku-4-5]
limits:
  - {name: daily_usd, unit: usd, maximum: 5, window: day}
defaults:
  kind: coding
  model: local/llama
"""


def written(home: Path, text: str) -> Path:
    path = own_file(home)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def test_the_bundled_models_have_a_price_and_a_window() -> None:
    catalogue = load()
    assert {model.provider for model in catalogue.models} == {"anthropic", "openai", "scripted"}
    for model in catalogue.models:
        assert catalogue.price(model, 1000, NOON) is not None, model.name
        assert model.context_window_tokens


def test_a_file_of_the_user_comes_first_and_the_bundled_models_follow(tmp_path: Path) -> None:
    path = written(tmp_path, OWN)
    catalogue = load(path)
    assert [model.name for model in catalogue.models][:2] == ["local/llama", "anthropic/claude-sonnet-4-6"]
    assert (catalogue.source, catalogue.defaults.kind) == (str(path), "coding")
    assert [limit.name for limit in catalogue.limits] == ["daily_usd"]
    assert load(tmp_path / "missing.yaml") == load()


def test_a_model_of_the_same_name_takes_the_place_of_the_bundled_one(tmp_path: Path) -> None:
    text = "models: [{provider: openai, model: gpt-5.4, capabilities: [telepathy]}]"
    catalogue = load(written(tmp_path, text))
    assert [model.capabilities for model in catalogue.models if model.model == "gpt-5.4"] == [("telepathy",)]


def test_the_bundled_models_can_be_left_out(tmp_path: Path) -> None:
    text = "bundled: false\nproviders: {local: {}}\nmodels: [{provider: local, model: m}]"
    assert [model.name for model in load(written(tmp_path, text)).models] == ["local/m"]


def test_prices_of_the_file_name_the_file_and_its_digest(tmp_path: Path) -> None:
    catalogue = load(written(tmp_path, OWN))
    line = catalogue.price(catalogue.models[0], 1000, NOON)
    assert line is not None
    assert line.table_version is not None
    assert line.table_version.startswith("models.yaml ")
    assert (line.entry, line.cache_read_usd_per_mtok) == ("local/llama", 0.5)
    assert load().version in line.table_version


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("providers:\n  a: {}\nmodels:\n  - provider: a\n    modle: x\n", 4, "models.0.model: Field required"),
        ("providers:\n  a: {}\nmodels:\n  - provider: a\n    model: x\n    colour: red\n", 6, "models.0.colour"),
        ("models:\n  - provider: nobody\n    model: x\n", 2, "there is no provider 'nobody'"),
        ("models:\n  - provider: openai\n    model: x\n    fallback:\n      - y\n", 5, "there is no model 'y'"),
        ("models:\n  - {provider: openai, model: x}\n  - {provider: openai, model: x}\n", 3, "is listed twice"),
        ("providers:\n  a: {}\n  a: {}\n", 3, "a is given twice"),
        ("models:\n  - provider: [\n", 3, ""),
        ("models:\n  - {provider: openai, model: x}\n  - &a [*a]\n", 3, "it contains itself"),
        ("? [a, b]\n: 1\n", 1, "a key is a single word"),
        ("limits:\n  - name: x\n    unit: usd\n    maximum: -1\n", 4, "greater than or equal to 0"),
        ("limits:\n  - {name: x, unit: usd, maximum: 1, model: m}\n", 2, "names its provider"),
        ("defaults:\n  model: nobody/x\n", 2, "there is no model"),
        ("- a list\n", 1, ""),
        ("a: !!python/object/apply:os.system [true]\n", 1, "could not determine a constructor"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, text: str, line: int, problem: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(MalformedInput) as caught:
        load(path)
    assert caught.value.message.startswith(f"{path}:{line}: "), caught.value.message
    assert problem in caught.value.message


def test_only_whether_a_key_is_set_is_looked_at() -> None:
    catalogue = load()
    assert catalogue.credentials_present({}) == {"scripted"}
    assert catalogue.credentials_present({"OPENAI_API_KEY": "sk-x", "ANTHROPIC_API_KEY": ""}) == {"openai", "scripted"}
    assert "sk-x" not in repr(catalogue)


def test_a_model_that_is_not_listed_can_be_asked_for_by_its_provider() -> None:
    catalogue = load()
    assert catalogue.including("openai/gpt-4o-mini").find("openai/gpt-4o-mini") is not None
    assert catalogue.including("nobody/gpt-4o-mini") is catalogue
    assert catalogue.including("gpt-5.4") is catalogue
    added = catalogue.including("openai/gpt-4o-mini").find("gpt-4o-mini")
    assert added is not None
    assert (added.capabilities, added.context_window_tokens) == (None, 128_000)
