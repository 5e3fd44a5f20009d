"""A row of figures, each with a line below that says what it rests on."""

from collections.abc import Sequence

import streamlit as st

from dashboard.labels import escape

Figure = tuple[str, str, str]
"""What it is, its value, and a note."""


def cards(figures: Sequence[Figure]) -> None:
    """Draw the figures side by side; all text is escaped here, so that none can be forgotten."""
    for column, (label, value, note) in zip(st.columns(len(figures)), figures, strict=True):
        with column.container(border=True, height="stretch", gap=None):
            st.metric(escape(label), escape(value))
            st.caption(escape(note))
