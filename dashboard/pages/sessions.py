"""Sessions: find the one."""

from pathlib import Path

import streamlit as st

from dashboard import reading
from dashboard.health import health
from dashboard.labels import escape
from dashboard.notices import foreseen, partial
from dashboard.tables import open_session, session_table
from dashboard.wording import plural


def page(home: Path) -> None:
    """Draw the page."""
    st.title("Sessions", anchor=False)
    text, chips, order = filters()
    with foreseen("The sessions"):
        with st.spinner("Reading sessions …"):
            found, there = reading.sessions(home, text, chips, order)
        behind(home)
        if not found.height:
            nothing(home, filtered=bool(text or chips))
            return
        partial(found.height, there, "sessions", "Narrow the filter to see the others.")
        st.caption(f"{plural(there, 'session')}, {escape(order)}. Click a row to open it.")
        opened = session_table(found, "sessions")
        if opened:
            open_session(opened)


def filters() -> tuple[str, tuple[str, ...], str]:
    """The filter row; it is kept in the address, so a link shows the same list."""
    left, middle, right = st.columns([3, 4, 2], vertical_alignment="bottom")
    text = left.text_input(
        "Search",
        placeholder="agent, service, model or session id",
        key="q",
        bind="query-params",
        icon=":material/search:",
        max_chars=200,
    )
    chips = middle.pills(
        "Show only", list(reading.STATUS_FILTERS), selection_mode="multi", key="status", bind="query-params"
    )
    order = right.selectbox("Order", list(reading.ORDERS), key="order", bind="query-params")
    return (text or "").strip(), tuple(chips or ()), str(order)


def behind(home: Path) -> None:
    """Say so when the list lacks what came in last."""
    waiting = health(home).waiting
    if waiting:
        st.info(
            f"The index is {plural(waiting, 'request')} behind; the newest sessions may be missing.",
            icon=":material/hourglass_top:",
        )


def nothing(home: Path, *, filtered: bool) -> None:
    """Why the list is empty, and the way out."""
    if filtered:
        st.info("No session matches.", icon=":material/search:")
        st.button("Remove the filters", on_click=clear)
    else:
        st.info("No session is recorded yet.", icon=":material/satellite_alt:")
        st.page_link("pages/overview.py", label="How to record one", icon=":material/monitoring:")


def clear() -> None:
    """Take all filters away."""
    st.session_state["q"] = ""
    st.session_state["status"] = []


if __name__ == "__main__":
    page(reading.home())
