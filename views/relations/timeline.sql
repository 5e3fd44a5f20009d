-- timeline: One row per event in the order it happened within its session.
-- Grain: session_id, place.
-- Order: the session's own sequence, else time, else event id. An event without a sequence in a session that has one
-- comes after the last numbered event that is not later.
-- Columns:
--   session_id: The session.
--   place: Place within the session, from 1.
--   event_id: The event.
--   type: Event type.
--   kind: What it is about: the first word of the type (`model`, `tool`, `turn`, `task` …).
--   label: What to call it: the model, the tool or the subagent, else the type.
--   status: State after the fact.
--   started: When the work began (UTC): the fact's time less the duration.
--   timestamp: When the fact became true (UTC).
--   duration_ms: Wall time of the finished work in milliseconds.
--   sequence: The session's own count, where the source records one.
--   time_ns: When the fact became true, in nanoseconds since 1970.
--   turn_id: The turn it belongs to.
--   task_id: The task it belongs to.
--   agent_name: The agent that did it.
--   subagent_id: The child agent that did it, as its client names it; see `subagents`.
--   model: The model.
--   tool_name: The tool.
--   uncached_input_tokens: Input tokens neither read from nor written to a cache.
--   cache_read_tokens: Input tokens read from the provider's cache.
--   cache_write_tokens: Input tokens written to the provider's cache.
--   output_tokens: Output tokens; reasoning is among them, except from Gemini clients, which count it beside them.
--   reasoning_tokens: Tokens spent on reasoning: a part of the output, except from Gemini clients, which count them beside it.
--   cost_usd: Cost in US dollars; NULL when unknown.
--   cost_state: `reported`, `priced` or `unknown`; NULL on events that cost nothing.
--   error: Error type of a failure.
--   trace_id: Its trace.
--   span_id: The span of the work it belongs to.
--   parent_span_id: That span's parent.
--   record_id: The record it was made from.
with carried as (
    select
        e.session_id as session_id,
        e.event_id as event_id,
        e.type as type,
        e.status as status,
        e.timestamp as timestamp,
        e.duration_ms as duration_ms,
        e.sequence as sequence,
        e.turn_id as turn_id,
        e.task_id as task_id,
        e.agent_name as agent_name,
        e.subagent_id as subagent_id,
        e.model as model,
        e.tool_name as tool_name,
        e.uncached_input_tokens as uncached_input_tokens,
        e.cache_read_tokens as cache_read_tokens,
        e.cache_write_tokens as cache_write_tokens,
        e.output_tokens as output_tokens,
        e.reasoning_tokens as reasoning_tokens,
        e.cost_usd as cost_usd,
        e.cost_state as cost_state,
        e.error as error,
        e.trace_id as trace_id,
        e.span_id as span_id,
        e.parent_span_id as parent_span_id,
        e.record_id as record_id,
        coalesce(e.time_ns, cast(epoch_us(e.timestamp) * 1000 as ubigint)) as order_ns,
        coalesce(
            e.sequence,
            max(e.sequence) over (
                partition by e.session_id
                order by coalesce(e.time_ns, cast(epoch_us(e.timestamp) * 1000 as ubigint)), e.event_id
                rows between unbounded preceding and current row
            ),
            -1
        ) as carried_sequence
    from session_events as e
)

select
    session_id as session_id,
    row_number() over (
        partition by session_id
        order by carried_sequence, case when sequence is null then 1 else 0 end, order_ns, event_id
    ) as place,
    event_id as event_id,
    type as type,
    split_part(type, '.', 1) as kind,
    case split_part(type, '.', 1)
        when 'model' then coalesce(model, type)
        when 'tool' then coalesce(tool_name, type)
        when 'subagent' then coalesce(agent_name, subagent_id, type)
        else type
    end as label,
    status as status,
    make_timestamp(epoch_us(timestamp) - coalesce(cast(case when duration_ms between 0 and 1e12 then duration_ms * 1000 end as bigint), 0)) as started,
    timestamp as timestamp,
    duration_ms as duration_ms,
    sequence as sequence,
    order_ns as time_ns,
    turn_id as turn_id,
    task_id as task_id,
    agent_name as agent_name,
    subagent_id as subagent_id,
    model as model,
    tool_name as tool_name,
    uncached_input_tokens as uncached_input_tokens,
    cache_read_tokens as cache_read_tokens,
    cache_write_tokens as cache_write_tokens,
    output_tokens as output_tokens,
    reasoning_tokens as reasoning_tokens,
    cost_usd as cost_usd,
    cost_state as cost_state,
    error as error,
    trace_id as trace_id,
    span_id as span_id,
    parent_span_id as parent_span_id,
    record_id as record_id
from carried
