-- call_sightings: One row per sighting of a model call: each record that tells of it, and what that record says.
-- Grain: session_id, call_id, event_id.
-- `model_calls` takes the tokens and the cost of a call from one sighting, the first by: it counts (no parent's repeated
-- total), tells tokens, has a cost that the source reported rather than one priced by us, tells cached tokens, tells
-- reasoning tokens, is a span. The others are here, and where they disagree `reconciliation` shows it.
-- Columns:
--   session_id: The session.
--   call_id: The call it shows, as in `model_calls`.
--   event_id: The event made of the record.
--   record_id: The record.
--   source: Who tells it and how: the dialect and the signal, for example `claude_code log`.
--   type: `model.completed`, `model.failed`, or `model.requested`.
--   counts: False for a parent that repeats the totals of calls below it.
--   timestamp: When it was told to be true (UTC).
--   model: Model.
--   uncached_input_tokens: Input tokens neither read from nor written to a cache; NULL where the source does not tell.
--   cache_read_tokens: Input tokens read from the provider's cache.
--   cache_write_tokens: Input tokens written to the provider's cache.
--   output_tokens: Output tokens; reasoning is among them, except from Gemini clients, which count it beside them.
--   reasoning_tokens: Tokens spent on reasoning: a part of the output, except from Gemini clients, which count them beside it.
--   cost_usd: Cost in US dollars; NULL when unknown.
--   cost_state: `reported` by the source, `priced` from the price table, or `unknown`.
select
    e.session_id as session_id,
    coalesce(
        l.call_id,
        e.model_request_id,
        case when e.signal = 'span' then 'span:' || e.span_id end,
        e.event_id
    ) as call_id,
    e.event_id as event_id,
    e.record_id as record_id,
    coalesce(e.dialect, 'unknown') || ' ' || coalesce(e.signal, 'event') as source,
    e.type as type,
    coalesce(l.counts, true) as counts,
    e.timestamp as timestamp,
    e.model as model,
    e.uncached_input_tokens as uncached_input_tokens,
    e.cache_read_tokens as cache_read_tokens,
    e.cache_write_tokens as cache_write_tokens,
    e.output_tokens as output_tokens,
    e.reasoning_tokens as reasoning_tokens,
    e.cost_usd as cost_usd,
    coalesce(e.cost_state, 'unknown') as cost_state
from session_events as e
left join call_links as l on l.session_id = e.session_id and l.event_id = e.event_id
where
    e.type in ('model.requested', 'model.completed', 'model.failed')
    and coalesce(l.call_id, 'its own') <> ''
