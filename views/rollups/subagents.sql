-- The child agents of the touched sessions and who made each, by recorded ids only.
-- Reads `touched_events` and `touched_records`; gives `touched_subagents`, the rows of `subagent_rollup`.
-- A child is known by its own id, or, where agents run inside one program, by its span. Its maker is the agent that it
-- names, else the thread that it names, else the agent whose tool call made it, else, where nothing is recorded, the
-- session's main agent.
with recursive told as (
    select
        session_id as session_id,
        event_id as event_id,
        type as type,
        split_part(type, '.', 1) as family,
        signal as signal,
        subagent_id as subagent_id,
        agent_name as agent_name,
        tool_call_id as tool_call_id,
        trace_id as trace_id,
        span_id as span_id,
        parent_span_id as parent_span_id,
        timestamp as timestamp,
        epoch_us(timestamp)
        - coalesce(cast(case when duration_ms between 0 and 1e12 then duration_ms * 1000 end as bigint), 0) as start_us,
        payload ->> '$.parent_subagent_id' as parent_subagent_id,
        payload ->> '$.parent_thread_id' as parent_thread_id
    from touched_events
    where subagent_id is not null or type like 'subagent.%'
),

-- A client may tell the id on the child's own spans only. They lie in the span of the call that made the child.
around as (
    select
        session_id as session_id,
        trace_id as trace_id,
        parent_span_id as span_id,
        min(subagent_id) as subagent_id
    from told
    where signal = 'span' and subagent_id is not null and parent_span_id is not null
    group by session_id, trace_id, parent_span_id
    having count(distinct subagent_id) = 1
),

named as (
    select
        t.* exclude (subagent_id),
        coalesce(t.subagent_id, a.subagent_id, t.event_id) as subagent_id
    from told as t
    left join around as a
        on a.session_id = t.session_id and a.trace_id = t.trace_id and a.span_id = t.span_id and t.subagent_id is null
),

tools as (
    select
        session_id as session_id,
        tool_call_id as tool_call_id,
        trace_id as trace_id,
        case when signal = 'span' then span_id end as span_id,
        subagent_id as subagent_id
    from touched_events
    where type like 'tool.%' and tool_call_id is not null and session_id in (select session_id from told)
),

called as (
    select session_id as session_id, subagent_id as subagent_id, min(tool_call_id) as tool_call_id
    from (
        select session_id, subagent_id, tool_call_id
        from named
        where family = 'subagent' and tool_call_id is not null
        union all
        select a.session_id, a.subagent_id, t.tool_call_id
        from around as a
        inner join tools as t
            on t.session_id = a.session_id and t.trace_id = a.trace_id and t.span_id = a.span_id
            and t.subagent_id is distinct from a.subagent_id
    ) as each
    group by session_id, subagent_id
),

makers as (
    select session_id as session_id, tool_call_id as tool_call_id, max(subagent_id) as subagent_id
    from tools
    where (session_id, tool_call_id) in (select (session_id, tool_call_id) from called)
    group by session_id, tool_call_id
),

-- What only the main agent does, or did without being named.
mains as (
    select distinct session_id as session_id
    from touched_events
    where
        subagent_id is null
        and session_id in (select session_id from told)
        and (
            split_part(type, '.', 1) in ('session', 'turn', 'task')
            or (split_part(type, '.', 1) in ('model', 'tool') and agent_name is null)
        )
),

threads as (
    select distinct session_id as session_id, thread_id as thread_id
    from touched_events
    where thread_id is not null and session_id in (select session_id from told)
),

children as (
    select
        session_id as session_id,
        subagent_id as subagent_id,
        coalesce(max(case when family = 'subagent' then agent_name end), max(agent_name)) as agent_name,
        max(parent_subagent_id) as parent_subagent_id,
        max(case when parent_thread_id <> subagent_id then parent_thread_id end) as parent_thread_id,
        case
            when max(case when type = 'subagent.failed' then 1 else 0 end) = 1 then 'failed'
            when max(case when type in ('subagent.completed', 'subagent.closed') then 1 else 0 end) = 1 then 'completed'
            else 'unknown'
        end as status,
        make_timestamp(min(start_us)) as started,
        max(case when type in ('subagent.completed', 'subagent.failed', 'subagent.closed') then timestamp end) as ended,
        count(*) as events
    from named
    group by session_id, subagent_id
),

attached as (
    select
        c.session_id as session_id,
        c.subagent_id as subagent_id,
        c.agent_name as agent_name,
        coalesce(c.parent_subagent_id, case when m.subagent_id <> c.subagent_id then m.subagent_id end)
            as parent_subagent_id,
        case when t.thread_id is null and c.parent_thread_id <> c.session_id then c.parent_thread_id end
            as parent_session_id,
        k.tool_call_id as tool_call_id,
        case
            when c.parent_subagent_id is not null then case when p.subagent_id is null then c.parent_subagent_id end
            when c.parent_thread_id is not null then null
            when k.tool_call_id is not null then case when m.tool_call_id is null then k.tool_call_id end
            when a.session_id is null then c.session_id
        end as missing_parent,
        c.status as status,
        c.started as started,
        c.ended as ended,
        c.events as events
    from children as c
    left join children as p on p.session_id = c.session_id and p.subagent_id = c.parent_subagent_id
    left join called as k on k.session_id = c.session_id and k.subagent_id = c.subagent_id
    left join makers as m on m.session_id = k.session_id and m.tool_call_id = k.tool_call_id
    left join threads as t on t.session_id = c.session_id and t.thread_id = c.parent_thread_id
    left join mains as a on a.session_id = c.session_id
),

-- Agents that run inside one program: the span of a run that lies, however deep, inside the span of another's.
runs as (
    select
        session_id as session_id,
        trace_id as trace_id,
        span_id as span_id,
        parent_span_id as parent_span_id,
        dialect as dialect,
        agent_name as agent_name,
        status as status,
        timestamp as timestamp,
        epoch_us(timestamp)
        - coalesce(cast(case when duration_ms between 0 and 1e12 then duration_ms * 1000 end as bigint), 0) as start_us
    from touched_events
    where
        type = 'run.status' and signal = 'span' and agent_name is not null and span_id is not null
        and payload ->> '$.phase' in ('invoke_agent', 'agent')
),

spans as (
    select
        session_id as session_id,
        trace_id as trace_id,
        span_id as span_id,
        min(parent_span_id) as parent_span_id
    from touched_records
    where signal = 'span' and trace_id in (select trace_id from runs where parent_span_id is not null)
    group by session_id, trace_id, span_id
),

climbing as (
    select
        session_id as session_id,
        trace_id as trace_id,
        span_id as span_id,
        dialect as dialect,
        parent_span_id as above_id,
        1 as height
    from runs
    where parent_span_id is not null
    union all
    select
        c.session_id as session_id,
        c.trace_id as trace_id,
        c.span_id as span_id,
        c.dialect as dialect,
        s.parent_span_id as above_id,
        c.height + 1 as height
    from climbing as c
    inner join spans as s on s.session_id = c.session_id and s.trace_id = c.trace_id and s.span_id = c.above_id
    left join runs as r
        on r.session_id = c.session_id and r.trace_id = c.trace_id and r.span_id = c.above_id and r.dialect = c.dialect
    where r.span_id is null and s.parent_span_id is not null and c.height < 64
),

reached as (
    select
        c.session_id as session_id,
        c.trace_id as trace_id,
        c.span_id as span_id,
        max(r.span_id) as maker_id,
        max(case when s.span_id is null then c.above_id end) as missing_id,
        arg_min(t.tool_call_id, c.height) filter (where t.tool_call_id is not null) as tool_call_id
    from climbing as c
    left join spans as s on s.session_id = c.session_id and s.trace_id = c.trace_id and s.span_id = c.above_id
    left join runs as r
        on r.session_id = c.session_id and r.trace_id = c.trace_id and r.span_id = c.above_id and r.dialect = c.dialect
    left join touched_events as t
        on t.session_id = c.session_id and t.trace_id = c.trace_id and t.span_id = c.above_id
        and t.type in ('tool.result', 'tool.failed')
    group by c.session_id, c.trace_id, c.span_id
    having max(r.span_id) is not null or max(case when s.span_id is null then 1 else 0 end) = 1
),

inner_runs as (
    select
        r.session_id as session_id,
        'span:' || r.span_id as subagent_id,
        max(r.agent_name) as agent_name,
        max(case when p.span_id is not null then 'span:' || p.span_id end) as parent_subagent_id,
        cast(null as varchar) as parent_session_id,
        max(f.tool_call_id) as tool_call_id,
        max(case when f.maker_id is null then 'span:' || f.missing_id end) as missing_parent,
        max(r.status) as status,
        make_timestamp(min(r.start_us)) as started,
        max(r.timestamp) as ended,
        count(*) as events
    from reached as f
    inner join runs as r on r.session_id = f.session_id and r.trace_id = f.trace_id and r.span_id = f.span_id
    left join reached as p on p.session_id = f.session_id and p.trace_id = f.trace_id and p.span_id = f.maker_id
    group by r.session_id, r.span_id
)

select * from attached
union all
select * from inner_runs
