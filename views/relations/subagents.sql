-- subagents: One row per child agent, with the agent that made it.
-- Grain: session_id, subagent_id.
-- Children are attached by recorded ids only: the agent or thread that a child names, the tool call that made it, or, for
-- agents inside one program, the span of the run around its own. A child whose maker never arrived is an `orphan`, until
-- it arrives. Follow `parent_session_id` and `parent_subagent_id` for the tree; both are NULL below the main agent.
-- Columns:
--   session_id: The session it ran in; a client whose children are threads of their own gives each a session.
--   subagent_id: The child, as its client names it; `span:` and the span of its run, or the event that tells of it, where it has no id.
--   agent_name: What sort of agent it is.
--   parent_session_id: The session of the agent that made it, if that is another one.
--   parent_subagent_id: The child agent that made it; NULL if the main agent did.
--   tool_call_id: The call by which it was made; see `tool_calls`.
--   parent_state: `attached` if what made it was seen, else `orphan`.
--   missing_parent: What an orphan names and never arrived: an agent, a session, a call or a span; the session itself if its main agent was never seen.
--   status: `completed`, `failed`, or `unknown` when no end was recorded.
--   started: Its first fact, less the fact's duration (UTC).
--   ended: When it was completed or failed (UTC); NULL when no end was recorded.
--   events: Events that name it.
--   model_calls: Model calls that name it, each counted once; NULL, like all that follows, where none does.
--   tool_calls: Tool calls that name it, each counted once.
--   uncached_input_tokens: Input tokens neither read from nor written to a cache.
--   cache_read_tokens: Input tokens read from the provider's cache.
--   cache_write_tokens: Input tokens written to the provider's cache.
--   output_tokens: Output tokens; reasoning is among them, except from Gemini clients, which count it beside them.
--   reasoning_tokens: Tokens spent on reasoning: a part of the output, except from Gemini clients, which count them beside it.
--   cost_usd: Sum of the known costs in US dollars; NULL when none is known.
--   costs_unknown: Completed model calls whose cost is unknown, so `cost_usd` lacks them.
with models as (
    select
        session_id as session_id,
        subagent_id as subagent_id,
        count(*) as model_calls,
        try_cast(sum(uncached_input_tokens) as bigint) as uncached_input_tokens,
        try_cast(sum(cache_read_tokens) as bigint) as cache_read_tokens,
        try_cast(sum(cache_write_tokens) as bigint) as cache_write_tokens,
        try_cast(sum(output_tokens) as bigint) as output_tokens,
        try_cast(sum(reasoning_tokens) as bigint) as reasoning_tokens,
        sum(cost_usd) as cost_usd,
        count(case when cost_usd is null and status = 'completed' then 1 end) as costs_unknown
    from model_calls
    where subagent_id is not null
    group by session_id, subagent_id
),

tools as (
    select session_id as session_id, subagent_id as subagent_id, count(*) as tool_calls
    from tool_calls
    where subagent_id is not null
    group by session_id, subagent_id
)

select
    s.session_id as session_id,
    s.subagent_id as subagent_id,
    coalesce(s.agent_name, p.agent_name) as agent_name,
    s.parent_session_id as parent_session_id,
    coalesce(s.parent_subagent_id, p.parent_subagent_id) as parent_subagent_id,
    coalesce(s.tool_call_id, p.tool_call_id) as tool_call_id,
    case
        when s.missing_parent is not null or (s.parent_session_id is not null and r.session_id is null) then 'orphan'
        else 'attached'
    end as parent_state,
    coalesce(s.missing_parent, case when r.session_id is null then s.parent_session_id end) as missing_parent,
    case when s.status = 'unknown' then coalesce(p.status, 'unknown') else s.status end as status,
    s.started as started,
    coalesce(s.ended, p.ended) as ended,
    s.events as events,
    m.model_calls as model_calls,
    t.tool_calls as tool_calls,
    m.uncached_input_tokens as uncached_input_tokens,
    m.cache_read_tokens as cache_read_tokens,
    m.cache_write_tokens as cache_write_tokens,
    m.output_tokens as output_tokens,
    m.reasoning_tokens as reasoning_tokens,
    m.cost_usd as cost_usd,
    m.costs_unknown as costs_unknown
from subagent_rollup as s
left join session_rollup as r on r.session_id = s.parent_session_id
-- A child with a session of its own may be told of in its maker's session too: that is the same child.
left join subagent_rollup as p
    on p.subagent_id = s.subagent_id and p.session_id = s.parent_session_id and s.session_id = s.subagent_id
left join subagent_rollup as o
    on o.subagent_id = s.subagent_id and o.session_id = s.subagent_id and o.parent_session_id = s.session_id
left join models as m on m.session_id = s.session_id and m.subagent_id = s.subagent_id
left join tools as t on t.session_id = s.session_id and t.subagent_id = s.subagent_id
where o.session_id is null
