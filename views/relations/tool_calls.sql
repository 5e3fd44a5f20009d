-- tool_calls: One row per tool call, however often it was seen.
-- Grain: session_id, call_id.
-- Sightings are joined by recorded ids: the tool call id, the span, a parent span of the same tool (see `call_links`); where
-- a client gives its two streams no common id, the n-th call of a tool in one is the n-th in the other. A call that a model
-- asked for and that nobody tells of running is a call of status `unknown`.
-- Columns:
--   session_id: The session.
--   call_id: Stable id of the call: the tool call id, else its span, else its event.
--   turn_id: The turn it belongs to.
--   task_id: The task it belongs to.
--   run_id: The run it belongs to.
--   agent_name: The agent that called.
--   subagent_id: The child agent that called, as its client names it; NULL for the main agent or where not told.
--   tool_name: The tool.
--   status: `completed`, `failed`, or `unknown` when no end was recorded.
--   error: Error type of a failed call.
--   started: When it began (UTC).
--   ended: When it ended (UTC); NULL when no end was recorded.
--   duration_ms: Wall time in milliseconds.
--   trace_id: Its trace.
--   span_id: Its span.
--   sightings: Ids of the events that show it, in order of time.
with sightings as (
    select
        e.session_id as session_id,
        coalesce(
            l.call_id,
            e.tool_call_id,
            case when e.signal = 'span' then 'span:' || e.span_id end,
            e.event_id
        ) as call_id,
        e.event_id as event_id,
        e.type as type,
        e.timestamp as timestamp,
        e.turn_id as turn_id,
        e.task_id as task_id,
        e.run_id as run_id,
        e.agent_name as agent_name,
        e.subagent_id as subagent_id,
        e.tool_name as tool_name,
        e.error as error,
        e.duration_ms as duration_ms,
        e.trace_id as trace_id,
        case when e.signal = 'span' then e.span_id end as own_span_id,
        e.span_id as span_id
    from session_events as e
    left join call_links as l on l.session_id = e.session_id and l.event_id = e.event_id
    where e.type in ('tool.started', 'tool.args', 'tool.progress', 'tool.result', 'tool.failed')
)

select
    session_id as session_id,
    call_id as call_id,
    max(turn_id) as turn_id,
    max(task_id) as task_id,
    max(run_id) as run_id,
    max(agent_name) as agent_name,
    max(subagent_id) as subagent_id,
    max(tool_name) as tool_name,
    case
        when max(case when type = 'tool.failed' then 1 else 0 end) = 1 then 'failed'
        when max(case when type = 'tool.result' then 1 else 0 end) = 1 then 'completed'
        else 'unknown'
    end as status,
    max(error) as error,
    make_timestamp(min(epoch_us(timestamp) - coalesce(cast(case when duration_ms between 0 and 1e12 then duration_ms * 1000 end as bigint), 0))) as started,
    max(case when type in ('tool.result', 'tool.failed') then timestamp end) as ended,
    max(duration_ms) as duration_ms,
    max(trace_id) as trace_id,
    coalesce(max(own_span_id), max(span_id)) as span_id,
    list(event_id order by timestamp, event_id) as sightings
from sightings
where call_id <> ''
group by session_id, call_id
