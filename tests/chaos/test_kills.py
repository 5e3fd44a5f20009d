"""kill -9 at random moments of receiver, index and supervisor: nothing acknowledged is missing, nothing is doubled."""

from pathlib import Path

import pytest

from tests.chaos import kills

KILLS = 50
SEEDS = Path(__file__).with_name("seeds.txt")
"""Seeds that failed once: `KILLS SEED` on a line, with the reason after a #; they run first."""


def failed_before() -> list[tuple[int, int]]:
    lines = [line.partition("#")[0].split() for line in SEEDS.read_text().splitlines()]
    return [(int(words[0]), int(words[1])) for words in lines if words]


@pytest.mark.parametrize(("count", "seed"), [*failed_before(), (KILLS, 1)])
def test_kills_at_random_moments_lose_and_double_nothing(tmp_path: Path, count: int, seed: int) -> None:
    outcome = kills.run(tmp_path / "home", count, seed)
    assert outcome.kills.total() == count
    assert outcome.kills.keys() == {"receiver", "index", "supervisor"}
    assert outcome.acknowledged > count
    assert outcome.unknown > 0, "no request was under way when a part died: nothing was tested"
