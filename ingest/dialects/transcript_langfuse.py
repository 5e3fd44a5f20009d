"""Langfuse exports: generations, tools and spans with the ids of their traces."""

from collections.abc import Iterator
from typing import Any

import orjson
import polars as pl

from ingest.dialects import transcript as ts
from ingest.dialects.dialect import Dialect
from ingest.dialects.transcript import Fact, Line, Noted, count, items, measure, table, text

INPUT, OUTPUT = ("input", "prompt_tokens", "input_tokens"), ("output", "completion_tokens", "output_tokens")
READ = ("input_cache_read", "input_cached_tokens", "cache_read_input_tokens", "input_cache_read_tokens")
WRITE = ("input_cache_creation", "cache_creation_input_tokens", "input_cache_write")
REASONING = ("output_reasoning", "output_reasoning_tokens", "reasoning_tokens")
RUNS = frozenset({"span", "agent", "chain", "retriever", "evaluator", "guardrail"})
CALLS = frozenset({"generation", "embedding"})


class LangfuseTranscript(Dialect, name="transcript_langfuse"):
    """A generation above another one repeats it, so it is a run and not a call."""

    wants = ts.WANTED
    claims = ts.of_format("langfuse")

    def events(self, records: pl.LazyFrame) -> pl.LazyFrame:
        """Each observation's facts; traces and scores are kept as records only."""
        return ts.events_from(records, read)


def read(name: str, line: Line, noted: Noted) -> Iterator[Fact]:
    """The facts of one observation."""
    took = None
    if noted.get("end_ns"):
        took = max(noted["end_ns"] - noted["time_ns"], 0) / 1e6
    when = {"time_ns": noted.get("end_ns") or noted["time_ns"], "duration_ms": took}
    failed = line.get("level") == "ERROR"
    if name in CALLS and not noted.get("repeats"):
        yield from _call(line, when, failed)
        if not noted.get("tools_told"):
            yield from _requested(line, when)
    elif name == "tool":
        error = "tool_failed" if failed else None
        yield ts.tool_ended(text(line.get("id")), text(line.get("name")), line.get("output"), error=error, **when)
    elif name in RUNS or name in CALLS:
        status = "failed" if failed else "completed"
        payload = {
            "status": status,
            "phase": name,
            "title": text(line.get("name")),
            "reported_usage": line.get("usageDetails") or None,
        }
        yield {"type": "run.status", "status": status, **when, "payload": payload}


def _call(line: Line, when: dict[str, Any], failed: bool) -> Iterator[Fact]:
    who = {"model": text(line.get("model"))} | when
    if failed:
        yield ts.model_failed("model_error", text(line.get("statusMessage")), **who)
        return
    first_ms = measure(line.get("timeToFirstToken"))
    cost = measure(line.get("totalCost"))
    yield ts.model_call(
        _usage(table(line.get("usageDetails"))),
        **who,
        # Langfuse writes 0 where it knows no price.
        cost_usd=cost or None,
        payload={"time_to_first_token_ms": None if first_ms is None else first_ms * 1000},
    )


def _requested(line: Line, when: dict[str, Any]) -> Iterator[Fact]:
    names = items(line.get("toolCallNames"))
    for place, told in enumerate(items(line.get("toolCalls"))):
        call = table(orjson.loads(told)) if isinstance(told, str) and told.startswith("{") else table(told)
        name = text(call.get("name")) or (text(names[place]) if place < len(names) else None)
        yield ts.tool_started(text(call.get("id")), name, call.get("arguments"), time_ns=when["time_ns"])


def _usage(told: dict[str, Any]) -> dict[str, int | None]:
    """The parts of the input lie side by side; where the total says otherwise they are inside it."""
    whole, output = _first(told, INPUT), _first(told, OUTPUT)
    read, written = _first(told, READ), _first(told, WRITE)
    total, cached = count(told.get("total")), (read or 0) + (written or 0)
    inside = whole is not None and cached > 0 and total == whole + (output or 0) and whole >= cached
    return {
        "uncached_input_tokens": whole - cached if inside and whole is not None else whole,
        "cache_read_tokens": read,
        "cache_write_tokens": written,
        "output_tokens": output,
        "reasoning_tokens": _first(told, REASONING),
        "total_tokens": total,
    }


def _first(told: dict[str, Any], names: tuple[str, ...]) -> int | None:
    return next((number for name in names if (number := count(told.get(name))) is not None), None)
