"""Traces that belong together although nobody names their session: two instrumentations saw the same model call.

Each of them begins a trace of its own, and both record the provider's response id. Such traces are one session. The id
alone is not enough, because some servers reuse theirs within minutes: the two must be of different dialects and overlap
in time.
"""

from collections.abc import Iterable

import duckdb
import numpy as np

from store.windows import windows, within

NEAR_US = 60_000_000
"""Two sightings of one call end at most this far apart."""

TRACE_SESSION = "trace:"
Pair = tuple[str, str | None, str, str | None]


def name_kin(connection: duckdb.DuckDBPyConnection) -> None:
    """Give traces that share a call one session; adds what changes to `renamed` and to `trace_sessions`."""
    pairs = _pairs(connection)
    if not pairs:
        return
    for trace_id, session_id, was in _joined(pairs):
        connection.execute("delete from trace_sessions where trace_id = ?", [trace_id])
        connection.execute("insert into trace_sessions (trace_id, session_id) values (?, ?)", [trace_id, session_id])
        connection.execute("insert into renamed values (?, ?, ?)", [trace_id, session_id, was])


def _pairs(connection: duckdb.DuckDBPyConnection) -> list[Pair]:
    """Pairs of traces, with the session each has so far, that show the same call; at least one is new and nameless."""
    times = connection.execute("""
        select distinct epoch_us(timestamp) as at from incoming_events
        where model_request_id is not null and trace_id is not null
    """).fetchnumpy()["at"]
    micros = np.asarray(times, dtype=np.int64)
    if not len(micros) or not _worth_looking(connection, int(micros.min()) - NEAR_US, int(micros.max()) + NEAR_US):
        return []
    near = within("e.timestamp", windows(micros - NEAR_US, micros + NEAR_US))
    return connection.execute(f"""
        with calls as (
            select
                e.model_request_id, e.trace_id, e.dialect, coalesce(e.session_id, t.session_id) as session_id,
                epoch_us(e.timestamp) as ended,
                epoch_us(e.timestamp) - coalesce(
                    cast(case when duration_ms between 0 and 1e12 then duration_ms * 1000 end as bigint), 0
                ) as began
            from events as e left join trace_sessions as t on t.trace_id = e.trace_id
            where {near} and e.type in ('model.completed', 'model.failed') and e.trace_id is not null
            and e.model_request_id in (select model_request_id from incoming_events)
        )
        select distinct a.trace_id, a.session_id, b.trace_id, b.session_id
        from calls as a inner join calls as b
            on b.model_request_id = a.model_request_id
            and b.trace_id <> a.trace_id
            and b.dialect <> a.dialect
            and b.began <= a.ended and b.ended >= a.began
        where (a.session_id is null or a.session_id like 'trace:%') and b.trace_id is not null
    """).fetchall()  # noqa: S608


def _worth_looking(connection: duckdb.DuckDBPyConnection, low: int, high: int) -> bool:
    """Whether there are nameless traces and two dialects at all around these times; mostly there are not."""
    found = connection.execute(
        """
        select count(distinct dialect) > 1 and bool_or(nameless) from (
            select dialect, session_id is null as nameless from incoming_events where model_request_id is not null
            union all
            select dialects, session_id like 'trace:%' from session_rollup
            where model_calls > 0 and last_time >= make_timestamp(?) and first_time <= make_timestamp(?)
        )
        """,
        [low, high],
    ).fetchall()
    return bool(found[0][0])


def _joined(pairs: Iterable[Pair]) -> list[tuple[str, str, str]]:
    """For each trace whose session changes: the trace, its session, and the session it had.

    A family takes the smallest session that is named, else the smallest of its traces, so order makes no difference.
    """
    family: dict[str, set[str]] = {}
    known: dict[str, str] = {}
    for one, one_session, other, other_session in pairs:
        members = {one, other}
        for trace_id, session_id in ((one, one_session), (other, other_session)):
            if session_id is not None:
                known[trace_id] = session_id
                if session_id.startswith(TRACE_SESSION):
                    members.add(session_id.removeprefix(TRACE_SESSION))
        merged = members.union(*(family.get(member, set()) for member in members))
        for member in merged:
            family[member] = merged
    changed = []
    for trace_id, members in family.items():
        named = [known[member] for member in members if not known.get(member, TRACE_SESSION).startswith(TRACE_SESSION)]
        session_id = min(named) if named else TRACE_SESSION + min(members)
        was = known.get(trace_id, TRACE_SESSION + trace_id)
        if session_id != was and was.startswith(TRACE_SESSION):
            changed.append((trace_id, session_id, was))
    return changed
