"""What to do when nothing is recorded yet: the exact lines for each kind of sender."""

import streamlit as st

from dashboard.labels import escape

CLAUDE_CODE = """export CLAUDE_CODE_ENABLE_TELEMETRY=1
export CLAUDE_CODE_ENHANCED_TELEMETRY_BETA=1
export OTEL_LOGS_EXPORTER=otlp
export OTEL_METRICS_EXPORTER=otlp
export OTEL_TRACES_EXPORTER=otlp
export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_EXPORTER_OTLP_ENDPOINT={endpoint}
claude"""

ANY_SDK = """export OTEL_SERVICE_NAME=my-agent
export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf
export OTEL_EXPORTER_OTLP_ENDPOINT={endpoint}
export OTEL_TRACES_EXPORTER=otlp
export OTEL_LOGS_EXPORTER=otlp
export OTEL_METRICS_EXPORTER=otlp
opentelemetry-instrument python my_agent.py"""

DEMO = "tachograph demo"


def guide(endpoint: str, receiving: bool) -> None:
    """Three ways to get something on the record."""
    if not receiving:
        st.warning(
            "Nothing is listening yet. Start the recorder first, in a terminal of its own: `tachograph up`",
            icon=":material/power:",
        )
    _card("Just look around", "Loads a sample session and recordings of real agents into this home folder.", DEMO)
    left, right = st.columns(2)
    with left:
        _card(
            "Record Claude Code",
            "In the terminal where you start it. The second line turns on its traces.",
            CLAUDE_CODE.format(endpoint=endpoint),
        )
    with right:
        _card(
            "Record any OpenTelemetry agent",
            "These variables are read by every OpenTelemetry SDK, in any language; the last line is for Python.",
            ANY_SDK.format(endpoint=endpoint),
        )
    st.caption("This page notices by itself when the first record arrives.")


def _card(title: str, note: str, lines: str) -> None:
    with st.container(border=True, height="stretch"):
        st.subheader(escape(title), anchor=False)
        st.caption(escape(note))
        st.code(lines, language="bash", wrap_lines=True)
