"""What a home has received, refused, stored and loaded: the facts behind `status`."""

from datetime import UTC, datetime
from typing import Any

import httpx

import store
from collector import counters
from collector.home import Home
from journal import Journal
from models.errors import Locked, NoIndex, QueryFailed, SchemaTooNew, Unreachable
from store import Layout, quarantine
from store.reader import answers

SIGNALS = ("logs", "traces", "metrics", "events")


def status(home: Home) -> dict[str, Any]:
    """One object for scripts; times are RFC 3339 in UTC, sizes in bytes."""
    processes = home.processes()
    signals = {name: _empty() for name in SIGNALS}
    for count in counters.read(home.path):
        _count(signals.setdefault(count.signal, _empty()), count)
    if home.journal.is_dir():
        with Journal(home.journal, compress=False) as journal:
            for total in journal.totals():
                signals.setdefault(total.kind.removeprefix("otlp."), _empty())["journaled"] = {
                    "records": total.records,
                    "items": total.items,
                    "bytes": total.size_bytes,
                    "last": _time(total.last_ns),
                }
            position, damage = journal.last_position(), [str(finding) for finding in journal.lost.values()]
    else:
        position, damage = 0, []
    return {
        "schema": "tachograph.status",
        "version": 1,
        "home": str(home.path),
        "running": any(process["role"] == "receiver" for process in processes),
        "processes": processes,
        "journal": {"position": position, "bytes": _size(home), "damage": damage},
        "index": _index(home, position),
        "signals": signals,
    }


def _index(home: Home, position: int) -> dict[str, Any]:
    """What of the journal is in the tables: told by the running index, else read from the file."""
    socket = Layout(home.path).socket
    if answers(socket):  # asked first: httpx forgets to close a socket that is not there
        try:
            with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), timeout=3.0) as client:
                return {"running": True, **client.get("http://index/v1/index").raise_for_status().json()}
        except httpx.HTTPError:
            pass  # too busy to say; the file may tell
    try:
        with store.open(home.path, wait_seconds=0.0) as reader:
            found = reader.status()
    except (NoIndex, Locked, QueryFailed, SchemaTooNew, Unreachable) as problem:
        trouble = None if isinstance(problem, NoIndex) else problem.message
        notes = [note.model_dump(mode="json") for note in quarantine.notes(Layout(home.path))]
        unknown = {"loaded": 0, "lag": {"records": position, "seconds": None}} if trouble is None else {"loaded": None}
        return {"running": False, **unknown, "trouble": trouble, "quarantines": notes}
    return {
        "running": False,
        "loaded": found.position,
        "lag": {"records": max(0, position - found.position), "seconds": None},
        **found.model_dump(mode="json", include={"records", "events", "duplicates", "undecoded", "quarantines"}),
        "trouble": None,
    }


def _empty() -> dict[str, Any]:
    return {
        "received": {"requests": 0, "items": 0, "bytes": 0, "last": None},
        "rejected": {"items": 0},
        "refused": {"requests": 0, "by_reason": {}, "last": None},
        "journaled": {"records": 0, "items": 0, "bytes": 0, "last": None},
    }


def _count(signal: dict[str, Any], count: counters.Count) -> None:
    outcome, _, reason = count.outcome.partition(":")
    if outcome == "received":
        signal["received"] = {
            "requests": count.requests,
            "items": count.items,
            "bytes": count.size_bytes,
            "last": _time(count.last_ns),
        }
    elif outcome == "rejected":
        signal["rejected"] = {"items": count.items}
    else:
        refused = signal["refused"]
        refused["requests"] += count.requests
        refused["by_reason"][reason] = count.requests
        refused["last"] = max(refused["last"] or "", _time(count.last_ns))


def _time(ns: int) -> str:
    return datetime.fromtimestamp(ns / 1e9, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _size(home: Home) -> int:
    return sum(path.stat().st_size for path in home.journal.glob("*") if path.is_file()) if home.journal.is_dir() else 0
