-- Use and cost of the touched sessions by day, provider, model, how the cost is known and the entry that gave it.
-- Reads `touched_calls` (rows of `model_calls`); gives the rows of `cost_rollup`.
select
    session_id as session_id,
    cast(coalesce(ended, started) as date) as day,
    provider as provider,
    model as model,
    cost_state as cost_state,
    count(*) as calls,
    try_cast(sum(uncached_input_tokens) as bigint) as uncached_input_tokens,
    try_cast(sum(cache_read_tokens) as bigint) as cache_read_tokens,
    try_cast(sum(cache_write_tokens) as bigint) as cache_write_tokens,
    try_cast(sum(output_tokens) as bigint) as output_tokens,
    try_cast(sum(reasoning_tokens) as bigint) as reasoning_tokens,
    round(sum(cost_usd), 10) as cost_usd,
    count(case when cost_usd is null and status = 'completed' then 1 end) as costs_unknown,
    price_entry as price_entry,
    price_version as price_version
from touched_calls
group by
    session_id, cast(coalesce(ended, started) as date), provider, model, cost_state, price_entry, price_version
