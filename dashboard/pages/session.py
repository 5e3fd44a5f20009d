"""Session: what happened in one session, step by step, and every fact behind a step."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import streamlit as st

from dashboard import reading
from dashboard.cards import cards
from dashboard.detail import detail
from dashboard.labels import escape
from dashboard.notices import foreseen, partial
from dashboard.picture import MOST_BARS, PICK, waterfall
from dashboard.steps import steps
from dashboard.tables import chosen_row, height, session_table, styled
from dashboard.wording import COST_STATES, cost, count, duration, plural, short_count, status_word, unpriced, utc

PAGE_ROWS = 1000
MOST_PICTURE_PIXELS = 480
WIDTHS = {
    "After": 80,
    "Kind": 65,
    "Status": 85,
    "Duration": 80,
    "Input": 65,
    "Cached": 65,
    "Output": 65,
    "Cost (USD)": 85,
}

GAP_KINDS = {
    "sequence_hole": "numbers missing in the session's own count",
    "missing_parent": "a parent span never arrived",
    "not_closed": "work whose end was not recorded",
    "truncated": "parts dropped or cut by the sender",
    "clock_skew": "times that cannot be: a clock was off",
    "metrics_only": "metrics came, but no logs or spans",
}


def page(home: Path) -> None:
    """Draw the page."""
    session_id = st.query_params.get("session")
    with foreseen("The session"):
        if not session_id:
            choose(home)
            return
        row = reading.session(home, session_id)
        if row is None:
            absent(session_id)
            return
        heading(row)
        verdict(row)
        with st.spinner(f"Reading {plural(row['events'], 'event')} …"):
            told = reading.story(home, session_id, row["first_time"], row["last_time"])
        missing(row, told["gaps"])
        if told["events"].height:
            body(home, row, told)
        else:
            unread(row)


def choose(home: Path) -> None:
    """No session was named: offer the latest."""
    st.title("Session", anchor=False)
    found, _ = reading.sessions(home)
    if not found.height:
        st.info("No session is recorded yet.", icon=":material/satellite_alt:")
        st.page_link("pages/overview.py", label="How to record one", icon=":material/monitoring:")
        return
    st.caption("Choose a session to see what happened in it.")
    opened = session_table(found.head(20), "choose")
    if opened:
        st.query_params["session"] = opened
        st.rerun()


def absent(session_id: str) -> None:
    """The address names a session that is not there."""
    st.title("Session", anchor=False)
    st.warning("There is no such session. It may not be loaded yet, or its data was pruned.", icon=":material/search:")
    st.code(session_id, language=None)
    st.page_link("pages/sessions.py", label="All sessions", icon=":material/list:")


def heading(row: dict[str, Any]) -> None:
    """Who it was, and the id to copy."""
    named = [name for name in (row["service_name"], row["agent_name"]) if name]
    st.title(escape(" · ".join(named) or "Session"), anchor=False)
    left, right = st.columns([3, 2], vertical_alignment="center")
    left.code(row["session_id"], language=None)
    facts = (row["models"] and f"models: {row['models']}", row["dialects"] and f"understood as {row['dialects']}")
    right.text("  ·  ".join(fact for fact in facts if fact))


def verdict(row: dict[str, Any]) -> None:
    """The answer first: how it went, how long, how much."""
    state = row["cost_state"]
    known = COST_STATES.get(state or "", "no model call")
    if row["costs_unknown"]:
        known = unpriced(row["costs_unknown"], row["unpriced_share"])
    calls, failed = row["model_calls"] + row["tool_calls"], row["model_calls_failed"] + row["tool_calls_failed"]
    cached, reasoning = short_count(row["cache_read_tokens"]), short_count(row["reasoning_tokens"])
    cards(
        (
            (
                "Status",
                status_word(row["status"]),
                "no end was recorded" if row["status"] == "unknown" else "how its last work ended",
            ),
            ("Duration", duration(row["duration_ms"]), f"from {utc(row['started'])[:19]} UTC"),
            ("Calls", count(calls), f"{row['model_calls']} model, {row['tool_calls']} tool; {failed} failed"),
            ("Tokens in", short_count(row["uncached_input_tokens"]), f"from cache: {cached}"),
            ("Tokens out", short_count(row["output_tokens"]), f"reasoning: {reasoning}"),
            ("Cost", cost(row["cost_usd"], state), known),
        )
    )


def missing(row: dict[str, Any], gaps: pl.DataFrame) -> None:
    """What is known not to be there."""
    if not gaps.height:
        return
    kinds = gaps.group_by("kind", maintain_order=True).len().rows()
    told = "; ".join(f"{number} × {GAP_KINDS.get(kind, 'something')}" for kind, number in kinds)
    st.warning(f"This record is incomplete: {escape(told, 1000)}.", icon=":material/extension_off:")
    with st.expander(f"{plural(gaps.height, 'gap')} in this session"):
        st.dataframe(gaps.drop("session_id"), hide_index=True, height=height(gaps.height, 300))


def unread(row: dict[str, Any]) -> None:
    """Records came, but nothing that is a fact in our vocabulary."""
    st.info(
        f"No events: {plural(row['spans'], 'span')}, {plural(row['logs'], 'log')} and "
        f"{plural(row['metric_points'], 'metric point')} of this session are kept as records, "
        "but no dialect reads them yet.",
        icon=":material/extension_off:",
    )


def body(home: Path, row: dict[str, Any], told: dict[str, pl.DataFrame]) -> None:
    """The picture, the table and the details of the chosen event."""
    found = steps(told["events"], told["model_calls"], told["tool_calls"])
    chosen = st.query_params.get("event")
    partial(min(found.height, MOST_BARS), found.height, "steps in the picture", "The table below has all of them.")
    with st.container(height=min(MOST_PICTURE_PIXELS, 28 * min(found.height, MOST_BARS) + 130), border=True):
        st.altair_chart(
            waterfall(found, chosen),
            key="picture",
            on_select=picked_bar,
            selection_mode=PICK,
            alt="Steps of the session over time; the table below lists the same steps.",
        )
    if not chosen:
        st.caption("Click a row or a bar to see every fact behind it.")
        table(told, found, None)
        return
    left, right = st.columns([3, 2], gap="medium")
    with left:
        table(told, found, chosen)
    with right, foreseen("The event"):
        shown = told["events"].filter(pl.col("event_id") == chosen)
        if shown.height:
            detail(home, row, shown.row(0, named=True))
        else:
            st.warning("The address names an event that this session does not have.", icon=":material/search:")


def picked_bar() -> None:
    """A bar was clicked: its event goes into the address."""
    points = st.session_state["picture"].selection.get(PICK) or []
    if points:
        st.query_params["event"] = points[0]["event_id"]
        # A new table takes its selection from the address.
        st.session_state["table_turn"] = st.session_state.get("table_turn", 0) + 1


def table(told: dict[str, pl.DataFrame], found: pl.DataFrame, chosen: str | None) -> None:
    """Steps, or all events as they came."""
    views = {"steps": f"Steps ({found.height:,})", "events": f"All events ({told['events'].height:,})"}
    view = st.segmented_control(
        "View",
        list(views),
        default="steps",
        required=True,
        format_func=lambda name: views[str(name)],
        key="view",
        bind="query-params",
        label_visibility="collapsed",
    )
    source, rows = (found, step_rows(found)) if view == "steps" else (told["events"], event_rows(told["events"]))
    start = 0
    if rows.height > PAGE_ROWS:
        number = st.pagination(-(-rows.height // PAGE_ROWS), key=f"page-{view}")
        start = (number - 1) * PAGE_ROWS
    ids = source["event_id"].slice(start, PAGE_ROWS).to_list()
    key = f"rows-{view}-{start}-{st.session_state.get('table_turn', 0)}"
    st.session_state["table_ids"] = ids
    st.dataframe(
        styled(rows.slice(start, PAGE_ROWS)),
        hide_index=True,
        height=height(len(ids)),
        key=key,
        on_select=picked_row,
        selection_mode=["single-row", "single-cell"],
        placeholder="–",
        # Beside the details there is room for the story only.
        column_order=("After", "Kind", "Type", "What", "Status", "Duration") if chosen else None,
        selection_default={"selection": {"rows": [ids.index(chosen)]}} if chosen in ids else None,
        column_config={
            "What": st.column_config.TextColumn(width="medium"),
            **{name: st.column_config.Column(width=width) for name, width in WIDTHS.items()},
        },
    )
    st.session_state["table_key"] = key


def picked_row() -> None:
    """A row was clicked: its event goes into the address."""
    at = chosen_row(st.session_state[st.session_state["table_key"]])
    if at is None:
        st.query_params.pop("event", None)
    else:
        st.query_params["event"] = st.session_state["table_ids"][at]


def _costs(found: pl.DataFrame) -> list[str]:
    """Only what can cost has a cost; then it may be unknown."""
    told = found.select("cost_usd", "cost_state").iter_rows()
    return ["" if state is None else cost(usd, state) for usd, state in told]


def _since_start(moments: pl.Series) -> list[str]:
    begin = moments.min()
    return [f"+{duration((moment - begin) / timedelta(milliseconds=1))}" for moment in moments]


def step_rows(found: pl.DataFrame) -> pl.DataFrame:
    """Steps as people read them."""
    return found.select(
        pl.Series("After", _since_start(found["started"])),
        pl.col("family").alias("Kind"),
        (pl.lit("· ").repeat_by(pl.col("depth").clip(0, 8)).list.join("") + pl.col("label")).alias("What"),
        pl.col("status").alias("Status"),
        pl.col("duration_ms").alias("Duration"),
        pl.col("uncached_input_tokens").alias("Input"),
        pl.col("cache_read_tokens").alias("Cached"),
        pl.col("output_tokens").alias("Output"),
        pl.Series("Cost (USD)", _costs(found)),
    )


def event_rows(events: pl.DataFrame) -> pl.DataFrame:
    """Events as people read them."""
    return events.select(
        pl.Series("After", _since_start(events["timestamp"])),
        pl.col("type").alias("Type"),
        pl.col("label").alias("What"),
        pl.col("status").alias("Status"),
        pl.col("duration_ms").alias("Duration"),
        pl.col("sequence").alias("Sequence"),
    )


if __name__ == "__main__":
    page(reading.home())
