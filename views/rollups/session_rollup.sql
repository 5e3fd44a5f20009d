-- One row per touched session that has an event or a record.
-- The time range bounds the next reading, so it covers parents of the session's spans that nobody claimed. Records count
-- that name the session or became events.
-- Reads `touched`, `touched_events`, `touched_records`, `touched_calls`, `touched_tools` and `touched_gaps`; gives the rows of `session_rollup`.
with facts as (
    select
        session_id as session_id,
        min(timestamp) as first_time,
        max(timestamp) as last_time,
        make_timestamp(min(epoch_us(timestamp) - coalesce(cast(case when duration_ms between 0 and 1e12 then duration_ms * 1000 end as bigint), 0))) as started,
        arg_min(agent_name, row(timestamp, event_id)) as agent_name,
        string_agg(distinct dialect, ', ' order by dialect) as dialects,
        arg_max(status, row(timestamp, event_id)) filter (
            where status is not null and split_part(type, '.', 1) in ('turn', 'task', 'run', 'session')
        ) as status,
        count(*) as events,
        count(distinct turn_id) as turns
    from touched_events
    group by session_id
),

parents as (
    select distinct session_id as session_id, trace_id as trace_id, parent_span_id as span_id
    from touched_records
    where own and parent_span_id is not null
),

sent as (
    select
        r.session_id as session_id,
        min(r.time) as first_time,
        max(r.time) as last_time,
        min(case when r.own then r.time end) as own_first_time,
        mode(r.service_name order by r.service_name) filter (where r.own) as service_name,
        count(case when r.own and r.signal = 'span' then 1 end) as spans,
        count(case when r.own and r.signal in ('log', 'event', 'file') then 1 end) as logs,
        count(case when r.own and r.signal = 'metric' then 1 end) as metric_points
    from touched_records as r
    left join parents as p
        on p.session_id = r.session_id and p.trace_id = r.trace_id and p.span_id = r.span_id and r.signal = 'span'
    where r.own or p.span_id is not null
    group by r.session_id
),

models as (
    select
        session_id as session_id,
        string_agg(distinct model, ', ' order by model) as models,
        count(*) as calls,
        count(case when status = 'failed' then 1 end) as failed,
        try_cast(sum(uncached_input_tokens) as bigint) as uncached_input_tokens,
        try_cast(sum(cache_read_tokens) as bigint) as cache_read_tokens,
        try_cast(sum(cache_write_tokens) as bigint) as cache_write_tokens,
        try_cast(sum(output_tokens) as bigint) as output_tokens,
        try_cast(sum(reasoning_tokens) as bigint) as reasoning_tokens,
        round(sum(cost_usd), 10) as cost_usd,
        count(case when cost_usd is null and status = 'completed' then 1 end) as costs_unknown,
        count(case when cost_state = 'reported' then 1 end) as costs_reported,
        count(case when cost_state = 'priced' then 1 end) as costs_priced
    from touched_calls
    group by session_id
),

tools as (
    select
        session_id as session_id,
        count(*) as calls,
        count(case when status = 'failed' then 1 end) as failed
    from touched_tools
    group by session_id
),

holes as (
    select session_id as session_id, count(*) as gaps
    from touched_gaps
    group by session_id
)

select
    t.session_id as session_id,
    least(f.first_time, s.first_time) as first_time,
    greatest(f.last_time, s.last_time) as last_time,
    coalesce(f.started, s.own_first_time) as started,
    coalesce(f.last_time, s.last_time) as ended,
    s.service_name as service_name,
    f.agent_name as agent_name,
    f.dialects as dialects,
    m.models as models,
    coalesce(f.status, 'unknown') as status,
    coalesce(f.events, 0) as events,
    coalesce(s.spans, 0) as spans,
    coalesce(s.logs, 0) as logs,
    coalesce(s.metric_points, 0) as metric_points,
    coalesce(f.turns, 0) as turns,
    coalesce(m.calls, 0) as model_calls,
    coalesce(m.failed, 0) as model_calls_failed,
    coalesce(o.calls, 0) as tool_calls,
    coalesce(o.failed, 0) as tool_calls_failed,
    m.uncached_input_tokens as uncached_input_tokens,
    m.cache_read_tokens as cache_read_tokens,
    m.cache_write_tokens as cache_write_tokens,
    m.output_tokens as output_tokens,
    m.reasoning_tokens as reasoning_tokens,
    m.cost_usd as cost_usd,
    coalesce(m.costs_unknown, 0) as costs_unknown,
    coalesce(m.costs_reported, 0) as costs_reported,
    coalesce(m.costs_priced, 0) as costs_priced,
    coalesce(h.gaps, 0) as gaps
from touched as t
left join facts as f on f.session_id = t.session_id
left join sent as s on s.session_id = t.session_id
left join models as m on m.session_id = t.session_id
left join tools as o on o.session_id = t.session_id
left join holes as h on h.session_id = t.session_id
where f.session_id is not null or s.session_id is not null
