"""Settings: each documented, read from the environment, overruled by options."""

from pathlib import Path

import pytest

from models.errors import UsageError
from models.settings import PREFIX, Settings

README = Path(__file__).resolve().parents[2] / "README.md"


def test_every_setting_is_in_the_readme_with_its_sentence() -> None:
    text = README.read_text()
    for name, field in Settings.model_fields.items():
        assert f"| `{PREFIX}{name.upper()}` |" in text, name
        assert field.description, name
        assert f"| {field.description} |" in text, name


def test_options_overrule_the_environment_and_it_overrules_defaults() -> None:
    environment = {"TACHOGRAPH_MAX_ITEMS": "7", "TACHOGRAPH_OTLP_HTTP": "127.0.0.1:1", "UNRELATED": "x"}
    found = Settings.load(environment, otlp_http="127.0.0.1:2", otlp_grpc=None)
    assert (found.max_items, found.otlp_http, found.otlp_grpc) == (7, "127.0.0.1:2", "127.0.0.1:4317")


def test_a_wrong_value_names_its_setting() -> None:
    with pytest.raises(UsageError, match="TACHOGRAPH_MAX_ITEMS"):
        Settings.load({"TACHOGRAPH_MAX_ITEMS": "-1"})
