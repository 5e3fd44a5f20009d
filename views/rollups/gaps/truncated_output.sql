-- Outputs that were cut.
select
    session_id as session_id,
    'truncated' as kind,
    coalesce(tool_call_id, step_id, event_id) as subject,
    min(timestamp) as time,
    cast(null as bigint) as missing,
    'an output was cut' as detail
from touched_events
where type = 'output.truncated'
group by session_id, coalesce(tool_call_id, step_id, event_id)
