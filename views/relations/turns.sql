-- turns: One row per turn: one submitted input and all that followed from it.
-- Grain: session_id, turn_id.
-- Columns:
--   session_id: The session.
--   turn_id: The turn.
--   thread_id: The thread it belongs to.
--   agent_name: The agent that took it.
--   status: `completed`, `failed`, or `unknown` when no end was recorded.
--   started: The first fact of the turn (UTC).
--   ended: When it was completed or failed (UTC); NULL when no end was recorded.
--   last_time: The last fact of the turn (UTC).
--   events: Events that carry the turn's id.
--   model_calls: Model calls, each counted once.
--   tool_calls: Tool calls, each counted once.
--   uncached_input_tokens: Input tokens neither read from nor written to a cache; NULL where no call tells.
--   cache_read_tokens: Input tokens read from the provider's cache.
--   cache_write_tokens: Input tokens written to the provider's cache.
--   output_tokens: Output tokens; reasoning is among them, except from Gemini clients, which count it beside them.
--   reasoning_tokens: Tokens spent on reasoning: a part of the output, except from Gemini clients, which count them beside it.
--   cost_usd: Sum of the known costs in US dollars; NULL when none is known.
--   costs_unknown: Completed model calls whose cost is unknown, so `cost_usd` lacks them.
--   unpriced_share: Of the calls that cost something, the share whose cost is unknown, from 0 to 1; NULL without such calls.
with facts as (
    select
        session_id as session_id,
        turn_id as turn_id,
        max(thread_id) as thread_id,
        min(agent_name) as agent_name,
        case
            when max(case when type = 'turn.failed' then 1 else 0 end) = 1 then 'failed'
            when max(case when type = 'turn.completed' then 1 else 0 end) = 1 then 'completed'
            else 'unknown'
        end as status,
        make_timestamp(min(epoch_us(timestamp) - coalesce(cast(case when duration_ms between 0 and 1e12 then duration_ms * 1000 end as bigint), 0))) as started,
        max(case when type in ('turn.completed', 'turn.failed') then timestamp end) as ended,
        max(timestamp) as last_time,
        count(*) as events
    from session_events
    where turn_id is not null
    group by session_id, turn_id
),

models as (
    select
        session_id as session_id,
        turn_id as turn_id,
        count(*) as model_calls,
        try_cast(sum(uncached_input_tokens) as bigint) as uncached_input_tokens,
        try_cast(sum(cache_read_tokens) as bigint) as cache_read_tokens,
        try_cast(sum(cache_write_tokens) as bigint) as cache_write_tokens,
        try_cast(sum(output_tokens) as bigint) as output_tokens,
        try_cast(sum(reasoning_tokens) as bigint) as reasoning_tokens,
        sum(cost_usd) as cost_usd,
        count(case when cost_usd is null and status = 'completed' then 1 end) as costs_unknown,
        count(cost_usd) as costs_known
    from model_calls
    where turn_id is not null
    group by session_id, turn_id
),

tools as (
    select session_id as session_id, turn_id as turn_id, count(*) as tool_calls
    from tool_calls
    where turn_id is not null
    group by session_id, turn_id
)

select
    f.session_id as session_id,
    f.turn_id as turn_id,
    f.thread_id as thread_id,
    f.agent_name as agent_name,
    f.status as status,
    f.started as started,
    f.ended as ended,
    f.last_time as last_time,
    f.events as events,
    coalesce(m.model_calls, 0) as model_calls,
    coalesce(t.tool_calls, 0) as tool_calls,
    m.uncached_input_tokens as uncached_input_tokens,
    m.cache_read_tokens as cache_read_tokens,
    m.cache_write_tokens as cache_write_tokens,
    m.output_tokens as output_tokens,
    m.reasoning_tokens as reasoning_tokens,
    m.cost_usd as cost_usd,
    coalesce(m.costs_unknown, 0) as costs_unknown,
    m.costs_unknown / nullif(m.costs_unknown + m.costs_known, 0) as unpriced_share
from facts as f
left join models as m on m.session_id = f.session_id and m.turn_id = f.turn_id
left join tools as t on t.session_id = f.session_id and t.turn_id = f.turn_id
