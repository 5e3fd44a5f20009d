"""Models that fail, are throttled, cost too much or do not exist: what follows, as facts."""

from pathlib import Path

import pytest

from runtime.routing.catalogue import Prices
from tests.runtime.loop.driving import catalogue, run, stage

DEAR = Prices(input_usd_per_mtok=1_000, output_usd_per_mtok=1_000)


def failing(error: str, text: str = "Done.") -> str:
    return f"turns:\n  - steps: [{{text: {text}, usage: counted, error: {{{error}}}}}]\n"


@pytest.mark.req("AR-72")
def test_a_passing_error_is_tried_again_in_the_same_step(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, failing("category: server_error, attempts: 2, retry_after_ms: 1")) as scene:
            await scene.say("Go.", "t-1")
            requested = [event for event in scene.events() if event.type == "model.requested"]
            assert [event.payload.attempt_index for event in requested] == [1, 2, 3]  # type: ignore[attr-defined]
            assert len({event.step_id for event in requested}) == 1
            assert len({event.model_request_id for event in requested}) == 3
            assert [fact.status for fact in scene.facts("run.status")] == ["preparing", "retrying", "retrying"]
            assert scene.state.turns["t-1"].status == "completed"
            assert "routing.fallback.applied" not in scene.types()

    run(play)


@pytest.mark.req("AR-117", "AR-118")
def test_after_the_last_try_the_next_model_of_the_chain_is_taken(tmp_path: Path) -> None:
    async def play() -> None:
        script = failing("category: overloaded, models: [first], retry_after_ms: 1, after_pieces: 1")
        async with stage(tmp_path, script, catalogue=catalogue("first", "second")) as scene:
            await scene.say("Go.", "t-1")
            decided = scene.facts("routing.decided")[0]
            assert (decided.selected_model, decided.fallback_chain) == ("first", ("scripted/second",))
            assert decided.decision_reason
            fallback = scene.facts("routing.fallback.applied")[0]
            assert (fallback.from_model, fallback.selected_model) == ("first", "second")
            assert fallback.failure_category == "overloaded"
            assert [fact.model_name for fact in scene.facts("model.failed")] == ["first"] * 3
            assert scene.facts("model.completed")[0].model_name == "second"

    run(play)


@pytest.mark.req("AR-128", "AR-96")
def test_a_rate_limit_with_a_long_wait_leads_to_the_next_model_at_once(tmp_path: Path) -> None:
    async def play() -> None:
        limits = "limits: [{kind: rate_limit, name: requests, maximum: 10, remaining: 0, unit: requests}]"
        script = failing(f"category: rate_limited, models: [first], status: 429, retry_after_ms: 600000, {limits}")
        async with stage(tmp_path, script, catalogue=catalogue("first", "second")) as scene:
            await scene.say("Go.", "t-1")
            types = scene.types("t-1")
            at = types.index("model.failed")
            assert types[at : at + 4] == [
                "model.failed", "rate_limit.hit", "limit.changed", "routing.fallback.applied",
            ]  # fmt: skip
            hit = scene.facts("rate_limit.hit")[0]
            assert (hit.limiter, hit.http_status, hit.retry_after_ms) == ("provider", 429, 600_000)
            assert scene.state.turns["t-1"].status == "completed"
            # The next turn does not even try the one that is held back.
            await scene.say("Go.", "t-2")
            assert scene.facts("routing.candidates.resolved", "t-2")[0].quota_gaps == ("scripted",)

    run(play)


def test_without_another_model_the_turn_fails_with_the_class_of_the_failure(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, failing("category: auth, status: 401")) as scene:
            await scene.say("Go.", "t-1")
            assert scene.types("t-1")[-3:] == ["model.failed", "routing.not_possible", "turn.failed"]
            assert scene.facts("turn.failed")[0].failure_category == "auth"

    run(play)


@pytest.mark.req("AR-119", "AR-49")
def test_a_model_that_does_not_exist_ends_the_turn_before_anything_is_asked(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, failing("category: auth")) as scene:
            await scene.say("Go.", "t-1", model="nobody/nothing")
            assert scene.types("t-1")[-2:] == ["routing.not_possible", "turn.failed"]
            assert "model.requested" not in scene.types()
            assert scene.facts("turn.failed")[0].failure_category == "routing"

    run(play)


SPENDING = """
after_end: repeat
turns:
  - steps:
      - {text: Looking., tool_calls: [{name: list_files}], usage: {uncached_input_tokens: 1600, output_tokens: 50}}
      - {text: Done., usage: {uncached_input_tokens: 1600, output_tokens: 50}}
"""


@pytest.mark.req("AR-129", "AR-130", "AR-127")
def test_a_quota_that_is_used_up_within_a_turn_stops_it(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, SPENDING, catalogue=catalogue(prices=DEAR)) as scene:
            await scene.runtime.set_limit(name="purse", unit="usd", maximum=1.5, scope="session")
            await scene.say("Go.", "t-1")
            types = scene.types("t-1")
            assert types[-3:] == ["quota.blocked", "routing.not_possible", "turn.failed"]
            assert types.index("quota.low") < types.index("tool.started")
            assert len(scene.facts("model.requested")) == 1
            assert scene.facts("turn.failed")[0].failure_category == "quota"
            await scene.say("Again.", "t-2")
            assert scene.types("t-2")[-3:] == ["routing.not_possible", "quota.blocked", "turn.failed"]
            assert scene.facts("turn.failed", "t-2")[0].failure_category == "quota"

    run(play)


def test_a_failed_call_that_used_tokens_is_billed(tmp_path: Path) -> None:
    async def play() -> None:
        script = failing("category: disconnected, attempts: 1, usage: {uncached_input_tokens: 100}, retry_after_ms: 1")
        async with stage(tmp_path, script, catalogue=catalogue(prices=DEAR)) as scene:
            await scene.say("Go.", "t-1")
            costs = scene.facts("cost.recorded")
            assert len(costs) == 2
            assert costs[0].cost_usd == pytest.approx(0.1)

    run(play)


def test_a_provider_that_cannot_be_opened_is_a_failed_call_and_not_a_crash(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, "turns: nonsense") as scene:
            await scene.say("Go.", "t-1")
            assert scene.state.turns["t-1"].status == "failed"

    run(play)
