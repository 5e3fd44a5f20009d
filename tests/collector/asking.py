"""What the tests of query, index and supervisor share: sending events, asking, waiting until they are loaded."""

import json
import time
from typing import Any

import httpx

from tests.collector.test_receiving import JSON


def event(number: int, session: str = "s1", kind: str = "tool.started") -> dict[str, Any]:
    """An event of our own vocabulary."""
    return {
        "type": kind,
        "event_id": f"{session}-{number:06}",
        "timestamp": f"2026-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z",
        "session_id": session,
        "sequence": number,
        "payload": {"tool_name": "read_file"},
    }


def send(client: httpx.Client, *events: dict[str, Any]) -> None:
    """Send events in one request; they are acknowledged."""
    body = "\n".join(json.dumps(one) for one in events)
    answer = client.post("/v1/events", content=body, headers=JSON)
    assert (answer.status_code, answer.json()["rejected"]) == (200, 0), answer.text


def ask(client: httpx.Client, sql: str, **more: Any) -> httpx.Response:
    """Ask; the answer whatever it is."""
    return client.post("/v1/query", json={"sql": sql, **more})


def rows(client: httpx.Client, sql: str, **more: Any) -> list[list[Any]]:
    """The rows of a query that works."""
    answer = ask(client, sql, **more)
    assert answer.status_code == 200, answer.text
    found: list[list[Any]] = answer.json()["rows"]
    return found


def answered(client: httpx.Client, seconds: float = 10.0) -> float:
    """Wait until the index answers; how long that took."""
    started = time.monotonic()
    while time.monotonic() - started < seconds:
        if ask(client, "select 1").status_code == 200:
            return time.monotonic() - started
        time.sleep(0.05)
    raise AssertionError(f"the index did not answer within {seconds} s")


def loaded(client: httpx.Client, seconds: float = 15.0) -> dict[str, Any]:
    """Wait until everything journaled is in the tables; what the index says then."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        answer = client.get("/v1/index")
        if answer.status_code == 200 and answer.json()["lag"]["records"] == 0:
            found: dict[str, Any] = answer.json()
            return found
        time.sleep(0.05)
    raise AssertionError(f"not loaded within {seconds} s: {answer.text}")
