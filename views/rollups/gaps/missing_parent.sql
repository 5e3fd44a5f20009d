-- Spans that others name as their parent and that never arrived.
select
    session_id as session_id,
    'missing_parent' as kind,
    parent_span_id as subject,
    min(time) as time,
    cast(1 as bigint) as missing,
    cast(count(*) as varchar) || ' spans name this span of trace ' || trace_id || ' as their parent; it never arrived'
        as detail
from touched_lineage
where parent_time is null
group by session_id, trace_id, parent_span_id
