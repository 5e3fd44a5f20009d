"""Tables: numbers stay numbers, so a click on a heading sorts them, and are shown in the words people read."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl
import streamlit as st

from dashboard.picture import FAILED, KIND_COLOURS
from dashboard.wording import count, duration, money, status_sign

ROW_PIXELS = 35
MOST_PIXELS = 560

Formats = Mapping[str, Callable[[Any], str]]

FORMATS: Formats = {
    "Duration": duration,
    "Cost": money,
    "Status": status_sign,
    **dict.fromkeys(("Events", "Turns", "Models", "Tools", "Gaps", "Records", "Not interpreted"), count),
    **dict.fromkeys(("Input", "Cached", "Cache written", "Output"), count),
}


def height(rows: int, most: int = MOST_PIXELS) -> int:
    """The pixels a table needs for its rows and its heading, up to a limit."""
    return min(most, ROW_PIXELS * (rows + 1) + 3)


def styled(frame: pl.DataFrame) -> Any:
    """The frame with its figures in words; unknown figures say so, and kinds and failures are coloured."""
    shown = frame.to_pandas(use_pyarrow_extension_array=False)
    formats = {name: _worded(form) for name, form in FORMATS.items() if name in frame.columns}
    style = shown.style.format(formats)
    if "Status" in frame.columns:
        style = style.map(_status_style, subset=["Status"])
    if "Kind" in frame.columns:
        style = style.map(_kind_style, subset=["Kind"])
    return style


def _worded(form: Callable[[Any], str]) -> Callable[[Any], str]:
    def worded(value: Any) -> str:
        missing = value is None or value != value
        return form(None if missing else value)

    return worded


def _status_style(status: str | None) -> str:
    return f"color: {FAILED}; font-weight: 600" if status == "failed" else ""


def _kind_style(kind: str) -> str:
    return f"color: {KIND_COLOURS.get(kind, KIND_COLOURS['other'])}; font-weight: 600"


def chosen_row(event: Any) -> int | None:
    """The row a table event selects, by row or by cell."""
    rows: Sequence[int] = event.selection.rows
    cells = event.selection.cells
    return rows[0] if rows else cells[0][0] if cells else None


def session_rows(sessions: pl.DataFrame) -> pl.DataFrame:
    """The columns of a session list, as people read them."""
    return sessions.select(
        pl.col("status").alias("Status"),
        pl.concat_str("service_name", "agent_name", separator=" · ", ignore_nulls=True).alias("Agent"),
        pl.col("duration_ms").alias("Duration"),
        pl.col("started").alias("Started (UTC)"),
        pl.col("cost_usd").alias("Cost"),
        pl.col("model_calls").alias("Models"),
        pl.col("tool_calls").alias("Tools"),
        pl.col("uncached_input_tokens").alias("Input"),
        pl.col("cache_read_tokens").alias("Cached"),
        pl.col("output_tokens").alias("Output"),
        pl.col("gaps").alias("Gaps"),
        pl.col("models").alias("Model names"),
        pl.col("session_id").alias("Session"),
    )


def session_table(sessions: pl.DataFrame, key: str, columns: Sequence[str] | None = None) -> str | None:
    """Show sessions; the id of the one that is clicked."""
    rows = session_rows(sessions)
    rows = rows.select(columns) if columns else rows
    event = st.dataframe(
        styled(rows),
        hide_index=True,
        height=height(rows.height),
        on_select="rerun",
        selection_mode=["single-row", "single-cell"],
        key=key,
        placeholder="unknown",
        column_config={
            "Started (UTC)": st.column_config.DatetimeColumn(format="YYYY-MM-DD HH:mm:ss"),
            "Agent": st.column_config.TextColumn(width="medium"),
            "Models": st.column_config.NumberColumn(help="Model calls, each counted once."),
            "Tools": st.column_config.NumberColumn(help="Tool calls, each counted once."),
            "Output": st.column_config.NumberColumn(help="Output tokens, reasoning included."),
            "Cost": st.column_config.NumberColumn(help="US dollars, as reported or from the price table."),
            "Cached": st.column_config.NumberColumn(help="Input tokens read from the provider's cache."),
            "Input": st.column_config.NumberColumn(help="Input tokens that were not cached."),
        },
    )
    at = chosen_row(event)
    return None if at is None or at >= sessions.height else str(sessions["session_id"][at])


def open_session(session_id: str, event_id: str | None = None) -> None:
    """Go to the page of a session."""
    link = {"session": session_id} | ({"event": event_id} if event_id else {})
    st.switch_page("pages/session.py", query_params=link)
