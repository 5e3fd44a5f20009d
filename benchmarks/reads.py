"""How long questions take at ten million events, through the query endpoint, beside the bare query and an empty one.

A question goes over HTTP to the receiver, over a Unix socket to the index, is checked, run under limits and comes back
as Arrow or JSON. The bare query asks the table underneath, with the time range a user cannot know written into it, of
the same file over a plain DuckDB connection in a process without anything else. The empty round trip is `select 1`.
Everything is warm; sessions are asked in turn, so that no answer is the one just given.
"""

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import httpx

from benchmarks import prefill
from store import Layout
from store.database import quoted
from tests.running import Collector
from views.relations import relations

ROUNDS, REPEATS, WARM = 3, 40, 10
FORMATS = ("arrow", "json")
ASKED_SESSIONS = 8


@dataclass(frozen=True, slots=True)
class Question:
    """What a user asks, and the bare query that gives the same facts; both with places for a session's id and times."""

    name: str
    asked: str
    bare: str
    times: float
    """The answer may take so many times the bare query, and one empty round trip."""


SESSION_COLUMNS = (
    "session_id, started, ended, status, agent_name, models, events, model_calls, tool_calls, tool_calls_failed, "
    "output_tokens, cost_usd, gaps"
)
EVENT_COLUMNS = "type, status, timestamp, duration_ms, agent_name, model, tool_name, output_tokens, cost_usd, error"
BY_DAY = "select day, model, sum(calls) as calls, sum(cost_usd) as usd from {} group by day, model order by day, model"
WITHIN = "session_id = {session} and timestamp between {first} and {last}"


def _timeline_within() -> str:
    """The timeline of one session computed from a stretch of `events`, without finding out whose events they are."""
    return relations()["timeline"].over({"session_events": f"(select * from events where {WITHIN})"})


QUESTIONS = (
    Question(
        "newest 50 sessions",
        f"select {SESSION_COLUMNS} from sessions order by started desc limit 50",
        f"select {SESSION_COLUMNS} from session_rollup order by started desc limit 50",
        3,
    ),
    Question(
        "one session's timeline",
        f"select place, label, {EVENT_COLUMNS} from timeline where session_id = {{session}} order by place",
        f"select place, label, {EVENT_COLUMNS} from ({_timeline_within()}) order by place",
        3,
    ),
    Question(
        "one session's events",
        f"select {EVENT_COLUMNS} from session_events where session_id = {{session}} order by timestamp, event_id",
        f"select {EVENT_COLUMNS} from events where {WITHIN} order by timestamp, event_id",
        3,
    ),
    Question("cost by model by day", BY_DAY.format("costs"), BY_DAY.format("cost_rollup"), 2),
)


def median_ms(asks: Sequence[Callable[[], object]], repeats: int = REPEATS, warm: int = WARM) -> float:
    """Milliseconds that one of the asks takes, asked in turn."""
    taken = []
    for number in range(warm + repeats):
        started = time.perf_counter()
        asks[number % len(asks)]()
        taken.append((time.perf_counter() - started) * 1000)
    return statistics.median(taken[warm:])


def _through(client: httpx.Client, form: str, sql: str) -> Callable[[], object]:
    def ask() -> object:
        answer = client.post("/v1/query", json={"sql": sql, "format": form})
        assert answer.status_code == httpx.codes.OK, answer.text
        return answer.content

    return ask


def _bare(connection: duckdb.DuckDBPyConnection, sql: str) -> Callable[[], object]:
    return lambda: connection.sql(sql).to_arrow_table()


def _sessions(connection: duckdb.DuckDBPyConnection) -> list[dict[str, str]]:
    """Some sessions of 500 events from all over the time, as what stands in the places of a question."""
    rows = connection.execute(
        "select session_id, epoch_us(first_time), epoch_us(last_time) from session_rollup where events = 500 "
        f"order by hash(session_id) limit {ASKED_SESSIONS}"
    ).fetchall()
    return [
        {"session": quoted(one), "first": f"make_timestamp({first})", "last": f"make_timestamp({last})"}
        for one, first, last in rows
    ]


def measure(client: httpx.Client, connection: duckdb.DuckDBPyConnection) -> dict[tuple[str, str], tuple[float, ...]]:
    """For each question and form: milliseconds of the answer, of the bare query and of the empty round trip."""
    sessions = _sessions(connection)
    found: dict[tuple[str, str], tuple[float, ...]] = {}
    for question in QUESTIONS:
        bare = median_ms([_bare(connection, question.bare.format(**one)) for one in sessions])
        for form in FORMATS:
            empty = median_ms([_through(client, form, "select 1")])
            asked = [_through(client, form, question.asked.format(**one)) for one in sessions]
            found[question.name, form] = (median_ms(asked), bare, empty)
    return found


def main(rounds: int = ROUNDS) -> None:
    """Print for each question what it took, what it may take, and of what that is made up."""
    folder = Path(tempfile.mkdtemp(prefix="tachograph-bench-"))
    found = []
    try:
        home = prefill.prefilled(folder)
        bare = folder / "bare.duckdb"
        shutil.copyfile(Layout(home).database, bare)
        with (
            Collector(home, everything=True) as collector,
            collector.client() as client,
            duckdb.connect(str(bare), read_only=True) as connection,
        ):
            found = [measure(client, connection) for _ in range(rounds)]
    finally:
        shutil.rmtree(folder)
    print(
        f"{prefill.EVENTS:,} events, warm, median of {rounds} rounds of {REPEATS}, milliseconds (each round's answer)"
    )
    print(f"{'question':<24} {'form':<6} {'answer':>7} {'may take':>9} {'bare':>6} {'empty':>6}")
    for question in QUESTIONS:
        for form in FORMATS:
            rows = [one[question.name, form] for one in found]
            answer, alone, empty = (statistics.median(column) for column in zip(*rows, strict=True))
            print(
                f"{question.name:<24} {form:<6} {answer:>7.1f} {question.times * alone + empty:>9.1f} {alone:>6.1f} "
                f"{empty:>6.1f}   ({', '.join(f'{row[0]:.1f}' for row in rows)})"
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
