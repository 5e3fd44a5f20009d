"""The states that every page has besides its data: loading is said by spinners, empty, partial and error are here."""

import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import streamlit as st

from dashboard.labels import escape
from dashboard.wording import count
from models.errors import NoIndex, TachographError

log = logging.getLogger("tachograph.dashboard")


@contextmanager
def foreseen(what: str) -> Iterator[None]:
    """Run a part of a page; an expected failure becomes a notice in its place and the rest of the page goes on."""
    try:
        yield
    except NoIndex:
        st.info("Nothing is recorded yet. The Overview says how to send something.", icon=":material/satellite_alt:")
    except TachographError as error:
        failed(what, error)


def failed(what: str, error: TachographError) -> None:
    """What failed, what still works, what to do, and a number that the log has too."""
    report = secrets.token_hex(4)
    log.warning("report %s: %s failed: %s", report, what, error.message)
    with st.container(border=True):
        st.error(
            f"{escape(what)} could not be read. Recording is not affected; other pages may still work.",
            icon=":material/error:",
        )
        st.code(error.message, language=None, wrap_lines=True)
        if error.next_step:
            st.text(f"Next: {error.next_step}")
        left, right = st.columns([1, 4], vertical_alignment="center")
        left.button("Try again", key=f"again-{what}")
        right.caption(f"Report {report} (the same number is in the log)")


def unforeseen(error: Exception) -> bool:
    """A bug: say so without its text, which may hold anything, and keep the traceback in the log."""
    report = secrets.token_hex(4)
    log.error("report %s: the page failed", report, exc_info=error)
    st.error("This page failed; that is a fault of the dashboard. Recording is not affected.", icon=":material/error:")
    st.code(f"report {report}: {type(error).__name__}", language=None)
    return True


def partial(shown: int, there: int, noun: str, hint: str) -> None:
    """Say that not everything is shown."""
    if shown < there:
        st.info(
            f"Showing {count(shown)} of {count(there)} {escape(noun)}. {escape(hint)}", icon=":material/content_cut:"
        )
