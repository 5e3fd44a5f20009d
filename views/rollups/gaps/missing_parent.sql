-- Spans that others name as their parent and that never arrived.
select
    r.session_id as session_id,
    'missing_parent' as kind,
    r.parent_span_id as subject,
    min(r.time) as time,
    cast(1 as bigint) as missing,
    cast(count(*) as varchar) || ' spans name this span of trace ' || r.trace_id || ' as their parent; it never arrived'
        as detail
from touched_records as r
left join touched_records as p
    on p.signal = 'span' and p.trace_id = r.trace_id and p.span_id = r.parent_span_id
where r.signal = 'span' and r.own and r.parent_span_id is not null and p.span_id is null
group by r.session_id, r.trace_id, r.parent_span_id
