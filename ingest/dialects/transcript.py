"""What the dialects of session files share: each line is read on its own into facts, which become events together.

Lines of these files are nested and of many shapes, so they are parsed one by one (once); the frame of all facts is then
completed with columns. A line's facts depend on nothing but the line and what its importer noted beside it, so any
batches give the same events.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import orjson
import polars as pl

from ingest.dialects.expressions import Wanted, as_time, attribute

FORMAT = "file.format"
WANTED: Wanted = {FORMAT: pl.String}
MESSAGE_CHARS = 500
"""A failure's message is kept this long in an event; the whole is in the record."""

TOKENS = ("uncached_input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")

Fact = dict[str, Any]
"""An event: its `type`, columns of `events` by name, and `payload` as a plain object."""

Line = dict[str, Any]
Noted = dict[str, Any]
Reader = Callable[[str, Line, Noted], Iterator[Fact]]

COLUMNS: dict[str, pl.DataType | type[pl.DataType]] = {
    "type": pl.String,
    "event_id": pl.String,
    "time_ns": pl.UInt64,
    "session_id": pl.String,
    "thread_id": pl.String,
    "turn_id": pl.String,
    "tool_call_id": pl.String,
    "subagent_id": pl.String,
    "artifact_id": pl.String,
    "action_id": pl.String,
    "run_id": pl.String,
    "model_request_id": pl.String,
    "trace_id": pl.String,
    "span_id": pl.String,
    "parent_span_id": pl.String,
    "status": pl.String,
    "agent_name": pl.String,
    "provider": pl.String,
    "model": pl.String,
    "tool_name": pl.String,
    "duration_ms": pl.Float64,
    **dict.fromkeys(TOKENS, pl.Int64),
    "cost_usd": pl.Float64,
    "error": pl.String,
    "payload": pl.String,
    "sequence": pl.Int64,
    "record_id": pl.String,
    "signal": pl.String,
    "journal_position": pl.Int64,
}


def of_format(name: str) -> pl.Expr:
    """Whether a record is a line of a file of this format."""
    return (pl.col("signal") == "file") & (attribute(FORMAT) == name).fill_null(False)


def events_from(records: pl.LazyFrame, read: Reader) -> pl.LazyFrame:
    """The events of lines."""
    lines = records.select(
        *("record_id", "name", "body", "attributes", "session_key", "journal_position"),
        *("trace_id", "span_id", "parent_span_id"),
        at=pl.coalesce("time_ns", "observed_ns", pl.col("time").dt.epoch("us").cast(pl.UInt64, strict=False) * 1000),
        end_ns="end_ns",
    ).collect()
    rows = [row for line in lines.iter_rows(named=True) for row in _rows(line, read)]
    facts = pl.DataFrame(rows, schema=COLUMNS, orient="row", strict=False)
    return facts.lazy().with_columns(timestamp=as_time(pl.col("time_ns")))


def _rows(line: Line, read: Reader) -> Iterator[tuple[Any, ...]]:
    noted = {key.removeprefix("file."): told for key, told in orjson.loads(line["attributes"]).items()}
    noted |= {"time_ns": line["at"], "end_ns": line["end_ns"]}
    envelope = {
        "time_ns": line["at"],
        "session_id": line["session_key"],
        "record_id": line["record_id"],
        "signal": "file",
        "journal_position": line["journal_position"],
        "trace_id": line["trace_id"],
        "span_id": line["span_id"],
        "parent_span_id": line["parent_span_id"],
    }
    for place, fact in enumerate(read(line["name"] or "", orjson.loads(line["body"]), noted)):
        row = envelope | {name: told for name, told in fact.items() if told is not None}
        row["event_id"] = f"{line['record_id']}:{place}" if place else line["record_id"]
        row["payload"] = orjson.dumps(_told(fact.get("payload", {})), default=str).decode()
        yield tuple(row.get(name) for name in COLUMNS)


def _told(payload: dict[str, Any]) -> dict[str, Any]:
    return {name: told for name, told in payload.items() if told is not None and told != {}}


def text(value: Any) -> str | None:
    """A text that says something, or None."""
    return value if isinstance(value, str) and value else None


def count(value: Any) -> int | None:
    """A whole number of things, or None; some writers put it into a text."""
    if isinstance(value, str) and value.isdecimal():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def measure(value: Any) -> float | None:
    """A number that is not negative, or None."""
    ok = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e300
    return float(value) if ok else None


def moment(seconds: Any) -> str | None:
    """A time told in seconds since 1970, or as a text already."""
    if isinstance(seconds, str):
        return seconds
    told = measure(seconds)
    return datetime.fromtimestamp(told, UTC).isoformat() if told is not None and told < 1e11 else None


def table(value: Any) -> dict[str, Any]:
    """A JSON object, or an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """A JSON array, or an empty one for anything else."""
    return value if isinstance(value, list) else []


def size(value: Any) -> int:
    """How many characters a value has as text; of a list of parts, their texts."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, list):
        return sum(size(part.get("text", "")) if isinstance(part, dict) else size(part) for part in value)
    return 0 if value is None else len(orjson.dumps(value))


def model_call(usage: dict[str, int | None], *, request_id: str | None = None, **fact: Any) -> Fact:
    """A finished model call; `payload` fields that repeat columns are filled in."""
    payload = {
        "status": "completed",
        "provider_name": fact.get("provider"),
        "model_name": fact.get("model"),
        "duration_ms": fact.get("duration_ms"),
        "usage": {name: told for name, told in usage.items() if told is not None},
        **fact.pop("payload", {}),
    }
    hot = {name: usage.get(name) for name in TOKENS}
    return (
        {"type": "model.completed", "status": "completed", "model_request_id": request_id, **hot}
        | fact
        | {"payload": payload}
    )


def model_failed(error: str | None, message: str | None, **fact: Any) -> Fact:
    """A failed model call."""
    payload = {
        "status": "failed",
        "provider_name": fact.get("provider"),
        "model_name": fact.get("model"),
        "failure_category": error,
        "message": message[:MESSAGE_CHARS] if message else None,
        "duration_ms": fact.get("duration_ms"),
        **fact.pop("payload", {}),
    }
    return {"type": "model.failed", "status": "failed", "error": error} | fact | {"payload": payload}


def tool_started(call_id: str | None, name: str | None, arguments: Any = None, **fact: Any) -> Fact:
    """A tool was asked for."""
    payload = {"status": "running", "tool_call_id": call_id, "tool_name": name} | fact.pop("payload", {})
    if arguments is not None:
        payload["input_chars"] = size(arguments)
    return (
        {"type": "tool.started", "status": "running", "tool_call_id": call_id, "tool_name": name}
        | fact
        | {"payload": payload}
    )


def tool_ended(
    call_id: str | None, name: str | None, output: Any = None, *, error: str | None = None, **fact: Any
) -> Fact:
    """A tool returned, or failed if `error` says how."""
    payload = {
        "status": "failed" if error else "completed",
        "tool_call_id": call_id,
        "tool_name": name,
        "duration_ms": fact.get("duration_ms"),
        "failure_category": error,
        **fact.pop("payload", {}),
    }
    if error is None:
        payload["output_chars"] = None if output is None else size(output)
    return (
        {
            "type": "tool.failed" if error else "tool.result",
            "status": payload["status"],
            "tool_call_id": call_id,
            "tool_name": name,
            "error": error,
        }
        | fact
        | {"payload": payload}
    )
