-- session_events: One row per event, with the session it belongs to.
-- Grain: event_id.
-- An event that names no session belongs to the session that another record of its trace names; a trace that nobody
-- names is a session of its own. All columns of `events` follow.
-- An event that names its session lies within the session's times in the roll-up, so a question about one session reads
-- only those. What came after the roll-up was last brought up to date (`rolled_up` in `progress`) is read without them.
-- Each kind has its branch, so that a filter on the session is a plain comparison for the events that name theirs.
-- Columns:
--   session_id: The session: as told, else as told of its trace, else `trace:` and the trace id, else `unknown:` and the dialect.
--   session_source: How the session is known: `event`, `trace` (another record of the trace names it), `trace_id` or `unknown`.
--   *: Every column of `events` but `session_id`.
select
    e.session_id as session_id,
    'event' as session_source,
    e.* exclude (session_id)
from (select s.session_id, s.first_time, s.last_time, p.rolled_up from session_rollup as s, progress as p) as s
inner join events as e
    on e.session_id = s.session_id and e.timestamp >= s.first_time and e.timestamp <= s.last_time
    and e.journal_position <= s.rolled_up
union all
select
    e.session_id as session_id,
    'event' as session_source,
    e.* exclude (session_id)
from events as e
inner join progress as p on e.journal_position > p.rolled_up
where e.session_id is not null
union all
select
    coalesce(t.session_id, 'trace:' || e.trace_id, 'unknown:' || coalesce(e.dialect, '')) as session_id,
    case
        when t.session_id is not null then 'trace'
        when e.trace_id is not null then 'trace_id'
        else 'unknown'
    end as session_source,
    e.* exclude (session_id)
from events as e
left join trace_sessions as t on t.trace_id = e.trace_id
where e.session_id is null
