-- costs: What model calls used and cost, by day, model and session.
-- Grain: session_id, day, provider, model, cost_state, price_entry, price_version.
-- Each call counts once, however often it was seen. Add up over any of the columns; calls whose cost is unknown are rows of their own.
-- The share of a sum that is not in it: `sum(costs_unknown) / (sum(calls_priced) + sum(costs_unknown))`.
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
--   output_tokens: Output tokens; reasoning is among them, except from Gemini clients, which count it beside them.
--   reasoning_tokens: Tokens spent on reasoning: a part of the output, except from Gemini clients, which count them beside it.
--   cost_usd: Cost in US dollars; NULL when unknown.
--   calls_priced: Calls whose cost is known, reported or priced, so `cost_usd` has them.
--   costs_unknown: Completed calls whose cost is unknown, so `cost_usd` lacks them.
--   price_entry: The entry of the price table, or of the user's own file, that matched: a `gpt-5.1-codex` may be priced as `openai/gpt-5.1`.
--   price_version: Version of the price table, or of the user's own file, that the entry is in.
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
    cost_usd as cost_usd,
    case when cost_state = 'unknown' then 0 else calls end as calls_priced,
    costs_unknown as costs_unknown,
    price_entry as price_entry,
    price_version as price_version
from cost_rollup
