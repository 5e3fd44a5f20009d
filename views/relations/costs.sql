-- costs: What model calls used and cost, by day, model and session.
-- Grain: session_id, day, provider, model, cost_state.
-- Each call counts once, however often it was seen. Add up over any of the columns; calls whose cost is unknown are rows of their own.
-- Columns:
--   day: Day (UTC) on which the calls ended, or began where no end was recorded.
--   session_id: The session.
--   provider: Model provider.
--   model: Model.
--   cost_state: `reported` by the source, `priced` from the price table, or `unknown`.
--   calls: Model calls.
--   uncached_input_tokens: Input tokens neither read from nor written to a cache; NULL where no call tells.
--   cache_read_tokens: Input tokens read from the provider's cache.
--   cache_write_tokens: Input tokens written to the provider's cache.
--   output_tokens: Output tokens, reasoning included.
--   reasoning_tokens: Of the output, tokens spent on reasoning.
--   cost_usd: Cost in US dollars; NULL when unknown.
select
    day as day,
    session_id as session_id,
    provider as provider,
    model as model,
    cost_state as cost_state,
    calls as calls,
    uncached_input_tokens as uncached_input_tokens,
    cache_read_tokens as cache_read_tokens,
    cache_write_tokens as cache_write_tokens,
    output_tokens as output_tokens,
    reasoning_tokens as reasoning_tokens,
    cost_usd as cost_usd
from cost_rollup
