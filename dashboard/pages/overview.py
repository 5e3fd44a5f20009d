"""Overview: is anything recorded, does recording work, and what needs a look."""

from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import streamlit as st

from dashboard import reading
from dashboard.cards import cards
from dashboard.guide import guide
from dashboard.health import Health, endpoint, health, health_strip
from dashboard.labels import escape
from dashboard.notices import foreseen
from dashboard.picture import activity_chart
from dashboard.tables import height, open_session, session_table, styled
from dashboard.wording import count, money, plural, short_count, unpriced
from store import Layout

# How wide the bars of the activity are, by the time that they have to cover.
STRETCHES = (
    (timedelta(minutes=10), 15),
    (timedelta(hours=2), 120),
    (timedelta(days=2), 3600),
    (timedelta(days=60), 86_400),
)

MOST_TIME = timedelta(days=60)
LATEST = ("Status", "Agent", "Duration", "Started (UTC)", "Cost", "Models", "Tools", "Gaps", "Session")


def page(home: Path) -> None:
    """Draw the page."""
    st.title("Overview", anchor=False)
    st.caption("Whether recording works, and what is on the record.")
    with foreseen("Ingest health"):
        found = health(home)
        health_strip(home)
        put_aside(found, home)
        if found.unreadable:
            with foreseen("The index"):
                recorded(home, found)
            return
        if found.empty:
            st.header("Nothing is recorded yet", anchor=False)
            guide(endpoint(found), receiving=found.receiver is not None)
            return
        troubles(found, home)
        with foreseen("The sessions"), st.spinner("Reading sessions …"):
            recorded(home, found)


def recorded(home: Path, found: Health) -> None:
    """The figures, the activity and the newest sessions."""
    sums = reading.totals(home)
    if not sums["sessions"]:
        st.info(
            f"{plural(found.journaled, 'request')} arrived, but no session is known yet: nothing of it is loaded, "
            "or it holds only data that belongs to no session.",
            icon=":material/hourglass_top:",
        )
    else:
        figures(sums)
        activity(home, sums)
        st.header("Latest sessions", anchor=False)
        latest, _ = reading.sessions(home)
        opened = session_table(latest.head(10), "latest", LATEST)
        if opened:
            open_session(opened)
        st.page_link("pages/sessions.py", label="All sessions", icon=":material/list:")
    senders(home)
    with st.expander("Connect another agent", icon=":material/power:"):
        guide(endpoint(found), receiving=found.receiver is not None)


def figures(sums: dict[str, Any]) -> None:
    """Sums over everything recorded."""
    cached = sums["cache_read_tokens"]
    shown = (
        ("Sessions", count(sums["sessions"]), f"{count(sums['failed'])} failed"),
        ("Model calls", count(sums["model_calls"]), f"{count(sums['model_calls_failed'])} failed"),
        ("Tool calls", count(sums["tool_calls"]), f"{count(sums['tool_calls_failed'])} failed"),
        ("Tokens in", short_count(sums["uncached_input_tokens"]), f"{short_count(cached)} more from cache"),
        ("Tokens out", short_count(sums["output_tokens"]), "reasoning included"),
        ("Cost", money(sums["cost_usd"]), unpriced(sums["costs_unknown"], sums["unpriced_share"])),
    )
    cards(shown)


def activity(home: Path, sums: dict[str, Any]) -> None:
    """Sessions over time, in stretches that fit the time recorded."""
    first, last = sums["first_started"], sums["last_started"]
    if first is None:
        return
    span = min(last - first, MOST_TIME)
    width = next((width for most, width in STRETCHES if span <= most), STRETCHES[-1][1])
    st.header("Activity", anchor=False)
    since = (last - span - timedelta(seconds=width)).replace(tzinfo=UTC)
    st.altair_chart(activity_chart(reading.activity(home, since, width), width))
    stretch = {15: "15 seconds", 120: "two minutes", 3600: "hour", 86_400: "day"}[width]
    st.caption(f"Sessions begun per {escape(stretch)} (UTC), by outcome. Unknown: no end was recorded.")


def troubles(found: Health, home: Path) -> None:
    """What needs a look; nothing is drawn when nothing does."""
    if found.receiver is None:
        st.info(
            "Not receiving: start it with `tachograph up`. What is recorded can still be read.",
            icon=":material/power:",
        )
    if found.waiting and not found.index_running:
        st.warning(
            f"{plural(found.waiting, 'request')} wait in the journal for the index. They are safe; `tachograph up` "
            "loads them.",
            icon=":material/hourglass_top:",
        )
    if found.index_running and found.trouble:
        st.warning("Loading stands still; what was received is safe in the journal.", icon=":material/hourglass_top:")
        st.code(found.trouble, language=None, wrap_lines=True)
    if found.damage:
        st.error(
            f"The journal has {plural(len(found.damage), 'damaged place')}. Everything else is readable.",
            icon=":material/healing:",
        )
        st.code("\n".join(found.damage), language=None, wrap_lines=True)
    if found.refusals:
        with st.expander(f"{plural(found.refused, 'request')} refused", icon=":material/block:"):
            rows = [refusal.model_dump() for refusal in found.refusals]
            st.dataframe(pl.DataFrame(rows), hide_index=True)
            st.caption("A refused request was answered with an error, so its sender knows; nothing of it was kept.")
    if found.undecoded:
        title = f"{plural(found.undecoded, 'request')} could not be decoded whole"
        with st.expander(escape(title), icon=":material/extension_off:"):
            st.dataframe(reading.undecoded(home), hide_index=True)
            st.caption("They stay in the journal; a later version that understands them will load them on a rebuild.")


def put_aside(found: Health, home: Path) -> None:
    """Damaged index files: what happened, that nothing is lost, and what to do; said until the files are removed."""
    if not found.quarantines:
        return
    st.warning(
        f"{plural(len(found.quarantines), 'index file')} had damage and was put aside. The index is made again from "
        "the journal, so nothing that was recorded is lost. Damage like this mostly comes from the disk: check it, and "
        "then remove the folder below; this notice goes away with it.",
        icon=":material/inventory_2:",
    )
    st.code("\n".join([str(Layout(home).quarantine), *found.quarantines]), language=None, wrap_lines=True)


def senders(home: Path) -> None:
    """Who sent what."""
    st.header("Senders", anchor=False)
    found = reading.senders(home)
    rows = found.select(
        pl.col("service_name").fill_null("(not told)").alias("Service"),
        pl.col("records").alias("Records"),
        pl.col("unclaimed").alias("Not interpreted"),
        pl.col("dialects").fill_null("").alias("Understood as"),
        pl.col("last_received").alias("Last received (UTC)"),
    )
    st.dataframe(styled(rows), hide_index=True, height=height(rows.height, 320))
    st.caption("Records that are not interpreted are kept whole and can be queried as `records`.")


if __name__ == "__main__":
    page(reading.home())
