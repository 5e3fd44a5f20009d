-- sessions: One row per session, from the roll-up that every load keeps up to date.
-- Grain: session_id.
-- Columns:
--   session_id: The session; `trace:` and a trace id where nobody names one, `unknown:` and a dialect where not even a trace is known.
--   service_name: The service that sent most of its records.
--   agent_name: The agent named first.
--   dialects: The dialects its events came in, comma-separated.
--   models: The models that were called, comma-separated.
--   status: Status of the last fact that closed a turn, task or run: `completed`, `failed` …; `unknown` when none did.
--   started: Start of its earliest work (UTC).
--   ended: Its last fact (UTC).
--   duration_ms: From `started` to `ended` in milliseconds.
--   events: Events.
--   turns: Turns.
--   model_calls: Model calls, each counted once.
--   model_calls_failed: Of these, failed.
--   tool_calls: Tool calls, each counted once.
--   tool_calls_failed: Of these, failed.
--   uncached_input_tokens: Input tokens neither read from nor written to a cache; NULL where no call tells.
--   cache_read_tokens: Input tokens read from the provider's cache.
--   cache_write_tokens: Input tokens written to the provider's cache.
--   output_tokens: Output tokens; reasoning is among them, except from Gemini clients, which count it beside them.
--   reasoning_tokens: Tokens spent on reasoning: a part of the output, except from Gemini clients, which count them beside it.
--   cost_usd: Sum of the known costs in US dollars; NULL when none is known.
--   cost_state: `reported`, `priced`, `mixed` (both), `partial` (some calls are unknown), `unknown`; NULL without model calls.
--   calls_priced: Model calls whose cost is known, reported or priced, so `cost_usd` has them.
--   costs_unknown: Completed model calls whose cost is unknown, so `cost_usd` lacks them.
--   unpriced_share: Of the calls that cost something, the share whose cost is unknown, from 0 to 1; NULL without such calls.
--   gaps: What is known to be missing: rows of `gaps`.
--   spans: Span records.
--   logs: Log and event records.
--   metric_points: Metric data points.
--   first_time: No event or record of the session is older (UTC); bounds queries on `events.timestamp` and `records.time`.
--   last_time: No event or record of the session is younger (UTC).
select
    session_id as session_id,
    service_name as service_name,
    agent_name as agent_name,
    dialects as dialects,
    models as models,
    status as status,
    started as started,
    ended as ended,
    (epoch_us(ended) - epoch_us(started)) / 1000.0 as duration_ms,
    events as events,
    turns as turns,
    model_calls as model_calls,
    model_calls_failed as model_calls_failed,
    tool_calls as tool_calls,
    tool_calls_failed as tool_calls_failed,
    uncached_input_tokens as uncached_input_tokens,
    cache_read_tokens as cache_read_tokens,
    cache_write_tokens as cache_write_tokens,
    output_tokens as output_tokens,
    reasoning_tokens as reasoning_tokens,
    cost_usd as cost_usd,
    case
        when model_calls = 0 then null
        when costs_unknown > 0 and costs_reported + costs_priced > 0 then 'partial'
        when costs_reported > 0 and costs_priced > 0 then 'mixed'
        when costs_reported > 0 then 'reported'
        when costs_priced > 0 then 'priced'
        else 'unknown'
    end as cost_state,
    costs_reported + costs_priced as calls_priced,
    costs_unknown as costs_unknown,
    costs_unknown / nullif(costs_unknown + costs_reported + costs_priced, 0) as unpriced_share,
    gaps as gaps,
    spans as spans,
    logs as logs,
    metric_points as metric_points,
    first_time as first_time,
    last_time as last_time
from session_rollup
