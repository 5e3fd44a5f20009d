"""What a home has received, refused and stored: the facts behind `status`."""

from datetime import UTC, datetime
from typing import Any

from collector import counters
from collector.home import Home
from journal import Journal

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
        "signals": signals,
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
