"""The dashboard as an ASGI app: `streamlit run dashboard/app.py` finds `app` and serves it."""

from pathlib import Path

import streamlit as st
from starlette.middleware import Middleware

from dashboard.notices import unforeseen
from dashboard.protection import Protection

app = st.App(Path(__file__).with_name("navigation.py"), middleware=[Middleware(Protection)], on_script_error=unforeseen)
