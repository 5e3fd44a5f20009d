"""The facts behind one event: what it says, what it cost, and the record it was made from."""

from datetime import datetime
from pathlib import Path
from typing import Any

import streamlit as st

from dashboard.labels import escape
from dashboard.reading import Row, event, parsed
from dashboard.wording import COST_STATES, cost, count, duration, status_sign, utc

IDENTITIES = (
    "event_id",
    "sequence",
    "turn_id",
    "task_id",
    "run_id",
    "attempt_id",
    "step_id",
    "tool_call_id",
    "model_request_id",
    "action_id",
    "subagent_id",
    "artifact_id",
    "evidence_id",
    "trace_id",
    "span_id",
    "parent_span_id",
    "record_id",
    "journal_position",
)


def detail(home: Path, session: Row, row: Row) -> None:
    """Draw the panel of one event."""
    with st.container(border=True):
        st.subheader(escape(row["label"]), anchor=False)
        st.caption(f"{escape(row['type'])} · {utc(row['timestamp'])}")
        whole, record = event(home, row["event_id"], row["timestamp"], *_bounds(session))
        summary, payload, raw = st.tabs(["Summary", "Payload", "Record"])
        with summary:
            _summary(whole)
        with payload:
            _json(parsed(whole["payload"]), "This event has no payload.")
            refs = parsed(whole["refs"])
            if refs:
                st.caption("References")
                st.json(refs)
        with raw:
            _record(record)


def _bounds(session: Row) -> tuple[datetime, datetime]:
    return session["first_time"], session["last_time"]


def _summary(whole: Row) -> None:
    facts = {
        "status": status_sign(whole["status"]),
        "error": whole["error"],
        "duration": duration(whole["duration_ms"]) if whole["duration_ms"] is not None else None,
        "agent": whole["agent_name"],
        "provider": whole["provider"],
        "model": whole["model"],
        "tool": whole["tool_name"],
        "input tokens": _told(whole["uncached_input_tokens"]),
        "cached tokens": _told(whole["cache_read_tokens"]),
        "cache-write tokens": _told(whole["cache_write_tokens"]),
        "output tokens": _told(whole["output_tokens"]),
        "of these reasoning": _told(whole["reasoning_tokens"]),
        "cost": _cost(whole),
        "price": whole["price_entry"] and f"{whole['price_entry']} (table {whole['price_version']})",
        "dialect": whole["dialect"],
        "session known by": whole["session_source"],
    }
    _pairs(facts)
    st.caption("Identities")
    _pairs({name: whole[name] for name in IDENTITIES})


def _told(tokens: int | None) -> str | None:
    return None if tokens is None else count(tokens)


def _cost(whole: Row) -> str | None:
    state = whole["cost_state"]
    return f"{cost(whole['cost_usd'], state)}, {COST_STATES.get(state, state)}" if state else None


def _pairs(facts: dict[str, Any]) -> None:
    """Names and values as plain text; what is not known is left out."""
    known = {name: str(value) for name, value in facts.items() if value is not None}
    width = max(map(len, known), default=0)
    st.code("\n".join(f"{name:<{width}}  {value}" for name, value in known.items()), language=None)


def _json(value: Any, otherwise: str) -> None:
    if value is None or value == {}:
        st.caption(escape(otherwise))
    elif isinstance(value, dict | list):
        st.json(value, expanded=2)
    else:
        st.code(str(value), language=None, wrap_lines=True)


def _record(record: Row | None) -> None:
    """What arrived, as it arrived, after secrets were masked."""
    if record is None:
        st.caption("The record of this event is not in the index.")
        return
    _pairs(
        {
            name: record[name]
            for name in ("signal", "name", "kind", "severity", "status", "status_message", "scope_name")
        }
        | {"received": utc(record["received"])}
    )
    for title in ("attributes", "body", "span_events", "links", "resource", "extra"):
        value = parsed(record[title])
        if value not in (None, {}, []):
            st.caption(escape(title.replace("_", " ").capitalize()))
            _json(value, "")
