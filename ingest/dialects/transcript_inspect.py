"""Inspect's logs: model and tool events of each sample, and how the sample ended."""

from collections.abc import Iterator
from typing import Any

import polars as pl

from ingest.dialects import transcript as ts
from ingest.dialects.dialect import Dialect
from ingest.dialects.transcript import Fact, Line, Noted, count, items, measure, table, text


class InspectTranscript(Dialect, name="transcript_inspect"):
    """A sample is a session; the totals that samples and evaluations repeat are not counted."""

    wants = ts.WANTED
    claims = ts.of_format("inspect")

    def events(self, records: pl.LazyFrame) -> pl.LazyFrame:
        """Each part's facts; parts of other kinds are kept as records only."""
        return ts.events_from(records, read)


def read(name: str, line: Line, noted: Noted) -> Iterator[Fact]:
    """The facts of one part."""
    done = {"time_ns": noted["end_ns"]} if noted.get("end_ns") else {}
    match name:
        case "model":
            for fact in _model(line):
                yield done | fact
        case "tool":
            yield _tool(line, noted) | done
        case "sample":
            yield _sample(line, noted) | done
        case "sample_limit":
            payload = {"kind": "budget", "name": text(line.get("type")), "status": "hit", "maximum": line.get("limit")}
            yield {"type": "limit.changed", "status": "hit", "payload": payload}
        case "error":
            said = text(table(line.get("error")).get("message"))
            told = {"code": "sample_error", "message": said[: ts.MESSAGE_CHARS] if said else None}
            yield {"type": "runtime.error", "status": "failed", "error": "sample_error", "payload": told}


def _model(line: Line) -> Iterator[Fact]:
    output = table(line.get("output"))
    provider, _, asked = (text(line.get("model")) or "").partition("/")
    model = text(output.get("model")) or asked or provider
    who = {"provider": provider if asked else None, "model": model, "duration_ms": _milliseconds(output.get("time"))}
    response_id = text(output.get("response_id"))
    choices = [table(choice) for choice in items(output.get("choices"))]
    if line.get("pending"):
        payload = {"status": "unknown", "provider_name": who["provider"], "model_name": model}
        yield {"type": "model.requested", "status": "unknown", **who, "payload": payload}
        return
    error = text(line.get("error")) or text(output.get("error"))
    if error and not choices:
        yield ts.model_failed("model_error", error, **who)
        return
    payload = {
        "response_id": response_id,
        "stop_reason": next((text(choice.get("stop_reason")) for choice in choices), None),
        "from_local_cache": True if line.get("cache") == "read" else None,
    }
    # An answer out of Inspect's own cache asked nobody, so its tokens were used before.
    usage = {} if line.get("cache") == "read" else _usage(table(output.get("usage")))
    # Some servers reuse response ids; the event's own id does not repeat.
    request_id = response_id or text(line.get("uuid"))
    yield ts.model_call(usage, request_id=request_id, **who, payload=payload)
    for choice in choices:
        for call in map(table, items(table(choice.get("message")).get("tool_calls"))):
            yield ts.tool_started(text(call.get("id")), text(call.get("function")), call.get("arguments"))


def _usage(usage: dict[str, Any]) -> dict[str, int | None]:
    """Whether the input includes what was cached differs by provider and version: the total tells."""
    whole, output = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
    read, written = count(usage.get("input_tokens_cache_read")), count(usage.get("input_tokens_cache_write"))
    total, cached = count(usage.get("total_tokens")), (read or 0) + (written or 0)
    apart = whole is not None and (total == whole + (output or 0) + cached or whole < cached)
    uncached = whole if whole is None or apart else max(whole - cached, 0)
    return {
        "uncached_input_tokens": uncached,
        "cache_read_tokens": read,
        "cache_write_tokens": written,
        "output_tokens": output,
        "reasoning_tokens": count(usage.get("reasoning_tokens")),
        "total_tokens": total,
    }


def _tool(line: Line, noted: Noted) -> Fact:
    error = table(line.get("error"))
    took = _milliseconds(line.get("working_time"))
    if noted.get("end_ns"):
        took = max(noted["end_ns"] - noted["time_ns"], 0) / 1e6
    payload = {"message": (text(error.get("message")) or "")[: ts.MESSAGE_CHARS] or None}
    return ts.tool_ended(
        text(line.get("id")),
        text(line.get("function")),
        line.get("result"),
        error=(text(error.get("type")) or "tool_failed") if error else None,
        duration_ms=took,
        payload=payload,
    )


def _sample(line: Line, noted: Noted) -> Fact:
    failed = bool(line.get("error"))
    payload = {
        "status": "failed" if failed else "completed",
        "phase": "sample",
        "title": f"{noted.get('task') or 'sample'} {noted.get('sample')}",
        "metadata": {"scores": {name: table(score).get("value") for name, score in table(line.get("scores")).items()}},
        "reported_usage": line.get("model_usage") or None,
    }
    return {"type": "run.status", "status": payload["status"], "run_id": noted.get("eval"), "payload": payload}


def _milliseconds(seconds: Any) -> float | None:
    told = measure(seconds)
    return None if told is None else round(told * 1000, 6)
