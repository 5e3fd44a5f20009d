-- Which call each model or tool event shows, where its own ids do not already say so.
-- Reads `tangled_events`; gives the rows of `call_links` for the tangled sessions.
-- The relations take an event's call to be its request id (tool call id), else, for a span, the span, else the event.
-- This finds the events for which that is wrong: logs inside a call's span, spans inside spans, requests told twice, and
-- calls that a client tells in two ways without a common id.
with recursive told as (
    select
        session_id as session_id,
        event_id as event_id,
        type as type,
        split_part(type, '.', 1) as family,
        -- What a model asks for is told on the model's span and is no span of the tool.
        case when type = 'tool.args' then 'asked' else signal end as signal,
        signal as sent_as,
        dialect as dialect,
        trace_id as trace_id,
        span_id as span_id,
        parent_span_id as parent_span_id,
        case when split_part(type, '.', 1) = 'tool' then tool_call_id else model_request_id end as told_id,
        case when split_part(type, '.', 1) = 'tool' then coalesce(tool_name, '') else '' end as tool_name,
        type in ('model.requested', 'tool.started', 'tool.args', 'tool.progress') as opens,
        (output_tokens is not null or uncached_input_tokens is not null) as has_tokens,
        case
            when split_part(type, '.', 1) = 'tool' then tool_name
            when output_tokens is not null or uncached_input_tokens is not null
                then
                    coalesce(uncached_input_tokens, 0) + coalesce(cache_read_tokens, 0) + coalesce(cache_write_tokens, 0)
                    || ' in, ' || coalesce(output_tokens, 0) || ' out'
            when type = 'model.failed' then 'failed'
        end as mark,
        epoch_us(timestamp) as end_us,
        epoch_us(timestamp)
        - coalesce(cast(case when duration_ms between 0 and 1e12 then duration_ms * 1000 end as bigint), 0) as start_us
    from tangled_events
    where type in (
        'model.requested', 'model.completed', 'model.failed',
        'tool.started', 'tool.args', 'tool.progress', 'tool.result', 'tool.failed'
    )
),

-- Some servers draw their response ids from a few hundred numbers. Two spans with one id, of which one begins after the
-- other ended, are two calls, and then the id tells nothing.
spaced as (
    select
        session_id as session_id,
        told_id as told_id,
        start_us as start_us,
        max(end_us) over (
            partition by session_id, told_id
            order by start_us, end_us
            rows between unbounded preceding and 1 preceding
        ) as ended_us
    from told
    where family = 'model' and signal = 'span' and told_id is not null
),

reused as (
    select session_id as session_id, told_id as told_id
    from spaced
    where start_us > ended_us
    group by session_id, told_id
),

sightings as (
    select
        t.* exclude (told_id),
        t.told_id as sent_id,
        case when r.told_id is null or t.family <> 'model' then t.told_id end as told_id
    from told as t
    left join reused as r on r.session_id = t.session_id and r.told_id = t.told_id
),

call_spans as (
    select
        session_id as session_id,
        family as family,
        tool_name as tool_name,
        trace_id as trace_id,
        span_id as span_id,
        min(parent_span_id) as parent_span_id,
        min(told_id) as told_id,
        max(case when has_tokens then 1 else 0 end) as has_tokens
    from sightings
    where signal = 'span' and span_id is not null
    group by session_id, family, tool_name, trace_id, span_id
),

-- Only spans that lie inside another call's span: few, so the recursion is small.
nested as (
    select
        c.session_id as session_id,
        c.family as family,
        c.trace_id as trace_id,
        c.span_id as span_id,
        c.has_tokens as has_tokens,
        p.span_id as ancestor_id,
        p.parent_span_id as next_id,
        c.tool_name as tool_name,
        1 as height
    from call_spans as c
    inner join call_spans as p
        on p.session_id = c.session_id
        and p.family = c.family
        and p.tool_name = c.tool_name
        and p.trace_id = c.trace_id
        and p.span_id = c.parent_span_id
        and p.span_id <> c.span_id
    union all
    select
        n.session_id as session_id,
        n.family as family,
        n.trace_id as trace_id,
        n.span_id as span_id,
        n.has_tokens as has_tokens,
        p.span_id as ancestor_id,
        p.parent_span_id as next_id,
        n.tool_name as tool_name,
        n.height + 1 as height
    from nested as n
    inner join call_spans as p
        on p.session_id = n.session_id
        and p.family = n.family
        and p.tool_name = n.tool_name
        and p.trace_id = n.trace_id
        and p.span_id = n.next_id
    where n.height < 16
),

-- A parent repeats totals if a call below it tells tokens.
repeating as (
    select session_id as session_id, trace_id as trace_id, ancestor_id as span_id
    from nested
    where family = 'model' and has_tokens = 1
    group by session_id, trace_id, ancestor_id
),

-- The topmost span around each that does not repeat totals shows the same call.
tops as (
    select
        c.session_id as session_id,
        c.family as family,
        c.trace_id as trace_id,
        c.span_id as span_id,
        c.told_id as told_id,
        coalesce(arg_max(n.ancestor_id, n.height) filter (where n.ancestor_id is not null and a.span_id is null), c.span_id)
            as top_id
    from call_spans as c
    left join repeating as r on r.session_id = c.session_id and r.trace_id = c.trace_id and r.span_id = c.span_id
    left join nested as n
        on n.session_id = c.session_id and n.family = c.family and n.trace_id = c.trace_id and n.span_id = c.span_id
    left join repeating as a
        on a.session_id = n.session_id and a.trace_id = n.trace_id and a.span_id = n.ancestor_id and n.family = 'model'
    where r.span_id is null or c.family <> 'model'
    group by c.session_id, c.family, c.trace_id, c.span_id, c.told_id
),

-- A repeating parent of exactly one call is that call seen again, so its request id names the call too.
leaves_below as (
    select
        n.session_id as session_id,
        n.trace_id as trace_id,
        n.ancestor_id as span_id,
        t.top_id as top_id,
        t.told_id as told_id,
        count(*) over (partition by n.session_id, n.trace_id, n.ancestor_id) as leaves
    from (
        select distinct session_id, trace_id, ancestor_id, span_id
        from nested
        where family = 'model'
    ) as n
    inner join repeating as r
        on r.session_id = n.session_id and r.trace_id = n.trace_id and r.span_id = n.ancestor_id
    inner join tops as t
        on t.session_id = n.session_id and t.family = 'model' and t.trace_id = n.trace_id
        and t.span_id = n.span_id and t.top_id = n.span_id
),

borrowed as (
    select b.session_id as session_id, b.trace_id as trace_id, b.top_id as top_id, min(p.told_id) as told_id
    from leaves_below as b
    inner join call_spans as p
        on p.session_id = b.session_id and p.family = 'model' and p.trace_id = b.trace_id and p.span_id = b.span_id
    where b.leaves = 1
    group by b.session_id, b.trace_id, b.top_id
),

keys as (
    select
        t.session_id as session_id,
        t.family as family,
        t.trace_id as trace_id,
        t.top_id as top_id,
        coalesce(
            min(case when t.span_id = t.top_id then t.told_id end),
            min(t.told_id),
            min(case when t.family = 'model' then b.told_id end),
            'span:' || t.top_id
        ) as call_id
    from tops as t
    left join borrowed as b on b.session_id = t.session_id and b.trace_id = t.trace_id and b.top_id = t.top_id
    group by t.session_id, t.family, t.trace_id, t.top_id
),

span_calls as (
    select
        t.session_id as session_id,
        t.family as family,
        t.trace_id as trace_id,
        t.span_id as span_id,
        t.told_id as told_id,
        k.call_id as call_id,
        true as counts
    from tops as t
    inner join keys as k
        on k.session_id = t.session_id and k.family = t.family and k.trace_id = t.trace_id and k.top_id = t.top_id
    union all
    select
        b.session_id as session_id,
        'model' as family,
        b.trace_id as trace_id,
        b.span_id as span_id,
        null as told_id,
        k.call_id as call_id,
        -- Around one call, with its response id: another instrumentation's span, as good as the inner one.
        coalesce(b.leaves = 1 and p.told_id = b.told_id, false) as counts
    from leaves_below as b
    inner join keys as k
        on k.session_id = b.session_id and k.family = 'model' and k.trace_id = b.trace_id and k.top_id = b.top_id
    inner join call_spans as p
        on p.session_id = b.session_id and p.family = 'model' and p.trace_id = b.trace_id and p.span_id = b.span_id
),

-- Request ids that a span tells but that are not its call's id.
aliases as (
    select session_id as session_id, family as family, told_id as told_id, min(call_id) as call_id
    from span_calls
    where counts and told_id is not null and told_id <> call_id
    group by session_id, family, told_id
),

placed as (
    select
        s.session_id as session_id,
        s.event_id as event_id,
        s.family as family,
        s.dialect as dialect,
        s.opens as opens,
        s.signal as signal,
        s.mark as mark,
        s.start_us as start_us,
        s.end_us as end_us,
        s.told_id as told_id,
        coalesce(
            s.sent_id,
            case when s.sent_as = 'span' then 'span:' || s.span_id end,
            s.event_id
        ) as own_id,
        case
            when s.family = 'tool' and s.told_id is not null and s.signal <> 'span' then coalesce(a.call_id, s.told_id)
            else coalesce(
                c.call_id,
                a.call_id,
                case when s.told_id is null and (s.sent_id is not null or s.signal = 'asked') then s.event_id end
            )
        end as call_id,
        coalesce(c.counts, true) as counts,
        s.told_id is null and c.call_id is null and s.signal <> 'span' as bare
    from sightings as s
    left join span_calls as c
        on c.session_id = s.session_id and c.family = s.family and c.trace_id = s.trace_id and c.span_id = s.span_id
    left join aliases as a
        on a.session_id = s.session_id and a.family = s.family and a.told_id = s.told_id
),

-- A request without any id is told from the answers without any id by its place alone: each answer is that of the last
-- request before it that has none yet. Those answers are the calls; a request that is left over was never answered.
counted_requests as (
    select
        session_id as session_id,
        family as family,
        dialect as dialect,
        event_id as event_id,
        opens as opens,
        end_us as end_us,
        sum(case when opens then 1 else -1 end) over (
            partition by session_id, family, dialect order by end_us, opens desc, event_id
            rows between unbounded preceding and current row
        ) as depth
    from placed
    where bare
),

followed_requests as (
    select
        c.*,
        min(depth) over (
            partition by session_id, family, dialect order by end_us, opens desc, event_id
            rows between 1 following and unbounded following
        ) as lowest_after
    from counted_requests as c
),

answered as (
    select session_id as session_id, event_id as event_id
    from followed_requests
    where opens and lowest_after < depth
),

settled as (
    select
        p.session_id as session_id,
        p.event_id as event_id,
        p.family as family,
        p.own_id as own_id,
        p.counts as counts,
        case when w.event_id is not null then '' else coalesce(p.call_id, p.own_id) end as call_id,
        p.told_id is not null as named,
        p.mark as mark,
        p.start_us as start_us,
        p.end_us as end_us,
        case when p.signal in ('span', 'asked') then p.signal else p.signal || ' ' || coalesce(p.dialect, '') end as stream,
        p.counts and (not p.opens or p.signal = 'asked') and p.mark is not null as marked
    from placed as p
    left join answered as w on w.session_id = p.session_id and w.event_id = p.event_id
),

-- A client may tell its calls in two streams (spans, logs, a file's lines; tools also as asked for by the model) that have
-- no id in common. What both record of a call is the usage (the tool's name): the n-th call of a usage in one stream is
-- the n-th of that usage in the other, one to one, so that equal calls stay as many as one stream tells. Model calls are
-- taken for one only if they lie within a minute of each other; a tool may wait for long before it is run.
streams as (
    select
        session_id as session_id,
        family as family,
        call_id as call_id,
        stream as stream,
        max(mark) as mark,
        min(start_us) as start_us,
        min(end_us) as end_us
    from settled
    where marked and call_id <> ''
    group by session_id, family, call_id, stream
),

apart as (
    select
        s.*,
        case
            when family = 'model' and start_us > 60000000 + max(end_us) over (
                partition by session_id, family, mark
                order by start_us, end_us, call_id, stream
                rows between unbounded preceding and 1 preceding
            ) then 1
            else 0
        end as begins
    from streams as s
),

near as (
    select
        a.*,
        sum(begins) over (
            partition by session_id, family, mark
            order by start_us, end_us, call_id, stream
            rows between unbounded preceding and current row
        ) as island
    from apart as a
),

known as (
    select
        s.session_id as session_id,
        s.family as family,
        s.call_id as call_id,
        max(case when s.named then 1 else 0 end) as named,
        count(distinct case when s.marked then s.stream end) as streams
    from settled as s
    group by s.session_id, s.family, s.call_id
),

counted as (
    select
        s.session_id as session_id,
        s.family as family,
        s.call_id as call_id,
        s.stream as stream,
        s.mark as mark,
        s.island as island,
        k.named as named,
        k.streams as streams,
        row_number() over (
            partition by s.session_id, s.family, s.stream, s.mark, s.island
            order by k.streams desc, s.end_us, s.call_id
        ) as nth
    from near as s
    inner join known as k on k.session_id = s.session_id and k.family = s.family and k.call_id = s.call_id
),

matches as (
    select
        session_id as session_id,
        family as family,
        mark as mark,
        island as island,
        nth as nth,
        arg_min(call_id, row(1 - named, case when stream = 'span' then 0 else 1 end, call_id)) as call_id
    from counted
    group by session_id, family, mark, island, nth
    having count(distinct call_id) > 1
),

moved as (
    select c.session_id as session_id, c.family as family, c.call_id as was, m.call_id as call_id
    from counted as c
    inner join matches as m
        on m.session_id = c.session_id and m.family = c.family and m.mark = c.mark and m.island = c.island
        and m.nth = c.nth
    where c.named = 0 and c.streams = 1 and m.call_id <> c.call_id
)

select distinct
    s.session_id as session_id,
    s.event_id as event_id,
    coalesce(m.call_id, s.call_id) as call_id,
    s.counts as counts
from settled as s
left join moved as m on m.session_id = s.session_id and m.family = s.family and m.was = s.call_id
where coalesce(m.call_id, s.call_id) <> s.own_id or not s.counts
