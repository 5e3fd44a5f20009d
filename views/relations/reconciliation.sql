-- reconciliation: What each source says a session used and cost, beside what is counted: one row per session and source.
-- Grain: session_id, source.
-- Sources are never averaged and never added up: `model_calls` counts each call once, and the differences here say what
-- a source lacks or has beyond that. A source that does not tell a number has NULL there and no difference.
-- Metrics are a client's own totals (delta points are added up, of a cumulative series the last counts). Parents that
-- repeat the totals of calls below them are a source of their own, with ` totals` behind its name.
-- Columns:
--   session_id: The session.
--   source: The dialect and the signal, for example `claude_code log`, `claude_code metric` or `gen_ai span totals`.
--   calls: Model calls it shows; NULL for metrics.
--   uncached_input_tokens: Input tokens neither read from nor written to a cache, as this source tells them.
--   cache_read_tokens: Input tokens read from the provider's cache, as this source tells them.
--   cache_write_tokens: Input tokens written to the provider's cache, as this source tells them.
--   output_tokens: Output tokens, as this source tells them.
--   reasoning_tokens: Tokens spent on reasoning, as this source tells them.
--   reported_cost_usd: Cost in US dollars as the source itself reports it; NULL where it reports none.
--   costs_unreported: Model calls it shows without a cost of its own, so `reported_cost_usd` lacks them; NULL for metrics.
--   calls_difference: `calls` less the calls counted.
--   uncached_input_difference: `uncached_input_tokens` less those counted.
--   cache_read_difference: `cache_read_tokens` less those counted.
--   cache_write_difference: `cache_write_tokens` less those counted.
--   output_difference: `output_tokens` less those counted.
--   reasoning_difference: `reasoning_tokens` less those counted.
--   cost_difference_usd: `reported_cost_usd` less the cost counted; NULL while any counted call's cost is unknown.
--   counted_cost_usd: Sum of the known costs counted, in US dollars; NULL when none is known.
--   counted_costs_unknown: Completed calls counted whose cost is unknown, so `counted_cost_usd` lacks them.
with seen as (
    select distinct
        session_id as session_id,
        case when counts then call_id else event_id end as call_id,
        source || case when counts then '' else ' totals' end as source,
        uncached_input_tokens as uncached_input_tokens,
        cache_read_tokens as cache_read_tokens,
        cache_write_tokens as cache_write_tokens,
        output_tokens as output_tokens,
        reasoning_tokens as reasoning_tokens,
        case when cost_state = 'reported' then cost_usd end as cost_usd
    from call_sightings
    where type <> 'model.requested'
),

per_call as (
    select
        session_id as session_id,
        source as source,
        call_id as call_id,
        max(uncached_input_tokens) as uncached_input_tokens,
        max(cache_read_tokens) as cache_read_tokens,
        max(cache_write_tokens) as cache_write_tokens,
        max(output_tokens) as output_tokens,
        max(reasoning_tokens) as reasoning_tokens,
        max(cost_usd) as cost_usd
    from seen
    group by session_id, source, call_id
),

points as (
    select
        session_key as session_id,
        dialect as dialect,
        name as name,
        coalesce(attributes ->> '$.type', 'cost') as kind,
        cast(attributes as varchar) as series,
        point ->> '$.start_ns' as start_ns,
        value as value,
        point ->> '$.temporality' as temporality
    from records
    where
        signal = 'metric'
        and session_key is not null
        and name in ('claude_code.token.usage', 'claude_code.cost.usage', 'gemini_cli.token.usage')
),

series as (
    select
        session_id as session_id,
        dialect as dialect,
        name as name,
        kind as kind,
        case when max(temporality) = 'cumulative' then max(value) else sum(value) end as value
    from points
    group by session_id, dialect, name, kind, series, case when temporality = 'cumulative' then start_ns end
),

metrics as (
    select
        session_id as session_id,
        coalesce(dialect, 'unknown') || ' metric' as source,
        max(case when name like 'gemini%' then 1 else 0 end) as includes_cache,
        cast(sum(case when kind = 'input' then value end) as bigint) as input_tokens,
        cast(sum(case when kind in ('cacheRead', 'cache') then value end) as bigint) as cache_read_tokens,
        cast(sum(case when kind = 'cacheCreation' then value end) as bigint) as cache_write_tokens,
        cast(sum(case when kind = 'output' then value end) as bigint) as output_tokens,
        cast(sum(case when kind = 'thought' then value end) as bigint) as reasoning_tokens,
        round(sum(case when name = 'claude_code.cost.usage' then value end), 10) as cost_usd
    from series
    group by session_id, coalesce(dialect, 'unknown')
),

sources as (
    select
        session_id as session_id,
        source as source,
        count(*) as calls,
        cast(sum(uncached_input_tokens) as bigint) as uncached_input_tokens,
        cast(sum(cache_read_tokens) as bigint) as cache_read_tokens,
        cast(sum(cache_write_tokens) as bigint) as cache_write_tokens,
        cast(sum(output_tokens) as bigint) as output_tokens,
        cast(sum(reasoning_tokens) as bigint) as reasoning_tokens,
        round(sum(cost_usd), 10) as cost_usd,
        count(case when cost_usd is null then 1 end) as costs_unreported
    from per_call
    group by session_id, source
    union all
    select
        session_id as session_id,
        source as source,
        null as calls,
        case when includes_cache = 1 then input_tokens - coalesce(cache_read_tokens, 0) else input_tokens end
            as uncached_input_tokens,
        cache_read_tokens as cache_read_tokens,
        cache_write_tokens as cache_write_tokens,
        output_tokens as output_tokens,
        reasoning_tokens as reasoning_tokens,
        cost_usd as cost_usd,
        null as costs_unreported
    from metrics
),

counted as (
    select
        session_id as session_id,
        count(*) as calls,
        cast(sum(uncached_input_tokens) as bigint) as uncached_input_tokens,
        cast(sum(cache_read_tokens) as bigint) as cache_read_tokens,
        cast(sum(cache_write_tokens) as bigint) as cache_write_tokens,
        cast(sum(output_tokens) as bigint) as output_tokens,
        cast(sum(reasoning_tokens) as bigint) as reasoning_tokens,
        round(sum(cost_usd), 10) as cost_usd,
        count(case when cost_usd is null and status = 'completed' then 1 end) as costs_unknown
    from model_calls
    where status <> 'unknown'
    group by session_id
)

select
    s.session_id as session_id,
    s.source as source,
    s.calls as calls,
    s.uncached_input_tokens as uncached_input_tokens,
    s.cache_read_tokens as cache_read_tokens,
    s.cache_write_tokens as cache_write_tokens,
    s.output_tokens as output_tokens,
    s.reasoning_tokens as reasoning_tokens,
    s.cost_usd as reported_cost_usd,
    s.costs_unreported as costs_unreported,
    s.calls - c.calls as calls_difference,
    s.uncached_input_tokens - c.uncached_input_tokens as uncached_input_difference,
    s.cache_read_tokens - c.cache_read_tokens as cache_read_difference,
    s.cache_write_tokens - c.cache_write_tokens as cache_write_difference,
    s.output_tokens - c.output_tokens as output_difference,
    s.reasoning_tokens - c.reasoning_tokens as reasoning_difference,
    case when c.costs_unknown = 0 then round(s.cost_usd - c.cost_usd, 10) + 0.0 end as cost_difference_usd,
    c.cost_usd as counted_cost_usd,
    c.costs_unknown as counted_costs_unknown
from sources as s
left join counted as c on c.session_id = s.session_id
