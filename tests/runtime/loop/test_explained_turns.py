"""Turns that were really carried out are explained from the tables alone, whichever way the choice of a model went."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from runtime.routing.catalogue import Prices
from tests.runtime.loop.driving import FREE, SESSION, catalogue, run, stage
from tests.runtime.loop.test_failing_models import DEAR, SPENDING, failing
from tests.runtime.routing.scenarios import explained, keep

FINE = "turns:\n  - steps: [{text: Done., usage: counted}]\n"
ERROR = failing("category: overloaded, models: [first], retry_after_ms: 1")
LIMIT = failing("category: rate_limited, models: [first], status: 429, retry_after_ms: 600000")


@dataclass(frozen=True)
class Case:
    """A turn, and how its choice of a model went."""

    script: str
    models: tuple[str, ...]
    way: tuple[str, ...]
    """The decision's outcome, then those of what followed it."""

    proves: tuple[str, ...]
    model: str | None = None
    prices: Prices = FREE
    limit_usd: float | None = None


CASES = {
    "selected": Case(FINE, ("first", "second"), ("selected",), ("AR-115", "AR-116", "AR-117")),
    "single": Case(FINE, ("only",), ("single_candidate",), ("AR-120",)),
    "none": Case(FINE, ("first",), ("not_possible",), ("AR-119",), model="nobody/nothing"),
    "after an error": Case(ERROR, ("first", "second"), ("selected", "fallback"), ("AR-118",)),
    "after a rate limit": Case(LIMIT, ("first", "second"), ("selected", "fallback"), ("AR-118", "AR-128")),
    "blocked by quota": Case(
        SPENDING, ("first",), ("single_candidate", "not_possible"), ("AR-130",), prices=DEAR, limit_usd=1.5
    ),
}


@pytest.mark.parametrize(
    "case",
    [pytest.param(one, marks=pytest.mark.req("AR-15", "AR-238", *one.proves), id=name) for name, one in CASES.items()],
)
def test_a_turn_is_explained_from_the_tables_alone(case: Case, tmp_path: Path) -> None:
    async def play() -> None:
        models = catalogue(*case.models, prices=case.prices)
        async with stage(tmp_path / "runtime", case.script, catalogue=models) as scene:
            if case.limit_usd is not None:
                await scene.runtime.set_limit(name="purse", unit="usd", maximum=case.limit_usd, scope="session")
            await scene.say("Go.", "t-1", **({"model": case.model} if case.model else {}))
            keep(tmp_path / "home", scene.events())
        (choice,) = explained(tmp_path / "home", "t-1", SESSION)
        way = (choice["decision"]["outcome"], *(one["outcome"] for one in choice["fallbacks"]))
        assert way == case.way
        assert choice["decision"]["reason"]
        assert {row["model"] for row in choice["models"]} == set(case.models)
        if "fallback" in way:
            assert choice["fallbacks"][0]["selected_model"] == "second"
        if case.limit_usd is not None:
            (limit,) = choice["fallbacks"][-1]["limits"]
            assert (limit["name"], limit["status"], limit["maximum"]) == ("purse", "blocked", 1.5)

    run(play)
