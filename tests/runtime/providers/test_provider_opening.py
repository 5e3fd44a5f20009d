"""Providers are opened by name; what is missing is said, and an SDK is loaded only when asked for."""

import subprocess
import sys
from typing import Any

import pytest

from models.errors import UsageError
from runtime.providers import PROVIDERS, open_provider

KEYS = {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"}


def test_every_provider_of_the_registry_opens() -> None:
    for name in PROVIDERS:
        settings = {"text": "turns: [{steps: [{text: hi}]}]"} if name == "scripted" else {}
        assert open_provider(name, settings=settings, environment=KEYS).name == name


def test_an_unknown_provider_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UsageError) as raised:
        open_provider("oracle", settings={})
    assert raised.value.next_step == "choose one of anthropic, openai, scripted"


@pytest.mark.parametrize(("name", "variable"), [("openai", "OPENAI_API_KEY"), ("anthropic", "ANTHROPIC_API_KEY")])
@pytest.mark.parametrize("environment", [{}, {"OPENAI_API_KEY": " ", "ANTHROPIC_API_KEY": ""}])
def test_a_missing_key_is_named(name: str, variable: str, environment: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="needs a key") as raised:
        open_provider(name, settings={}, environment=environment)
    assert raised.value.next_step == f"set {variable} in the environment"


def test_another_variable_may_hold_the_key() -> None:
    settings = {"api_key_env": "LOCAL_KEY", "base_url": "http://127.0.0.1:9/v1", "api": "chat"}
    assert open_provider("openai", settings=settings, environment={"LOCAL_KEY": "k"}).name == "openai"


@pytest.mark.parametrize(
    ("name", "settings", "told"),
    [
        ("openai", {"api": "telepathy"}, "api: "),
        ("openai", {"api_key": "sk-secret"}, "api_key: Extra inputs"),
        ("anthropic", {"max_output_tokens": 0}, "max_output_tokens: "),
        ("anthropic", {"idle_timeout_s": -1}, "idle_timeout_s: "),
        ("scripted", {}, "either path or text"),
    ],
)
def test_wrong_settings_are_named_and_not_repeated(name: str, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told) as raised:
        open_provider(name, settings=settings, environment=KEYS)
    assert "sk-secret" not in str(raised.value)
    assert raised.value.__cause__ is None
    assert raised.value.__context__ is None


LAZY = """
import sys
from runtime.providers import open_provider
open_provider("scripted", settings={"text": "turns: [{steps: [{text: hi}]}]"})
assert not {"openai", "anthropic", "httpx2"} & set(sys.modules)
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name in ("openai", "anthropic"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
for name in ("openai", "anthropic"):
    try:
        open_provider(name, settings={}, environment={"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"})
    except Exception as error:
        print(type(error).__name__, error.next_step)
"""


def test_sdks_are_loaded_when_asked_for_and_a_missing_one_is_named() -> None:
    done = subprocess.run([sys.executable, "-c", LAZY], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "UsageError pip install 'tachograph[openai]'",
        "UsageError pip install 'tachograph[anthropic]'",
    ]
