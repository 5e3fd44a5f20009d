"""AgentRunner result streams: tools, artifacts, requested actions and how the run ended."""

from collections.abc import Iterator

import polars as pl

from ingest.dialects import transcript as ts
from ingest.dialects.dialect import Dialect
from ingest.dialects.transcript import Fact, Line, Noted, measure, table, text


class AgentRunnerTranscript(Dialect, name="transcript_agent_runner"):
    """A run is a session. Models are not told, so there are no model calls."""

    wants = ts.WANTED
    claims = ts.of_format("agent_runner")

    def events(self, records: pl.LazyFrame) -> pl.LazyFrame:
        """Each result's facts; messages are kept as records only."""
        return ts.events_from(records, read)


def read(name: str, line: Line, noted: Noted) -> Iterator[Fact]:
    """The facts of one result."""
    common: Fact = {"run_id": text(line.get("run_id")) or text(line.get("runId"))}
    place = line.get("sequence")
    if isinstance(place, int) and not isinstance(place, bool) and place >= 0:
        common["sequence"] = place
    for fact in _facts(name, table(line.get("data"))):
        yield common | fact


def _facts(name: str, data: Line) -> Iterator[Fact]:
    call = table(data.get("tool_call")) or data
    call_id = text(call.get("tool_call_id")) or text(call.get("call_id")) or text(call.get("id"))
    tool = text(call.get("tool_name")) or text(call.get("name"))
    match name:
        case "tool.call.started":
            yield ts.tool_started(call_id, tool, call.get("parameters") or call.get("arguments"))
        case "tool.call.completed":
            bad = bool(call.get("error")) or call.get("success") is False
            error = "tool_failed" if bad else None
            took = measure(call.get("duration_ms"))
            yield ts.tool_ended(call_id, tool, call.get("result"), error=error, duration_ms=took)
        case "artifact.created":
            artifact = table(data.get("artifact")) or data
            kept = {"status": "created", "title": text(artifact.get("name")) or text(artifact.get("filename"))}
            artifact_id = text(artifact.get("artifact_id")) or text(artifact.get("id"))
            yield {"type": "artifact.changed", "status": "created", "artifact_id": artifact_id, "payload": kept}
        case "action.requested":
            asked = {"status": "requested", "action": text(data.get("action"))}
            yield {"type": "action.required", "status": "requested", "payload": asked}
        case "state.updated":
            yield {"type": "session.updated", "payload": {"changed_fields": [str(data.get("key"))]}}
        case "run.completed" | "run.failed":
            yield _ended(name, data)


def _ended(name: str, data: Line) -> Fact:
    status = "completed" if name == "run.completed" else "failed"
    error = data.get("error")
    said = text(error) or text(table(error).get("message")) or text(data.get("message"))
    payload = {
        "status": status,
        "phase": "run",
        "detail": said[: ts.MESSAGE_CHARS] if said else None,
        "status_reason": text(data.get("finish_reason")) or text(data.get("code")),
    }
    category = text(table(error).get("type")) or text(data.get("code"))
    return {
        "type": "run.status",
        "status": status,
        "error": category if status == "failed" else None,
        "payload": payload,
    }
