-- The model calls of sessions in which every model event is a call of its own: the same as `model_calls`, without the search.
-- Reads `touched_events` and `tangled`.
select
    session_id as session_id,
    case type when 'model.completed' then 'completed' when 'model.failed' then 'failed' else 'unknown' end as status,
    provider as provider,
    model as model,
    make_timestamp(epoch_us(timestamp) - coalesce(cast(case when duration_ms between 0 and 1e12 then duration_ms * 1000 end as bigint), 0)) as started,
    case when type <> 'model.requested' then timestamp end as ended,
    uncached_input_tokens as uncached_input_tokens,
    cache_read_tokens as cache_read_tokens,
    cache_write_tokens as cache_write_tokens,
    output_tokens as output_tokens,
    reasoning_tokens as reasoning_tokens,
    cost_usd as cost_usd,
    coalesce(cost_state, 'unknown') as cost_state,
    price_entry as price_entry,
    price_version as price_version
from touched_events
where
    type in ('model.requested', 'model.completed', 'model.failed')
    and session_id not in (select session_id from tangled)
