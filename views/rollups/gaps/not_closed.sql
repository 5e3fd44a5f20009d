-- Work that began and whose end was not recorded; it may still be running.
with work as (
    select
        session_id as session_id,
        split_part(type, '.', 1) as family,
        case split_part(type, '.', 1)
            when 'turn' then turn_id
            when 'task' then task_id
            when 'tool' then tool_call_id
            when 'model' then model_request_id
            when 'subagent' then subagent_id
            else coalesce(span_id, step_id)
        end as subject,
        type in (
            'turn.submitted', 'turn.started', 'task.started', 'tool.started', 'model.requested', 'subagent.spawned',
            'hook.started', 'process.started', 'job.started'
        ) as opens,
        type in (
            'turn.completed', 'turn.failed',
            'task.completed', 'task.failed', 'task.cancelled', 'task.timed_out', 'task.lost',
            'tool.result', 'tool.failed', 'model.completed', 'model.failed',
            'subagent.completed', 'subagent.failed', 'subagent.closed',
            'hook.completed', 'hook.failed', 'process.completed', 'process.failed', 'process.terminated',
            'job.completed', 'job.failed', 'job.cancelled'
        ) as closes,
        timestamp as time
    from touched_events
    where split_part(type, '.', 1) in ('turn', 'task', 'tool', 'model', 'subagent', 'hook', 'process', 'job')
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
