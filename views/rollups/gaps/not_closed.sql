-- Work that began and whose end was not recorded; it may still be running.
-- The end of a call may be told without its id: `touched_links` knows the call. A turn may end with the span in which it
-- was submitted. Some clients tell no end of turns at all: there a turn is over if the last that it did was to answer.
with work as (
    select
        e.session_id as session_id,
        split_part(type, '.', 1) as family,
        case split_part(type, '.', 1)
            when 'task' then task_id
            when 'tool' then coalesce(nullif(l.call_id, ''), tool_call_id, case when type in ('tool.result', 'tool.failed') then 'span:' || span_id end)
            when 'model' then coalesce(
                nullif(l.call_id, ''),
                model_request_id,
                case when type <> 'model.requested' then 'span:' || span_id end,
                case when type = 'model.requested' and signal <> 'span' and l.call_id is null then e.event_id end
            )
            when 'subagent' then subagent_id
            else coalesce(span_id, step_id)
        end as subject,
        type in (
            'task.started', 'tool.started', 'model.requested', 'subagent.spawned', 'hook.started', 'process.started',
            'job.started'
        ) as opens,
        type in (
            'task.completed', 'task.failed', 'task.cancelled', 'task.timed_out', 'task.lost',
            'tool.result', 'tool.failed', 'model.completed', 'model.failed',
            'subagent.completed', 'subagent.failed', 'subagent.closed',
            'hook.completed', 'hook.failed', 'process.completed', 'process.failed', 'process.terminated',
            'job.completed', 'job.failed', 'job.cancelled'
        ) as closes,
        timestamp as time
    from touched_events as e
    left join touched_links as l on l.session_id = e.session_id and l.event_id = e.event_id
    where split_part(type, '.', 1) in ('task', 'tool', 'model', 'subagent', 'hook', 'process', 'job')
),

turn_spans as (
    select
        session_id as session_id,
        trace_id as trace_id,
        span_id as span_id,
        max(case when type in ('turn.completed', 'turn.failed') then 1 else 0 end) as ends
    from touched_events
    where signal = 'span' and trace_id is not null
    group by session_id, trace_id, span_id
),

traced as (
    select distinct session_id as session_id, trace_id as trace_id
    from turn_spans
),

turn_facts as (
    select
        e.session_id as session_id,
        e.turn_id as turn_id,
        e.timestamp as time,
        split_part(e.type, '.', 1) as family,
        e.type as type,
        e.type in ('turn.submitted', 'turn.started') as opens,
        e.type in ('turn.completed', 'turn.failed') or coalesce(s.ends, 0) = 1 as closes,
        e.type in ('turn.submitted', 'turn.started') and (
            coalesce(e.dialect, '') not in ('claude_code', 'gemini_cli', 'transcript_gemini', 'transcript_claude_code')
            or (e.dialect = 'claude_code' and t.trace_id is not null)
        ) as tells_ends
    from touched_events as e
    left join turn_spans as s
        on s.session_id = e.session_id and s.trace_id = e.trace_id and s.span_id = e.span_id
        and e.type = 'turn.submitted'
    left join traced as t on t.session_id = e.session_id and t.trace_id = e.trace_id and e.type = 'turn.submitted'
    where e.turn_id is not null and split_part(e.type, '.', 1) in ('turn', 'model', 'tool')
),

open_turns as (
    select
        session_id as session_id,
        turn_id as subject,
        min(case when opens then time end) as time
    from turn_facts
    group by session_id, turn_id
    having
        max(case when opens then 1 else 0 end) = 1
        and max(case when closes then 1 else 0 end) = 0
        and (
            max(case when tells_ends then 1 else 0 end) = 1
            -- What an answer asks for is told with it, so at one time it comes after.
            or arg_max(type, row(epoch_us(time), case family when 'tool' then 2 when 'model' then 1 else 0 end))
            <> 'model.completed'
        )
)

select
    session_id as session_id,
    'not_closed' as kind,
    subject as subject,
    min(case when opens then time end) as time,
    cast(1 as bigint) as missing,
    'this ' || family || ' began and its end was not recorded' as detail
from work
where subject is not null
group by session_id, family, subject
having max(case when opens then 1 else 0 end) = 1 and max(case when closes then 1 else 0 end) = 0
union all
select
    session_id as session_id,
    'not_closed' as kind,
    subject as subject,
    time as time,
    cast(1 as bigint) as missing,
    'this turn began and its end was not recorded' as detail
from open_turns
