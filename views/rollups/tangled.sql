-- Touched sessions in which one call may have been seen twice: their calls have to be searched for.
-- Reads `touched_events`. Every other session has one event per call.
with sightings as (
    select
        session_id as session_id,
        split_part(type, '.', 1) as family,
        coalesce(
            case when type like 'tool.%' then tool_call_id else model_request_id end,
            case when signal = 'span' then 'span:' || span_id end,
            event_id
        ) as call_id,
        signal as signal,
        dialect as dialect,
        type as type,
        trace_id as trace_id,
        span_id as span_id,
        parent_span_id as parent_span_id
    from touched_events
    where type in (
        'model.requested', 'model.completed', 'model.failed',
        'tool.started', 'tool.args', 'tool.progress', 'tool.result', 'tool.failed'
    )
)

select session_id as session_id
from sightings
group by session_id
having
    count(*) <> count(distinct family || call_id)
    or count(case when signal <> 'span' then 1 end) not in (0, count(*))
    or count(distinct case when signal <> 'span' then signal || coalesce(dialect, '') end) > 1
    or count(case when type = 'tool.args' then 1 end) > 0
    or count(case when signal <> 'span' and type in ('model.requested', 'tool.started', 'tool.args', 'tool.progress') then 1 end) > 0
union
select c.session_id as session_id
from sightings as c
inner join sightings as p
    on p.session_id = c.session_id and p.family = c.family and p.trace_id = c.trace_id and p.span_id = c.parent_span_id
where c.signal = 'span' and p.signal = 'span'
