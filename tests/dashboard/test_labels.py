"""Escaping: hostile text stays text."""

import re

import pytest

from dashboard.labels import JOINER, LONGEST, escape
from tests.dashboard.homes import HOSTILE


def plain(text: str) -> str:
    """What a reader sees of an escaped text."""
    return re.sub(r"\\(.)", r"\1", text).replace(JOINER, "")


@pytest.mark.parametrize("text", ["weather_agent", "a*b*c", "1 < 2 & 3", "C:\\temp", "`code`", "größer · als", "日本"])
def test_a_reader_sees_the_text_as_it_is(text: str) -> None:
    assert plain(escape(text)) == text


def test_no_mark_of_markdown_or_html_is_left_bare() -> None:
    assert re.search(r"(?<!\\)[!\[\]()<>*_`$#|~&{}]", escape(HOSTILE, 10_000)) is None
    assert plain(escape(HOSTILE, 10_000)) == HOSTILE


def test_bare_links_icons_and_addresses_are_broken() -> None:
    shown = re.sub(
        r"\\(.)", r"\1", escape("http://a.invalid www.a.invalid me@a.invalid :material/home: :smile: :red[x]")
    )
    assert not re.search(r"https?://|www\.|\w@\w|:material/|:smile:|:red\[", shown)


def test_text_stays_on_one_line_and_is_cut() -> None:
    assert escape("a\n# b\tc\r\n\u202ed") == "a \\# b c d"
    assert len(plain(escape("x" * 1000))) == LONGEST
    assert escape(None) == ""
