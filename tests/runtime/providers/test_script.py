"""A faulty script is refused before anything runs, each fault with its line and place."""

from pathlib import Path

import pytest

from models.errors import MalformedInput
from runtime.providers.script import parse_script, read_script

STEP = "turns:\n- steps:\n  - "
AT = "turns[0].steps[0]"
FAULTS = {
    "turns: []": "line 1: turns: Value error, at least one is needed",
    "turns:\n- steps: []": "line 2: turns[0].steps: Value error, at least one is needed",
    STEP + "usage: counted": f"line 3: {AT}: Value error, a step needs text, tool_calls or an error",
    STEP + "text: a\n    txt: b": f"line 4: {AT}.txt: Extra inputs are not permitted",
    STEP + "text: a\n    usage:\n      outptu_tokens: 3": "unknown: outptu_tokens",
    STEP + "text: a\n    limits:\n    - status: weird": f"line 5: {AT}.limits[0]: Value error, status is 'weird'",
    STEP + "error: {category: bored}": f"line 3: {AT}.error.category: Input should be 'rate_limited'",
    STEP + "error: {status: 429}": f"line 3: {AT}.error.category: Field required",
    STEP + "text: a\n    delay_ms: -1": f"line 4: {AT}.delay_ms: Input should be greater",
    "turns:\n- when: {matches: '('}\n  steps: [{text: a}]": "line 2: turns[0].when.matches: Value error, not a regular",
    "turns:\n- when: {}\n  steps: [{text: a}]": "line 2: turns[0].when: Value error, give either contains or matches",
    "version: 2\nturns: [{steps: [{text: a}]}]": "line 1: version: Input should be 1",
    "turn: 1": "turns: Field required",
    "- a": "Input should be a valid dictionary",
    "": "Input should be a valid dictionary",
}


@pytest.mark.parametrize(("text", "told"), FAULTS.items())
def test_a_fault_is_told_with_its_line_and_place(text: str, told: str) -> None:
    with pytest.raises(MalformedInput) as raised:
        parse_script(text, "demo.yaml")
    assert str(raised.value).startswith("demo.yaml: ")
    assert told in str(raised.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("turns: [\n  {steps: ", "demo.yaml:2: not YAML"),
        ("turns: []\nturns: []", "demo.yaml:2: turns is given twice"),
        ("turns:\n- steps:\n  - text: a\n    text: b", "demo.yaml:4: text is given twice"),
        ("turns: !!python/object/apply:os.getcwd []", "demo.yaml:1: not YAML"),
    ],
)
def test_what_is_no_sound_yaml_is_refused_with_its_line(text: str, told: str) -> None:
    with pytest.raises(MalformedInput) as raised:
        parse_script(text, "demo.yaml")
    assert str(raised.value).startswith(told)


def test_all_faults_are_told_at_once_in_the_order_of_the_file() -> None:
    with pytest.raises(MalformedInput) as raised:
        parse_script("turns:\n- steps:\n  - text: a\n    x: 1\n  - text: b\n    y: 1\n", "demo.yaml")
    assert raised.value.reason.split("; ") == [
        "line 4: turns[0].steps[0].x: Extra inputs are not permitted",
        "line 6: turns[0].steps[1].y: Extra inputs are not permitted",
    ]


def test_a_script_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("turns: [{steps: [{text: grüße}]}]", encoding="utf-8")
    assert read_script(path).turns[0].steps[0].text == ("grüße",)


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(MalformedInput, match="cannot be read") as raised:
        read_script(path)
    assert raised.value.source == str(path)
