"""SWE-agent's trajectories: each step is a model call and the action it asked for; usage is told for the whole only."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from ingest.dialects import transcript as ts
from ingest.dialects.dialect import Dialect
from ingest.dialects.transcript import Fact, Line, Noted, count, items, measure, table, text


class SweAgentTranscript(Dialect, name="transcript_swe_agent"):
    """Tokens and cost of single calls are unknown; the totals are kept as the run reports them."""

    wants = ts.WANTED
    claims = ts.of_format("swe_agent")

    def events(self, records: pl.LazyFrame) -> pl.LazyFrame:
        """Each part's facts; the messages beside the steps are kept as records only."""
        return ts.events_from(records, read)


def read(name: str, line: Line, noted: Noted) -> Iterator[Fact]:
    """The facts of one part."""
    match name:
        case "step":
            yield ts.model_call({}, model=text(line.get("model")))
            yield from _action(line, f"step-{noted['line']}")
        case "message" if line.get("role") == "assistant" and not line.get("is_demo"):
            yield ts.model_call({})
            yield from _requested(line, f"step-{noted['line']}")
        case "message" if line.get("role") == "tool":
            for call_id in items(line.get("tool_call_ids")):
                yield ts.tool_ended(text(call_id), None, line.get("content"))
        case "info":
            yield from _whole(table(line.get("info")))


def _requested(line: Line, fallback: str) -> Iterator[Fact]:
    calls = [table(call) for call in items(line.get("tool_calls"))]
    for call in calls:
        function = table(call.get("function"))
        yield ts.tool_started(text(call.get("id")), text(function.get("name")), function.get("arguments"))
    action = text(line.get("action"))
    if action and not calls:
        yield ts.tool_started(fallback, action.split(maxsplit=1)[0] if action.strip() else None, action)


def _action(line: Line, fallback: str) -> Iterator[Fact]:
    """The action of a step and what came of it."""
    took = measure(line.get("execution_time"))
    for fact in _requested(line, fallback):
        yield fact
        yield ts.tool_ended(
            fact["tool_call_id"],
            fact["tool_name"],
            line.get("observation"),
            duration_ms=None if took is None else took * 1000,
        )


def _whole(info: dict[str, Any]) -> Iterator[Fact]:
    stats = table(info.get("model_stats"))
    reported = {
        "input_tokens": count(stats.get("tokens_sent")),
        "output_tokens": count(stats.get("tokens_received")),
        "model_calls": count(stats.get("api_calls")),
    }
    status = text(info.get("exit_status"))
    if status or stats:
        payload = {
            "status": "completed" if status in (None, "submitted") else "failed",
            "native_status": status,
            "phase": "trajectory",
            "reported_usage": {name: told for name, told in reported.items() if told is not None},
        }
        yield {"type": "run.status", "status": payload["status"], "payload": payload}
    cost = measure(stats.get("instance_cost"))
    if cost is not None:
        told = {"cost_usd": cost, "cost_state": "reported"}
        yield {"type": "cost.recorded", "cost_usd": cost, "payload": told}
