"""Home folders to look at: real captures in journal and index, hand-made sessions, and hostile text."""

from pathlib import Path

from collector.loader import Loader
from journal import Entry, Journal
from store import Layout, Store
from tests.captures import captures
from tests.store.frames import event, events, record, records

HOSTILE = (
    "<script>window.pwned=1</script><img src=x onerror='window.pwned=1'> ![b](http://beacon.invalid/a.png) "
    "[l](javascript:window.pwned=1) http://beacon.invalid/bare www.beacon.invalid $x^2$ :material/home: :red[r] **b**"
)
"""A name that would run a script, or tell another host, wherever text is rendered instead of shown."""

RUNS = ("strands/", "langgraph/", "claude_code/cc_basic", "gemini_cli/")


def recorded(home: Path) -> Path:
    """A home with what real agents sent, in the journal and loaded."""
    with Journal(Layout(home).journal, compress=False) as journal:
        for capture in captures():
            if capture.run.startswith(RUNS):
                journal.append(Entry(f"otlp.{capture.signal}", capture.body, {"content": capture.encoding}))
        with Store.open(home) as store:
            loader = Loader(journal, store)
            loader.catch_up()
            loader.close()
    return home


def hostile(home: Path) -> Path:
    """A home in which every name, id and text that a sender chooses is hostile."""
    span = {"trace_id": "1" * 32, "span_id": "2" * 16}
    named = {"session_id": HOSTILE, "agent_name": HOSTILE, "model": HOSTILE, "tool_name": HOSTILE, "error": HOSTILE}
    payload = '{"text": "![b](http://beacon.invalid/json.png) <img src=x onerror=window.pwned=1>"}'
    told = events(
        event("e1", "model.failed", 2, **span, **named, duration_ms=500.0, status="failed", payload=payload),
        event(HOSTILE, "tool.result", 3, **named, span_id="3" * 16, duration_ms=20.0, status=HOSTILE),
        event("e3", "run.status", 4, **named, span_id="4" * 16, duration_ms=3000.0, status=HOSTILE),
        # A number of the session's own count is missing, so there is a gap to show.
        event("e4", "turn.started", 1, **named, turn_id=HOSTILE, sequence=1),
        event("e5", "turn.completed", 5, **named, turn_id=HOSTILE, sequence=9, status=HOSTILE),
    )
    kept = records(
        *(
            record(f"record of {name}", at, session_key=HOSTILE, service_name=HOSTILE, name=HOSTILE, attributes=payload)
            for at, name in enumerate(("e4", "e1", HOSTILE, "e3", "e5"), start=1)
        )
    )
    with Store.open(home) as store:
        store.append(kept, told, position=1)
        store.refresh()
    return home
