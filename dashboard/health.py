"""Ingest health: is it receiving, is the index up to date, was anything refused or damaged."""

from datetime import UTC, datetime
from pathlib import Path

import streamlit as st
from pydantic import BaseModel, ConfigDict

from collector.home import Home
from collector.status import status
from dashboard.cards import cards
from dashboard.labels import escape
from dashboard.reading import FRESH_SECONDS, settings
from dashboard.wording import ago, count, plural, size

LIVE_SECONDS = 3.0


class Refusal(BaseModel):
    """Requests that were turned away, and why."""

    model_config = ConfigDict(frozen=True)

    signal: str
    reason: str
    requests: int


class Health(BaseModel):
    """The state of a home folder, as far as it can be told."""

    model_config = ConfigDict(frozen=True)

    receiver: str | None
    """Address of OTLP/HTTP; None while no receiver runs."""

    index_running: bool
    journaled: int
    """Journal records so far."""

    journal_bytes: int
    loaded: int | None
    """Of these, in the index; None while the index cannot be read."""

    events: int
    undecoded: int
    last_received: datetime | None
    received_items: int
    rejected_items: int
    refusals: tuple[Refusal, ...]
    damage: tuple[str, ...]
    quarantines: tuple[str, ...]
    trouble: str | None
    """Why the index cannot be read or, while it runs, why loading stands still."""

    @property
    def unreadable(self) -> bool:
        """Whether nothing can be shown."""
        return self.trouble is not None and not self.index_running

    @property
    def empty(self) -> bool:
        """Whether nothing was ever recorded."""
        return self.journaled == 0 and not self.loaded and self.trouble is None

    @property
    def waiting(self) -> int | None:
        """Journal records that are not in the index yet."""
        return None if self.loaded is None else max(0, self.journaled - self.loaded)

    @property
    def refused(self) -> int:
        """Requests turned away."""
        return sum(refusal.requests for refusal in self.refusals)

    def verdict(self) -> tuple[str, str]:
        """One word and a colour."""
        if self.unreadable:
            return "index not readable", "red"
        if self.damage:
            return "journal damaged", "red"
        if self.receiver is None:
            return "not receiving", "gray"
        if self.trouble or (self.waiting and not self.index_running):
            return "not loading", "orange"
        return ("catching up", "orange") if (self.waiting or 0) > 100 else ("recording", "green")


@st.cache_data(ttl=FRESH_SECONDS, max_entries=4, show_spinner=False)
def health(home: Path) -> Health:
    """Look at the journal, the counters, the running processes and the index."""
    told = status(Home(home))
    signals, index = told["signals"], told["index"]
    receivers = [process.get("http") for process in told["processes"] if process["role"] == "receiver"]
    last = [signal["journaled"]["last"] for signal in signals.values() if signal["journaled"]["last"]]
    return Health(
        receiver=receivers[0] if receivers else None,
        index_running=index["running"],
        journaled=told["journal"]["position"],
        journal_bytes=told["journal"]["bytes"],
        loaded=index["loaded"],
        events=index.get("events") or 0,
        undecoded=index.get("undecoded") or 0,
        last_received=datetime.fromisoformat(max(last)) if last else None,
        received_items=sum(signal["received"]["items"] for signal in signals.values()),
        rejected_items=sum(signal["rejected"]["items"] for signal in signals.values()),
        refusals=tuple(
            Refusal(signal=name, reason=reason, requests=requests)
            for name, signal in signals.items()
            for reason, requests in signal["refused"]["by_reason"].items()
        ),
        damage=tuple(told["journal"]["damage"]),
        quarantines=tuple(f"{note['time']}  {note['file']}  {note['reason']}" for note in index["quarantines"]),
        trouble=index["trouble"],
    )


def endpoint(found: Health) -> str:
    """Where senders should send: the running receiver's address, else the one it will have."""
    return f"http://{found.receiver or settings().otlp_http}"


@st.fragment(run_every=LIVE_SECONDS)
def health_line(home: Path) -> None:
    """One line for the sidebar of every page."""
    found = health(home)
    word, colour = found.verdict()
    st.badge(escape(word), color=colour)  # type: ignore[arg-type]  # verdict names only colours of badges
    st.caption(f"last data {ago(found.last_received, datetime.now(UTC))}" if found.last_received else "no data yet")


@st.fragment(run_every=LIVE_SECONDS)
def health_strip(home: Path) -> None:
    """Six figures, kept live; the whole page is drawn again when something new is loaded."""
    found = health(home)
    known = (found.empty, found.loaded)
    if known != st.session_state.setdefault("known", known):
        st.session_state["known"] = known
        st.rerun()
    now = datetime.now(UTC)
    figures = (
        ("Receiver", "running" if found.receiver else "stopped", found.receiver or "start it: tachograph up"),
        ("Index", *_index(found)),
        ("Behind", count(found.waiting), _behind(found)),
        ("Last data", ago(found.last_received, now), f"{count(found.received_items)} items received"),
        ("Refused", count(found.refused + found.rejected_items), _refused(found)),
        ("Journal", size(found.journal_bytes), "damaged" if found.damage else "no damage found"),
    )
    cards(figures)


def _index(found: Health) -> tuple[str, str]:
    if found.unreadable:
        return "no answer", "see below"
    if found.trouble:
        return "stuck", "see below"
    if not found.loaded:
        return "empty", "nothing is loaded yet"
    events = f"{count(found.events)} events"
    return ("running", events) if found.index_running else ("at rest", f"{events}, read from the file")


def _refused(found: Health) -> str:
    if not found.refused + found.rejected_items:
        return "nothing was turned away"
    return f"{plural(found.refused, 'request')}, {plural(found.rejected_items, 'item')}; the senders were told"


def _behind(found: Health) -> str:
    if not found.waiting:
        return "all that came in is loaded"
    return "loading" if found.index_running else "wait in the journal, safe"
