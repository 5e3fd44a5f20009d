-- model_calls: One row per model call, however often it was seen.
-- Grain: session_id, call_id.
-- A call may be seen as a span, as log events and by two instrumentations, one inside the other. Sightings are joined by
-- recorded ids (request or response id, span, parent span; see `call_links`), or, where a client gives its two streams no
-- common id, by the usage that both record, one to one and within a minute of each other. A parent that repeats the totals of calls
-- below it is listed as a sighting and not counted. Each sighting's own numbers are in `call_sightings`, which also says
-- which one is taken; they are never averaged.
-- Columns:
--   session_id: The session.
--   call_id: Stable id of the call: its request or response id, else its span, else its event.
--   turn_id: The turn it belongs to.
--   task_id: The task it belongs to.
--   run_id: The run it belongs to.
--   agent_name: The agent that called.
--   subagent_id: The child agent that called, as its client names it; NULL for the main agent or where not told.
--   provider: Model provider.
--   model: Model that answered, else the one asked for.
--   status: `completed`, `failed`, or `unknown` when no end was recorded.
--   error: Error type of a failed call.
--   started: When it began (UTC); the time of its request if the duration is not known.
--   ended: When it ended (UTC); NULL when no end was recorded.
--   duration_ms: Wall time in milliseconds.
--   uncached_input_tokens: Input tokens neither read from nor written to a cache; NULL where the source does not tell.
--   cache_read_tokens: Input tokens read from the provider's cache.
--   cache_write_tokens: Input tokens written to the provider's cache.
--   output_tokens: Output tokens; reasoning is among them, except from Gemini clients, which count it beside them.
--   reasoning_tokens: Tokens spent on reasoning: a part of the output, except from Gemini clients, which count them beside it.
--   cost_usd: Cost in US dollars; NULL when unknown.
--   cost_state: `reported` by the source, `priced` from the price table, or `unknown`.
--   price_entry: The entry of the price table, or of the user's own file, that matched: a `gpt-5.1-codex` may be priced as `openai/gpt-5.1`.
--   price_version: Version of the price table, or of the user's own file, that the entry is in.
--   trace_id: Its trace.
--   span_id: The span that shows it best.
--   sightings: Ids of the events that show it, the best first.
with sightings as (
    select
        e.session_id as session_id,
        coalesce(
            l.call_id,
            e.model_request_id,
            case when e.signal = 'span' then 'span:' || e.span_id end,
            e.event_id
        ) as call_id,
        coalesce(l.counts, true) as counts,
        e.event_id as event_id,
        e.type as type,
        e.timestamp as timestamp,
        e.turn_id as turn_id,
        e.task_id as task_id,
        e.run_id as run_id,
        e.agent_name as agent_name,
        e.subagent_id as subagent_id,
        e.provider as provider,
        e.model as model,
        e.error as error,
        e.duration_ms as duration_ms,
        e.uncached_input_tokens as uncached_input_tokens,
        e.cache_read_tokens as cache_read_tokens,
        e.cache_write_tokens as cache_write_tokens,
        e.output_tokens as output_tokens,
        e.reasoning_tokens as reasoning_tokens,
        e.cost_usd as cost_usd,
        e.cost_state as cost_state,
        e.price_entry as price_entry,
        e.price_version as price_version,
        e.trace_id as trace_id,
        e.span_id as span_id,
        case when coalesce(l.counts, true) then 0 else 256 end
        + case when e.output_tokens is null and e.uncached_input_tokens is null then 128 else 0 end
        + case e.cost_state when 'reported' then 0 when 'priced' then 32 else 64 end
        + case when e.cache_read_tokens is null then 16 else 0 end
        + case when e.cache_write_tokens is null then 8 else 0 end
        + case when e.reasoning_tokens is null then 4 else 0 end
        + case when e.signal = 'span' then 0 else 2 end
        + case when e.type = 'model.requested' then 1 else 0 end as poverty
    from session_events as e
    left join call_links as l on l.session_id = e.session_id and l.event_id = e.event_id
    where e.type in ('model.requested', 'model.completed', 'model.failed')
),

ranked as (
    select
        s.*,
        -- Of an answer that was written down while it came, the sighting with the most output is the whole one.
        row_number() over (
            partition by s.session_id, s.call_id order by s.poverty, coalesce(s.output_tokens, -1) desc, s.event_id
        ) as place
    from sightings as s
    where s.call_id <> ''
)

select
    session_id as session_id,
    call_id as call_id,
    coalesce(max(case when place = 1 then turn_id end), max(turn_id)) as turn_id,
    coalesce(max(case when place = 1 then task_id end), max(task_id)) as task_id,
    coalesce(max(case when place = 1 then run_id end), max(run_id)) as run_id,
    coalesce(max(case when place = 1 then agent_name end), max(agent_name)) as agent_name,
    max(subagent_id) as subagent_id,
    coalesce(max(case when place = 1 then provider end), max(provider)) as provider,
    coalesce(max(case when place = 1 then model end), max(model)) as model,
    case
        when max(case when counts and type = 'model.completed' then 1 else 0 end) = 1 then 'completed'
        when max(case when counts and type = 'model.failed' then 1 else 0 end) = 1 then 'failed'
        else 'unknown'
    end as status,
    case
        when max(case when counts and type = 'model.completed' then 1 else 0 end) = 0
            then max(case when counts then error end)
    end as error,
    make_timestamp(min(case when counts then epoch_us(timestamp) - coalesce(cast(case when duration_ms between 0 and 1e12 then duration_ms * 1000 end as bigint), 0) end))
        as started,
    max(case when counts and type <> 'model.requested' then timestamp end) as ended,
    coalesce(max(case when place = 1 then duration_ms end), max(case when counts then duration_ms end)) as duration_ms,
    max(case when place = 1 then uncached_input_tokens end) as uncached_input_tokens,
    max(case when place = 1 then cache_read_tokens end) as cache_read_tokens,
    max(case when place = 1 then cache_write_tokens end) as cache_write_tokens,
    max(case when place = 1 then output_tokens end) as output_tokens,
    max(case when place = 1 then reasoning_tokens end) as reasoning_tokens,
    max(case when place = 1 then cost_usd end) as cost_usd,
    coalesce(max(case when place = 1 then cost_state end), 'unknown') as cost_state,
    max(case when place = 1 then price_entry end) as price_entry,
    max(case when place = 1 then price_version end) as price_version,
    coalesce(max(case when place = 1 then trace_id end), max(trace_id)) as trace_id,
    coalesce(max(case when place = 1 then span_id end), max(span_id)) as span_id,
    list(event_id order by place) as sightings
from ranked
group by session_id, call_id
