"""The steps of one session: started, progressed and finished are one row, ordered and nested as the recorded spans."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import polars as pl

FAMILIES = {
    "model": ("model",),
    "tool": ("tool", "search"),
    "agent": ("turn", "run", "task", "subagent", "thread", "session", "agent", "job", "plan", "team"),
    "sandbox": ("process", "sandbox", "file", "worktree"),
    "router": ("routing", "route", "context"),
    "policy": ("permission", "policy", "hook", "action", "elicitation", "limit", "budget"),
}
"""Which kinds of event are drawn in which colour; every other kind is `other`."""

FAMILY_OF = {kind: family for family, kinds in FAMILIES.items() for kind in kinds}

OWN_ID = {"turn": "turn_id", "task": "task_id"}
"""Kinds whose events of one id are one step."""

TOKENS = ("uncached_input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens")

SHAPE: dict[str, Any] = {
    "event_id": pl.String,
    "kind": pl.String,
    "family": pl.String,
    "label": pl.String,
    "status": pl.String,
    "started": pl.Datetime("us"),
    "duration_ms": pl.Float64,
    **dict.fromkeys(TOKENS, pl.Int64),
    "cost_usd": pl.Float64,
    "cost_state": pl.String,
    "error": pl.String,
    "agent_name": pl.String,
    "sightings": pl.Int64,
    "span_id": pl.String,
    "parent_span_id": pl.String,
    "place": pl.Int64,
}

Row = dict[str, Any]


def steps(events: pl.DataFrame, model_calls: pl.DataFrame, tool_calls: pl.DataFrame) -> pl.DataFrame:
    """One row per call, turn, task or other finished work, with its depth.

    `events` is the timeline of the session with the `record_name` of each; a call's facts are those of the relations,
    which join its sightings by recorded ids. What is no call and has no id of its own stays a row by itself.
    """
    rows = {row["event_id"]: row for row in events.iter_rows(named=True)}
    taken: set[str] = set()
    found: list[Row] = []
    for calls, name in ((model_calls, "model"), (tool_calls, "tool_name")):
        for call in calls.iter_rows(named=True):
            seen = [rows[each] for each in call["sightings"] if each in rows]
            if seen:
                taken.update(row["event_id"] for row in seen)
                found.append(_call(call, seen, name))
    found += map(_work, _grouped(row for row in rows.values() if row["event_id"] not in taken))
    return _nested(found)


def _call(call: Row, seen: list[Row], name: str) -> Row:
    """A row for a model or tool call; `seen` are its events, the most telling first."""
    best = next((row for row in seen if row["span_id"] == call["span_id"]), seen[0])
    return {
        **best,
        **{key: call.get(key) for key in (*TOKENS, "cost_usd", "cost_state")},
        "label": call[name] or best["label"],
        "status": call["status"],
        "started": call["started"],
        "duration_ms": call["duration_ms"],
        "error": call["error"],
        "agent_name": call["agent_name"],
        "sightings": len(seen),
    }


def _grouped(rows: Iterable[Row]) -> Iterable[list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows:
        own = row.get(OWN_ID.get(row["kind"], ""))
        groups[row["kind"], own or row["event_id"]].append(row)
    return groups.values()


def _work(rows: list[Row]) -> Row:
    """A row for what is no call; the last event tells how it stands."""
    first, last = rows[0], rows[-1]
    name = last["agent_name"] if last["kind"] in FAMILIES["agent"] else None
    duration = last["duration_ms"]
    if duration is None and len(rows) > 1:
        duration = (last["timestamp"] - first["started"]).total_seconds() * 1000
    return {
        **last,
        "label": name or last["record_name"] or last["label"],
        "started": min(first["started"], last["started"]),
        "duration_ms": duration,
        "place": first["place"],
        "sightings": len(rows),
    }


def _nested(found: list[Row]) -> pl.DataFrame:
    """The rows as a tree of spans flattened from the root, older first; a parent that is not shown is passed over."""
    spans = {row["span_id"]: at for at, row in enumerate(found) if row["span_id"]}
    children: dict[int | None, list[int]] = defaultdict(list)
    for at, row in enumerate(found):
        parent = spans.get(row["parent_span_id"])
        if parent is None and spans.get(row["span_id"]) not in (None, at):
            # An event within a span that another row stands for.
            parent = spans[row["span_id"]]
        children[None if parent == at else parent].append(at)
    for each in children.values():
        each.sort(key=lambda at: (found[at]["started"], found[at]["place"]))
    order = [(at, depth) for at, depth in _walk(children)]
    reached = {at for at, _ in order}
    # Spans that name each other as parents have no root; they are kept at the top.
    order += [(at, 0) for at in range(len(found)) if at not in reached]
    frame = pl.DataFrame([{key: found[at].get(key) for key in SHAPE} for at, _ in order], schema=SHAPE)
    families = pl.col("kind").replace_strict(FAMILY_OF, default="other", return_dtype=pl.String)
    return frame.with_columns(families.alias("family"), depth=pl.Series([depth for _, depth in order], dtype=pl.Int64))


def _walk(children: dict[int | None, list[int]]) -> Iterator[tuple[int, int]]:
    """Depth first without recursion: a trace may be deeper than Python's stack."""
    open_rows = [(at, 0) for at in reversed(children[None])]
    while open_rows:
        at, depth = open_rows.pop()
        yield at, depth
        open_rows += [(child, depth + 1) for child in reversed(children.get(at, []))]
