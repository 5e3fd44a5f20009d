"""Actions: what a model wrote becomes one, and which of them wait for which."""

from pathlib import Path

import pytest

from runtime.loop.action import Action, ExecutorNamed, Resources, action_id, call_id, ordered, parse_arguments
from runtime.loop.tools import Tools
from runtime.providers.provider import ToolCallPart


@pytest.mark.parametrize(
    ("text", "found", "recovered"),
    [
        ('{"a": 1}', {"a": 1}, False),
        ("", {}, False),
        ('{"a": {"b": 1}', {"a": {"b": 1}}, True),
        ('{"a": "line\nbreak"}', {"a": "line\nbreak"}, True),
        ('"{\\"a\\": 1}"', {"a": 1}, True),
        ('{"a": "cut', {"a": "cut"}, True),
    ],
)
def test_arguments_are_read_and_slight_damage_is_mended(text: str, found: dict[str, object], recovered: bool) -> None:
    assert parse_arguments(text) == (found, recovered, None)


@pytest.mark.parametrize("text", ["nonsense", "[1]", '"text"', '{"a" 1}'])
def test_what_cannot_be_mended_is_a_fault(text: str) -> None:
    assert parse_arguments(text)[2] is not None


def test_a_native_tool_call_becomes_an_action(tmp_path: Path) -> None:
    part = ToolCallPart(call_id="call-7", name="read_file", arguments='{"path": "./a/../b.txt"}')
    action = Tools(tmp_path).action(part, action_id("m-1", 0))
    assert action.id == "m-1.a0"
    assert call_id(action.id, 2) == "m-1.a0.c2"
    assert (action.title, action.operation) == ("read_file ./a/../b.txt", "read_file")
    assert (action.executor.type, action.executor.target) == ("tool", "read_file")
    assert (action.origin.carrier, action.origin.provider_call_id) == ("native_tool_call", "call-7")
    assert (action.result_policy, action.failure_policy, action.persist) == ("inline", "continue", True)
    assert action.resources.read == ("b.txt",)


def act(name: str, read: tuple[str, ...] = (), write: tuple[str, ...] = ()) -> Action:
    """An Action that touches some paths."""
    return Action(
        id=name,
        title=name,
        operation="x",
        executor=ExecutorNamed(target="x"),
        resources=Resources(read=read, write=write),
    )


def test_an_action_waits_only_for_those_before_it_that_touch_the_same() -> None:
    actions = ordered(
        [
            act("write a", write=("src/a",)),
            act("read b", read=("src/b",)),
            act("search", read=("src",)),
            act("write b", write=("src/b",)),
            act("read ab", read=("src/ab",)),
            act("all", read=(".",)),
        ]
    )
    assert [action.depends_on for action in actions] == [
        *((), (), ("write a",), ("read b", "search"), (), ("write a", "write b")),
    ]
