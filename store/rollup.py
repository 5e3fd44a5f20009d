"""The roll-up: what is kept about each session, made anew from its events whenever new rows touch it, never added up.

Reads only what the touched sessions' known time ranges cover. Most of its cost is the same for one row as for fifty
thousand, so the writer lets a few batches come together; it is always up to date in what a checkpoint writes.
"""

import duckdb
import numpy as np
import pyarrow as pa

from store import database
from store.kinship import name_kin
from store.windows import GAP_US, Window, windows, within
from views.relations import relations, rename_tables, rollup

RECORD_KEYS = ("signal", "time", "trace_id", "span_id", "session_key", "dialect")
EVENT_KEYS = ("session_id", "trace_id", "dialect", "timestamp", "model_request_id")
"""What of a new row tells which sessions it touches."""

SESSION_OF_EVENT = "coalesce(e.session_id, t.session_id, 'trace:' || e.trace_id, 'unknown:' || coalesce(e.dialect, ''))"
SESSION_OF_RECORD = "coalesce(e.session_key, t.session_id, 'trace:' || e.trace_id)"
TRACE_OF_EVENT = "left join trace_sessions as t on t.trace_id = case when e.session_id is null then e.trace_id end"
TRACE_OF_RECORD = "left join trace_sessions as t on t.trace_id = case when e.session_key is null then e.trace_id end"
RECORD_COLUMNS = """
    e.signal, e.time, e.trace_id, e.span_id, e.parent_span_id, e.service_name, e.time_ns, e.end_ns, e.received,
    e.session_key is not null or e.dialect is not null as own
"""
TRUNCATION_COLUMNS = "e.record_id, e.time, cast(e.dropped as varchar) as dropped"

CALL_COLUMNS = (
    "session_id, status, provider, model, started, ended, uncached_input_tokens, cache_read_tokens, "
    "cache_write_tokens, output_tokens, reasoning_tokens, cost_usd, cost_state, price_entry, price_version"
)
PLAIN_TOOLS = """
    select
        session_id,
        case type when 'tool.failed' then 'failed' when 'tool.result' then 'completed' else 'unknown' end as status
    from touched_events
    where type in ('tool.started', 'tool.args', 'tool.progress', 'tool.result', 'tool.failed')
    and session_id not in (select session_id from tangled)
"""

HAS_CHILDREN = """
    subagent_id is not null or type like 'subagent.%'
    or (type = 'run.status' and signal = 'span' and agent_name is not null and parent_span_id is not null)
"""
"""Without such an event a session has no child agents."""

EVENT_GAPS = {
    "sequence_hole": "sequence is not null",
    "not_closed": "type like '%.started' or type in ('turn.submitted', 'model.requested', 'subagent.spawned')",
    "clock_step": "sequence is not null",
    "truncated_output": "type = 'output.truncated'",
    "orphan": "type = 'session.created'",
}
RECORD_GAPS = {
    "metrics_only": "signal = 'metric'",
    "clock_skew": "end_ns < time_ns or epoch_us(time) not between 946684800000000 and epoch_us(received) + 60000000",
}
LINEAGE_GAPS = {
    "missing_parent": "parent_time is null",
    "clock_skew": "parent_time is not null",
}
"""Kinds of gap that the events, records or spans of a session may show, and without which no session can have them."""

PART = 500_000
"""About so many events are looked at together when everything is made anew."""

SKEW_US = 2 * 3_600_000_000
"""So far the clocks of two hosts may differ and a span's parent is still found."""


def refresh(connection: duckdb.DuckDBPyConnection, records: pa.Table, events: pa.Table) -> None:
    """Bring everything derived up to date with all new rows, of which it takes `RECORD_KEYS` and `EVENT_KEYS`."""
    with database.registered(connection, incoming_records=records, incoming_events=events):
        name_traces(connection)
        name_kin(connection)
        recompute(connection, find_touched(connection))
        connection.execute("update progress set rolled_up = position where rolled_up >= 0")


def note_incomplete(connection: duckdb.DuckDBPyConnection) -> None:
    """Let nobody rely on the sessions' times any more, because rows were stored that could not be rolled up."""
    connection.execute("update progress set rolled_up = -1")


def name_traces(connection: duckdb.DuckDBPyConnection) -> None:
    """Note which session each trace belongs to, as told by the new rows; `renamed` gets the traces this changes.

    Of several sessions named for one trace the smallest is taken, so the order of arrival makes no difference. Traces
    that were found to belong together get the name together.
    """
    connection.execute("""
        create or replace temp table renamed as
        with named as (
            select trace_id, min(session_id) as session_id from (
                select trace_id, session_key as session_id from incoming_records
                where trace_id is not null and session_key is not null
                union all
                select trace_id, session_id from incoming_events where trace_id is not null and session_id is not null
            ) group by trace_id
        )
        select n.trace_id, n.session_id, coalesce(t.session_id, 'trace:' || n.trace_id) as was
        from named as n left join trace_sessions as t on t.trace_id = n.trace_id
        where t.session_id is null or t.session_id like 'trace:%' or n.session_id < t.session_id
    """)
    connection.execute("""
        insert into renamed
        select distinct on (t.trace_id) t.trace_id, n.session_id, n.was
        from renamed as n
        inner join (
            select trace_id, session_id from trace_sessions
            union all
            select substr(was, 7) as trace_id, was as session_id from renamed where was like 'trace:%'
        ) as t on t.session_id = n.was and n.was like 'trace:%'
        where t.trace_id not in (select trace_id from renamed)
        order by t.trace_id, n.session_id
    """)
    connection.execute("delete from trace_sessions where trace_id in (select trace_id from renamed)")
    connection.execute("insert into trace_sessions (trace_id, session_id) select trace_id, session_id from renamed")


def find_touched(connection: duckdb.DuckDBPyConnection) -> list[Window]:
    """Fill `touched` with the sessions whose facts the new rows may change; the time windows they lie in."""
    connection.execute(f"""
        create or replace temp table touched as
        with changes as (
            select {SESSION_OF_EVENT} as session_id, e.timestamp as low, e.timestamp as high
            from incoming_events as e {TRACE_OF_EVENT}
            union all
            select {SESSION_OF_RECORD} as session_id, e.time as low, e.time as high
            from incoming_records as e {TRACE_OF_RECORD}
            where e.session_key is not null or (e.dialect is not null and e.trace_id is not null)
            union all
            select g.session_id, r.time as low, r.time as high
            from session_gaps as g inner join incoming_records as r
                on r.span_id = g.subject and r.signal = 'span' and g.kind = 'missing_parent'
            union all
            select g.session_id, e.timestamp as low, e.timestamp as high
            from session_gaps as g inner join incoming_events as e on e.session_id = g.subject and g.kind = 'orphan'
            union all
            select was as session_id, null as low, null as high from renamed
            union all
            select n.session_id, s.first_time as low, s.last_time as high
            from renamed as n left join session_rollup as s on s.session_id = n.was
        ),
        ranges as (
            select session_id, min(low) as low, max(high) as high from changes group by session_id
        )
        select
            c.session_id,
            least(c.low, s.first_time) as first_time,
            greatest(c.high, s.last_time) as last_time,
            s.session_id is not null as known
        from ranges as c left join session_rollup as s on s.session_id = c.session_id
    """)  # noqa: S608
    return touched_windows(connection)


def touched_windows(connection: duckdb.DuckDBPyConnection) -> list[Window]:
    """The time windows in which everything of the touched sessions lies."""
    bounds = connection.execute("""
        select epoch_us(first_time) as first, epoch_us(last_time) as last from touched where first_time is not null
    """).fetchnumpy()
    first, last = (np.asarray(bounds[name], dtype=np.int64) for name in ("first", "last"))
    return windows(first, last)


def recompute(connection: duckdb.DuckDBPyConnection, ranges: list[Window]) -> None:
    """Make the derived rows of the sessions in `touched` anew."""
    _look_at(connection, ranges)
    _find_lineage(connection, ranges)
    _find_calls(connection)
    _find_subagents(connection)
    _find_gaps(connection)
    for table in ("call_links", "subagent_rollup", "session_gaps", "cost_rollup", "session_rollup"):
        connection.execute(f"delete from {table} where session_id in (select session_id from touched where known)")  # noqa: S608
    connection.execute("insert into call_links by name select * from touched_links")
    connection.execute("insert into subagent_rollup by name select * from touched_subagents")
    connection.execute("insert into session_gaps by name select * from touched_gaps")
    connection.execute(f"insert into cost_rollup by name {rollup('cost_rollup')}")
    connection.execute(f"insert into session_rollup by name {rollup('session_rollup')}")


def remake(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the derived rows of all known sessions anew, by the rules of this program, some sessions at a time."""
    connection.execute(f"""
        create or replace temp table remade as
        select session_id, first_time, last_time, sum(events) over (order by first_time, session_id) // {PART} as part
        from session_rollup
    """)  # noqa: S608
    for (part,) in connection.execute("select distinct part from remade order by part").fetchall():
        connection.execute(f"""
            create or replace temp table touched as
            select session_id, first_time, last_time, true as known from remade where part = {part}
        """)  # noqa: S608
        recompute(connection, touched_windows(connection))


def touch_priced(connection: duckdb.DuckDBPyConnection) -> None:
    """Fill `touched` with the sessions of the events in `news`, whose costs are about to change."""
    connection.execute(f"""
        create or replace temp table touched as
        with changed as (
            select {SESSION_OF_EVENT} as session_id, min(e.timestamp) as low, max(e.timestamp) as high
            from news as n inner join events as e on e.rowid = n.row {TRACE_OF_EVENT}
            group by all
        )
        select
            c.session_id, least(c.low, s.first_time) as first_time, greatest(c.high, s.last_time) as last_time,
            true as known
        from changed as c left join session_rollup as s on s.session_id = c.session_id
    """)  # noqa: S608


def recompute_costs(connection: duckdb.DuckDBPyConnection) -> None:
    """Make what depends on prices anew for the sessions in `touched`; `repriced_calls` gets their calls.

    Which events show which call does not depend on prices, so `call_links` and all else stay as they are.
    """
    _look_at(connection, touched_windows(connection))
    calls = relations()["model_calls"].over({"session_events": "touched_events"})
    connection.execute(f"""
        create or replace temp table repriced_calls as
        select {CALL_COLUMNS}, sightings[1] as best from ({calls})
    """)  # noqa: S608
    connection.execute("delete from cost_rollup where session_id in (select session_id from touched)")
    rows = rename_tables(rollup("cost_rollup"), {"touched_calls": "repriced_calls"})
    connection.execute(f"insert into cost_rollup by name {rows}")
    connection.execute("""
        update session_rollup set
            cost_usd = c.cost_usd, costs_unknown = c.unknown, costs_reported = c.reported, costs_priced = c.priced
        from (
            select
                session_id,
                round(sum(cost_usd), 10) as cost_usd,
                count(case when cost_usd is null and status = 'completed' then 1 end) as unknown,
                count(case when cost_state = 'reported' then 1 end) as reported,
                count(case when cost_state = 'priced' then 1 end) as priced
            from repriced_calls group by session_id
        ) as c
        where session_rollup.session_id = c.session_id
    """)


def _look_at(connection: duckdb.DuckDBPyConnection, ranges: list[Window]) -> None:
    """Views of what the big tables hold of the touched sessions; each reader takes only the columns it needs.

    Rows that name their session and rows that do not are read apart: only the latter need to know their trace's.
    """
    connection.execute("""
        create or replace temp table touched_traces as
        select trace_id, session_id from trace_sessions where session_id in (select session_id from touched)
    """)
    earlier = [(low - GAP_US, high) for low, high in ranges]
    for name, table, key, columns, window in (
        (
            "touched_events",
            "events",
            "session_id",
            "e.* exclude (session_id, refs)",
            within("e.timestamp", ranges),
        ),
        ("touched_records", "records", "session_key", RECORD_COLUMNS, within("e.time", earlier)),
        ("touched_truncations", "truncations", "session_key", TRUNCATION_COLUMNS, within("e.time", ranges)),
    ):
        unknown = SESSION_OF_EVENT if table == "events" else SESSION_OF_RECORD
        connection.execute(f"""
            create or replace temp view {name} as
            select e.{key} as session_id, {columns} from {table} as e
            where {window} and e.{key} in (select session_id from touched)
            union all
            select {unknown} as session_id, {columns} from {table} as e
            left join touched_traces as t on t.trace_id = e.trace_id
            where {window} and e.{key} is null and {unknown} in (select session_id from touched)
        """)  # noqa: S608


def _find_lineage(connection: duckdb.DuckDBPyConnection, ranges: list[Window]) -> None:
    """`touched_lineage`: spans whose parent is missing or began after them.

    A parent that no dialect claims belongs to the session only through its children, so by a skewed clock it may lie
    outside the session's times. It is looked for once, when first missed; if it comes later, `find_touched` sees it.
    """
    lineage = f"create or replace temp table touched_lineage as {rollup('lineage')}"
    connection.execute(lineage)
    bounds = connection.execute("""
        create or replace temp table missed as
        select distinct l.trace_id, l.parent_span_id as span_id, l.time from touched_lineage as l
        left join session_gaps as g
            on g.session_id = l.session_id and g.kind = 'missing_parent' and g.subject = l.parent_span_id
        where l.parent_time is null and g.subject is null;
        select epoch_us(time) as at from missed
    """).fetchnumpy()["at"]
    near = windows(np.asarray(bounds, dtype=np.int64))
    if not near:
        return
    wide = within("e.time", [(low - SKEW_US, high + SKEW_US) for low, high in near])
    found = connection.execute(f"""
        select epoch_us(e.time) as at from records as e
        where {wide} and e.dialect is null and e.session_key is null and e.signal = 'span'
        and (e.trace_id, e.span_id) in (select (trace_id, span_id) from missed)
    """).fetchnumpy()["at"]  # noqa: S608
    if len(found):
        _look_at(connection, ranges + windows(np.asarray(found, dtype=np.int64)))
        connection.execute(lineage)


def _find_calls(connection: duckdb.DuckDBPyConnection) -> None:
    """`touched_calls` and `touched_tools`: each call once. Most sessions are plain and need no search."""
    connection.execute(f"create or replace temp table tangled as {rollup('tangled')}")
    calls, tools = rollup("plain_calls"), PLAIN_TOOLS
    if _any(connection, "tangled"):
        connection.execute("""
            create or replace temp table tangled_events as
            select * exclude (payload) from touched_events where session_id in (select session_id from tangled)
        """)
        connection.execute(f"create or replace temp table touched_links as {rollup('call_links')}")
        sources = {"session_events": "tangled_events", "call_links": "touched_links"}
        calls += f" union all select {CALL_COLUMNS} from ({relations()['model_calls'].over(sources)})"  # noqa: S608
        tools += f" union all select session_id, status from ({relations()['tool_calls'].over(sources)})"  # noqa: S608
    else:
        connection.execute("create or replace temp table touched_links as select * from call_links limit 0")
    connection.execute(f"create or replace temp view touched_calls as {calls}")
    connection.execute(f"create or replace temp view touched_tools as {tools}")


def _find_subagents(connection: duckdb.DuckDBPyConnection) -> None:
    """`touched_subagents`: child agents and who made them."""
    some = connection.execute(f"select bool_or({HAS_CHILDREN}) from touched_events").fetchall()[0][0]  # noqa: S608
    sql = rollup("subagents") if some else "select * from subagent_rollup limit 0"
    connection.execute(f"create or replace temp table touched_subagents as {sql}")


def _find_gaps(connection: duckdb.DuckDBPyConnection) -> None:
    """`touched_gaps`: only the kinds that the touched sessions can have at all are looked for."""
    conditions = ", ".join(f"bool_or({condition})" for condition in EVENT_GAPS.values())
    answers = connection.execute(f"select {conditions} from touched_events").fetchall()[0]  # noqa: S608
    kinds = [kind for kind, possible in zip(EVENT_GAPS, answers, strict=True) if possible]
    conditions = ", ".join(f"bool_or({condition})" for condition in RECORD_GAPS.values())
    answers = connection.execute(f"select {conditions} from touched_records").fetchall()[0]  # noqa: S608
    kinds += [kind for kind, possible in zip(RECORD_GAPS, answers, strict=True) if possible]
    conditions = ", ".join(f"bool_or({condition})" for condition in LINEAGE_GAPS.values())
    answers = connection.execute(f"select {conditions} from touched_lineage").fetchall()[0]  # noqa: S608
    kinds += [kind for kind, found in zip(LINEAGE_GAPS, answers, strict=True) if found]
    if _any(connection, "truncations"):
        kinds.append("truncated_record")
    if _any(connection, "touched_subagents"):
        kinds.append("orphan")
    connection.execute("create or replace temp table touched_gaps as select * from session_gaps limit 0")
    for kind in dict.fromkeys(kinds):
        connection.execute(f"insert into touched_gaps by name {rollup(f'gaps/{kind}')}")


def _any(connection: duckdb.DuckDBPyConnection, table: str) -> bool:
    return bool(connection.execute(f"select 1 from {table} limit 1").fetchall())  # noqa: S608
