-- Work that began and whose end was not recorded; it may still be running.
-- The end of a call may be told without its id: `touched_links` knows the call. Some clients never tell a turn's end by
-- the id its beginning has; that says nothing about the turn.
with work as (
    select
        e.session_id as session_id,
        split_part(type, '.', 1) as family,
        case split_part(type, '.', 1)
            when 'turn' then case when coalesce(dialect, '') not in ('claude_code', 'codex', 'gemini_cli') then turn_id end
            when 'task' then task_id
            when 'tool' then coalesce(nullif(l.call_id, ''), tool_call_id, case when type in ('tool.result', 'tool.failed') then 'span:' || span_id end)
            when 'model' then coalesce(nullif(l.call_id, ''), model_request_id, case when type <> 'model.requested' then 'span:' || span_id end)
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
    from touched_events as e
    left join touched_links as l on l.session_id = e.session_id and l.event_id = e.event_id
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
