"""The page about the runtime lists the commands there are."""

import re
from pathlib import Path

import runtime.runtime  # noqa: F401 - fills the table
from runtime.control.command import TABLE

PAGE = Path(__file__).resolve().parents[3] / "docs" / "runtime.md"


def test_the_page_lists_every_command_with_its_summary() -> None:
    lines = dict(re.findall(r"^\| `(\w+)` \| \w+ \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))
    later = {name: "" if one.supported else " *Not supported yet.*" for name, one in TABLE.items()}
    assert lines == {name: one.summary + later[name] for name, one in TABLE.items()}
