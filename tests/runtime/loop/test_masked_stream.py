"""What is told of an answer while it streams holds no part of a secret, however the pieces cut it."""

import random
from itertools import pairwise
from pathlib import Path

import pytest

from models.redaction import Redactor
from runtime.loop.masked_stream import LOOK_BACK, MaskedStream
from tests.runtime.loop.driving import run, stage
from tests.secrets_corpus import planted_secrets

REDACTOR = Redactor(b"k" * 32)
PLANTED = planted_secrets()


def told(text: str, cuts: list[int]) -> list[str]:
    """What is given out after each piece."""
    stream = MaskedStream(REDACTOR)
    places = [0, *sorted(cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(places)]
    return [*map(stream.take, pieces), stream.end()]


@pytest.mark.parametrize("kind", PLANTED)
def test_a_secret_is_masked_however_it_is_cut(kind: str) -> None:
    text, secret = PLANTED[kind]
    whole = f"Let me see what is there.\nHere it is: {text} and so on.\nThat was it.\n"
    masked, counts = REDACTOR.mask_text(whole)
    assert counts
    assert secret not in masked
    rng = random.Random(kind)
    for pieces in (1, 2, 5, 40, len(whole)):
        cuts = rng.sample(range(len(whole)), min(pieces, len(whole)))
        given = told(whole, cuts)
        assert "".join(given) == masked
        assert secret not in "".join(given)


def test_harmless_words_are_given_out_as_they_come() -> None:
    assert told("One two three.\nFour", [2, 6, 15]) == ["", "One ", "two three.\n", "", "Four"]


def test_a_line_that_names_a_secret_waits_for_its_end_and_the_next_does_not() -> None:
    stream = MaskedStream(REDACTOR)
    assert stream.take("My password ") == "My password "
    assert stream.take("= Hunter2secret9 and ") == ""
    line = stream.take("more\nthe next ")
    assert line.startswith("= [REDACTED:")
    assert line.endswith(" and more\nthe next ")


def test_a_name_far_back_in_a_long_line_still_counts() -> None:
    stream = MaskedStream(REDACTOR)
    assert stream.take("word " * LOOK_BACK + "the api key ")
    assert "Zq7Rk2Vw9Xy4Tn8Lp3" not in stream.take(": Zq7Rk2Vw9Xy4Tn8Lp3 ") + stream.end()


SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SCRIPT = f"""
turns:
  - steps:
      - reasoning: ["The token is {SECRET[:9]}", "{SECRET[9:]}", ", it seems. "]
        text: ["Take ", "{SECRET[:20]}", "{SECRET[20:]}", " and go."]
        tool_calls:
          - {{name: grep, arguments: {{pattern: "{SECRET}"}}}}
          - {{name: ask_user, arguments: {{question: "Is it {SECRET}?"}}}}
      - text: Done.
"""


def test_no_fact_of_a_turn_holds_a_secret_that_the_model_says(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, SCRIPT) as scene:
            await scene.submit("Go.", "t-1")
            await scene.answer("decline")
            await scene.idle()
            for record in scene.runtime.telemetry.journal.read(0, 10_000):
                assert SECRET.encode() not in record.body
                assert SECRET[20:].encode() not in record.body
            said = [fact for fact in scene.facts("model.delta") if fact.kind == "text"]
            assert "".join(fact.text for fact in said[:-1]).startswith("Take [REDACTED:github:")
            assert "".join(fact.text for fact in scene.facts("reasoning.delta")).endswith(", it seems. ")
            assert scene.state.turns["t-1"].status == "completed"

    run(play)
