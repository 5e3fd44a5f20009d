"""One set of ids runs through all that is told of a turn: requests, cost, limits, spans and proofs."""

from pathlib import Path
from typing import Any

import orjson
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import store
from models.event import Correlation
from models.payloads.subagent import SubagentSpawned
from runtime.kernel import Draft
from runtime.telemetry import ExportSettings
from runtime.telemetry.encoding import LOGS, TRACES
from tests.runtime.loop.driving import SESSION, THREAD, Stage, catalogue, run, stage
from tests.runtime.loop.test_failing_models import DEAR
from tests.runtime.routing.scenarios import keep

HELD_BACK = """
turns:
  - steps:
      - text: Done.
        usage: {uncached_input_tokens: 1000, output_tokens: 0}
        limits: [{kind: rate_limit, name: requests, maximum: 10, remaining: 1, unit: requests}]
        error: {category: rate_limited, attempts: 1, status: 429, retry_after_ms: 1}
"""
JOIN = """
select cost.model_request_id, asked.step_id, hit.model_request_id as held_back, low.turn_id as low, proof.evidence_id,
    cost.trace_id
from events as cost
join events as asked on asked.model_request_id = cost.model_request_id and asked.type = 'model.requested'
join events as hit on hit.step_id = asked.step_id and hit.turn_id = asked.turn_id and hit.type = 'rate_limit.hit'
join events as low on low.session_id = cost.session_id and low.turn_id = cost.turn_id and low.type = 'quota.low'
join events as proof
    on proof.session_id = cost.session_id and proof.thread_id = cost.thread_id and proof.turn_id = cost.turn_id
    and proof.task_id = cost.task_id and proof.type = 'evidence.changed'
where cost.type = 'cost.recorded' and cost.run_id is not null
"""


def attributes(message: Any) -> dict[str, Any]:
    """The attributes of a log record or span."""
    return {one.key: getattr(one.value, one.value.WhichOneof("value") or "") for one in message.attributes}


def spans(scene: Stage) -> list[Any]:
    """The spans in the runtime's journal."""
    records = scene.runtime.telemetry.journal.read(0, 10_000)
    requests = [ExportTraceServiceRequest.FromString(one.body) for one in records if one.kind == TRACES]
    return [request.resource_spans[0].scope_spans[0].spans[0] for request in requests]


@pytest.mark.req("AR-16")
def test_cost_quota_rate_limit_request_span_and_proof_of_a_turn_join_by_their_ids(tmp_path: Path) -> None:
    async def play() -> None:
        given = {"catalogue": catalogue(prices=DEAR), "export": ExportSettings(logs=None, traces=None)}
        async with stage(tmp_path, HELD_BACK, **given) as scene:
            await scene.runtime.submit_turn(
                session_id=SESSION, thread_id="first", turn_id="t-0", input=[{"text": "x"}], options={"model": "no/one"}
            )
            await scene.idle()
            await scene.runtime.create_task(session_id=SESSION, task_id="task", objective="do it")
            await scene.runtime.start_task(session_id=SESSION, task_id="task")
            await scene.runtime.set_limit(name="purse", unit="usd", maximum=1.2, scope="session")
            await scene.say("Go.", "t-1", task_id="task")
            await scene.runtime.record_evidence(
                session_id=SESSION, evidence_id="proof", evidence_kind="verification", ref="file:report", turn_id="t-1"
            )
            keep(tmp_path / "home", scene.events())
            calls = {
                told["agent_runtime.model_request_id"]: span.trace_id.hex()
                for span in spans(scene)
                if (told := attributes(span)).get("gen_ai.operation.name") == "chat"
                and told["agent_runtime.turn_id"] == "t-1"
                and told["agent_runtime.task_id"] == "task"
            }
        with store.open(tmp_path / "home") as reader:
            (row,) = reader.frame(JOIN).to_dicts()
        assert row["evidence_id"] == "proof"
        assert row["held_back"] != row["model_request_id"]
        assert calls == {row["held_back"]: row["trace_id"], row["model_request_id"]: row["trace_id"]}

    run(play)


def test_a_proof_of_a_turn_that_is_not_there_is_refused(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, "turns: [{steps: [{text: Yes.}]}]") as scene:
            await scene.say("Go.", "t-1")
            with pytest.raises(Exception, match="t-9"):
                await scene.runtime.record_evidence(
                    session_id=SESSION, evidence_id="p", evidence_kind="trace", ref="x", turn_id="t-9"
                )

    run(play)


QUESTION = """
after_end: repeat
turns:
  - when: {contains: Write}
    steps:
      - tool_calls: [{name: write_file, arguments: {path: out.txt, content: hello}}]
      - text: Written.
  - when: {contains: Ask}
    steps:
      - tool_calls: [{name: ask_user, arguments: {question: "Which?"}}]
      - text: I see.
  - steps: [{text: Yes.}]
"""


def request_logs(scene: Stage, turn_id: str) -> list[dict[str, Any]]:
    """The log records of the requests of a turn, as they leave the runtime."""
    records = scene.runtime.telemetry.journal.read(0, 10_000)
    bodies = [one.body for one in records if one.kind == LOGS and one.meta.get("type") == "model.requested"]
    logs = [ExportLogsServiceRequest.FromString(body).resource_logs[0].scope_logs[0].log_records[0] for body in bodies]
    told = [{key.removeprefix("agent_runtime."): value for key, value in attributes(log).items()} for log in logs]
    return [one | orjson.loads(one["refs"]) for one in told if one["turn_id"] == turn_id]


@pytest.mark.req("GAP-25")
def test_the_log_of_a_request_names_its_thread_turn_and_child_and_what_is_pending_and_queued(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, QUESTION) as scene:
            await scene.submit("Write.", "t-1")
            pending = await scene.asked()
            side = {"session_id": SESSION, "thread_id": "side"}
            await scene.runtime.submit_turn(**side, turn_id="t-2", input=[{"text": "Ask."}])
            state = await scene.until(lambda now: len(now.open_actions()) == 2)
            await scene.runtime.submit_turn(**side, turn_id="t-3", input=[{"text": "Go on."}])
            (question,) = [one.action_id for one in state.open_actions() if one.action_id != pending]
            await scene.runtime.respond_action(
                session_id=SESSION, action_id=question, decision="answer", payload="that one"
            )
            await scene.until(lambda now: now.turns["t-3"].completed_at is not None)
            first, second = request_logs(scene, "t-2")
            assert (first["session_id"], first["thread_id"]) == (SESSION, "side")
            assert (first["pending_action_ids"], first["queued_turn_ids"]) == ([pending], [])
            assert (second["pending_action_ids"], second["pending_count"]) == ([pending], 1)
            assert (second["queued_turn_ids"], second["queued_count"]) == (["t-3"], 1)
            (third,) = request_logs(scene, "t-3")
            assert (third["queued_turn_id"], third["queued_turn_ids"]) == ("t-3", [])
            assert "subagent_id" not in third

    run(play)


@pytest.mark.req("GAP-25")
def test_the_log_of_a_request_made_in_a_childs_thread_names_the_child(tmp_path: Path) -> None:
    async def play() -> None:
        async with stage(tmp_path, QUESTION) as scene:
            await scene.say("Hello.", "t-1")
            spawned = SubagentSpawned(child_thread_id="child", role="reader", isolation="shared", status="running")
            ids = Correlation(thread_id=THREAD, turn_id="t-1", subagent_id="sub-1")
            await scene.runtime.kernel.record(SESSION, Draft(spawned, ids))
            await scene.runtime.submit_turn(
                session_id=SESSION, thread_id="child", turn_id="t-2", input=[{"text": "Read."}]
            )
            await scene.idle()
            (log,) = request_logs(scene, "t-2")
            assert (log["subagent_id"], log["thread_id"]) == ("sub-1", "child")
            answered = [event for event in scene.events("t-2") if event.type in ("model.completed", "cost.recorded")]
            assert {event.subagent_id for event in answered} == {"sub-1"}

    run(play)
