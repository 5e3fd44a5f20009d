"""The frame of every page: who may look, the menu, and one line on how recording goes."""

from pathlib import Path

import streamlit as st

from collector.home import Home
from dashboard.admission import admitted
from dashboard.health import health_line
from dashboard.reading import home

st.set_page_config(page_title="Tachograph", page_icon="🧭", layout="wide", initial_sidebar_state="expanded")

st.logo(str(Path(__file__).with_name("logo.svg")), size="large")

PAGES = {
    "Watch": [st.Page("pages/overview.py", title="Overview", icon=":material/monitoring:", default=True)],
    "Inspect": [
        st.Page("pages/sessions.py", title="Sessions", icon=":material/list:", url_path="sessions"),
        st.Page("pages/session.py", title="Session", icon=":material/view_timeline:", url_path="session"),
    ],
}

if admitted(Home(home()), st.get_option("server.address")):
    page = st.navigation(PAGES)
    with st.sidebar:
        health_line(home())
    page.run()
else:
    st.navigation([st.Page(lambda: None, title="Tachograph")], position="hidden")
