"""What the pages read, through `store.open` and kept for a moment so that a rerun costs nothing."""

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import polars as pl
import streamlit as st

import store
from models.settings import Settings
from views.timeline import COLUMNS, timeline

FRESH_SECONDS = 2.0
WAIT_SECONDS = 1.0
"""A page waits no longer for an index that is just starting; it says so and can be tried again."""

PAGE_ROWS = 500

Row = dict[str, Any]

ORDERS = {
    "newest first": "started desc nulls last",
    "longest first": "duration_ms desc nulls last",
    "costliest first": "cost_usd desc nulls last",
    "most tokens first": "coalesce(uncached_input_tokens, 0) + coalesce(cache_read_tokens, 0) "
    "+ coalesce(cache_write_tokens, 0) + coalesce(output_tokens, 0) desc",
    "most gaps first": "gaps desc",
}

STATUS_FILTERS = {
    "ok": "status = 'completed'",
    "failed": "status = 'failed'",
    "unknown": "status = 'unknown'",
    "other": "status not in ('completed', 'failed', 'unknown')",
    "has errors": "model_calls_failed + tool_calls_failed > 0",
    "has gaps": "gaps > 0",
}
"""What the chips of the Sessions page mean; several chips are joined by `or`."""


def settings() -> Settings:
    """The settings of this process."""
    return Settings.load(os.environ)


def home() -> Path:
    """The home folder that is shown."""
    return settings().home


@st.cache_data(ttl=FRESH_SECONDS, max_entries=64, show_spinner=False)
def sessions(
    home: Path, text: str = "", chips: tuple[str, ...] = (), order: str = "newest first"
) -> tuple[pl.DataFrame, int]:
    """At most `PAGE_ROWS` sessions that match, and how many do."""
    tests = ["contains(lower(concat_ws(' ', session_id, service_name, agent_name, models, dialects)), lower(?))"]
    if chips:
        tests.append(f"({' or '.join(STATUS_FILTERS[chip] for chip in chips)})")
    where = " and ".join(tests)
    with store.open(home, wait_seconds=WAIT_SECONDS) as reader:
        found = reader.frame(
            f"select * from sessions where {where} order by {ORDERS[order]}, session_id limit {PAGE_ROWS}",  # noqa: S608
            [text],
        )
        if found.height < PAGE_ROWS:
            return found, found.height
        return found, reader.frame(f"select count(*) as n from sessions where {where}", [text])["n"][0]  # noqa: S608


TOTALS = """
select
    count(*) as sessions,
    count(case when status = 'failed' then 1 end) as failed,
    try_cast(sum(events) as bigint) as events,
    try_cast(sum(model_calls) as bigint) as model_calls,
    try_cast(sum(model_calls_failed) as bigint) as model_calls_failed,
    try_cast(sum(tool_calls) as bigint) as tool_calls,
    try_cast(sum(tool_calls_failed) as bigint) as tool_calls_failed,
    try_cast(sum(uncached_input_tokens) as bigint) as uncached_input_tokens,
    try_cast(sum(cache_read_tokens) as bigint) as cache_read_tokens,
    try_cast(sum(cache_write_tokens) as bigint) as cache_write_tokens,
    try_cast(sum(output_tokens) as bigint) as output_tokens,
    sum(cost_usd) as cost_usd,
    try_cast(sum(costs_unknown) as bigint) as costs_unknown,
    sum(costs_unknown) / nullif(sum(costs_unknown) + sum(calls_priced), 0) as unpriced_share,
    try_cast(sum(gaps) as bigint) as gaps,
    count(case when gaps > 0 then 1 end) as sessions_with_gaps,
    min(started) as first_started,
    max(started) as last_started
from sessions
"""

ACTIVITY = """
select
    make_timestamp(epoch_us(started) // {width_us} * {width_us}) as bucket,
    case when status in ('completed', 'failed') then status else 'unknown' end as status,
    count(*) as sessions
from sessions
where started >= make_timestamp({since_us})
group by all
order by bucket
"""


RECORD_NAMES = """
select record_id, any_value(name) as record_name
from records
where time between make_timestamp(?::bigint) and make_timestamp(?::bigint)
    and record_id in (select record_id from session_events where session_id = ?)
group by record_id
"""

EVENT = "select * from session_events where timestamp = make_timestamp(?::bigint) and event_id = ?"

RECORD = """
select * from records
where time between make_timestamp(?::bigint) and make_timestamp(?::bigint) and record_id = ?
limit 1
"""


@st.cache_data(ttl=FRESH_SECONDS, max_entries=4, show_spinner=False)
def totals(home: Path) -> Row:
    """Figures over all sessions."""
    with store.open(home, wait_seconds=WAIT_SECONDS) as reader:
        return reader.frame(TOTALS).row(0, named=True)


@st.cache_data(ttl=FRESH_SECONDS, max_entries=4, show_spinner=False)
def activity(home: Path, since: datetime, width_seconds: int) -> pl.DataFrame:
    """Sessions begun since a moment, by stretch of time and outcome."""
    query = ACTIVITY.format(width_us=width_seconds * 1_000_000, since_us=int(since.timestamp() * 1_000_000))
    with store.open(home, wait_seconds=WAIT_SECONDS) as reader:
        return reader.frame(query)


@st.cache_data(ttl=FRESH_SECONDS * 5, max_entries=4, show_spinner=False)
def senders(home: Path) -> pl.DataFrame:
    """What arrived from whom."""
    with store.open(home, wait_seconds=WAIT_SECONDS) as reader:
        return reader.frame(
            "select service_name, try_cast(sum(records) as bigint) as records, "
            "try_cast(sum(unclaimed) as bigint) as unclaimed, "
            "string_agg(distinct dialect, ', ' order by dialect) as dialects, max(last_received) as last_received "
            "from records_by_source group by service_name order by last_received desc"
        )


@st.cache_data(ttl=FRESH_SECONDS * 5, max_entries=4, show_spinner=False)
def undecoded(home: Path) -> pl.DataFrame:
    """The newest journal records that could not be decoded."""
    with store.open(home, wait_seconds=WAIT_SECONDS) as reader:
        return reader.frame("select position, kind, received, reason from undecoded order by position desc limit 100")


@st.cache_data(ttl=FRESH_SECONDS, max_entries=32, show_spinner=False)
def session(home: Path, session_id: str) -> Row | None:
    """The row of one session; None if there is none."""
    with store.open(home, wait_seconds=WAIT_SECONDS) as reader:
        found = reader.frame("select * from sessions where session_id = ?", [session_id])
        return found.row(0, named=True) if found.height else None


@st.cache_data(ttl=FRESH_SECONDS * 5, max_entries=16, show_spinner=False)
def story(home: Path, session_id: str, first: datetime, last: datetime) -> dict[str, pl.DataFrame]:
    """All that one session's page draws: its events in order, calls, turns, gaps, and the names of its records."""
    events = [column for column in COLUMNS if column not in ("place", "kind", "label", "started")]
    with store.open(home, wait_seconds=WAIT_SECONDS) as reader:
        ordered = timeline(reader.events(session_id, columns=events)).collect()

        def of(relation: str) -> pl.DataFrame:
            return reader.frame(f"select * from {relation} where session_id = ?", [session_id])  # noqa: S608

        names = reader.frame(RECORD_NAMES, [_micros(first), _micros(last), session_id])
        return {
            "events": ordered.join(names, on="record_id", how="left"),
            "model_calls": of("model_calls"),
            "tool_calls": of("tool_calls"),
            "turns": of("turns").sort("started"),
            "gaps": of("gaps").sort("time", "kind", nulls_last=True),
        }


@st.cache_data(ttl=60.0, max_entries=64, show_spinner=False)
def event(home: Path, event_id: str, timestamp: datetime, first: datetime, last: datetime) -> tuple[Row, Row | None]:
    """One event with its payload, and the record it was made from."""
    with store.open(home, wait_seconds=WAIT_SECONDS) as reader:
        found = reader.frame(EVENT, [_micros(timestamp), event_id]).row(0, named=True)
        records = reader.frame(RECORD, [_micros(first), _micros(last), found["record_id"]])
        return found, records.row(0, named=True) if records.height else None


def parsed(text: str | None) -> Any:
    """A JSON column as values; None if it is empty, the text itself should it not be JSON."""
    if text is None:
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text


def _micros(moment: datetime) -> int:
    """A time of the database, which is UTC without saying so, in microseconds since 1970."""
    return (moment - datetime(1970, 1, 1)) // (datetime.resolution)
