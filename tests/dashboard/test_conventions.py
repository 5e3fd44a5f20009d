"""Rules that keep traces from being rendered: text of unknown origin has no way into Markdown but `escape`."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
MODULES = sorted((PROJECT / "dashboard").rglob("*.py"))

BANNED = {
    "markdown",
    "write",
    "html",
    "table",
    "write_stream",
    "latex",
    "chat_message",
    "mermaid_chart",
    "iframe",
    "image",
}
RENDERED = {
    "title",
    "header",
    "subheader",
    "caption",
    "metric",
    "badge",
    "info",
    "warning",
    "error",
    "success",
    "toast",
    "expander",
    "popover",
    "tabs",
    "spinner",
    "button",
}
SAFE_CALLS = {
    "escape",
    "plural",
    "count",
    "short_count",
    "duration",
    "money",
    "cost",
    "ago",
    "utc",
    "size",
}
OWN_NAMES = {"report"}
"""Eight hex digits, made by us."""


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            yield node.func.attr, node


def suspicious(node: ast.expr) -> bool:
    """Whether an expression may hold text that is neither ours nor escaped."""
    match node:
        case ast.Constant():
            return False
        case ast.JoinedStr(values=values):
            return any(suspicious(value) for value in values)
        case ast.FormattedValue(value=value):
            return suspicious(value)
        case ast.IfExp(body=body, orelse=orelse):
            return suspicious(body) or suspicious(orelse)
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return any(suspicious(element) for element in elements)
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name not in SAFE_CALLS
        case ast.Name(id=name):
            return name not in OWN_NAMES
        case _:
            return True


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_nothing_is_rendered_that_was_not_escaped(path: Path) -> None:
    source = path.read_text()
    assert "unsafe_allow" not in source
    streamlit = {"st", "column", "left", "middle", "right"}
    for name, call in calls(path):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if not (isinstance(owner, ast.Name) and owner.id in streamlit):
            continue
        assert name not in BANNED, f"{path.name}:{call.lineno}: st.{name} renders what it is given"
        if name in RENDERED:
            texts = call.args[:2] if name == "metric" else call.args[:1]
            assert not any(map(suspicious, texts)), f"{path.name}:{call.lineno}: escape what st.{name} shows"


def test_the_check_sees_what_it_is_for() -> None:
    for bad in ("row['name']", "f'a {name}'", "name", "str(name)", "name.upper()", "'a' + name"):
        assert suspicious(ast.parse(bad, mode="eval").body), bad
    for good in ("'a'", "escape(name)", "f'{count(n)} of {escape(x)}'"):
        assert not suspicious(ast.parse(good, mode="eval").body), good


def test_no_module_hides_a_package_or_the_standard_library() -> None:
    packages = {path.parent.name for path in PROJECT.glob("*/__init__.py")}
    for path in (PROJECT / "dashboard").glob("*.py"):
        assert path.stem == "__init__" or path.stem not in packages | sys.stdlib_module_names, path
