-- Spans of the touched sessions whose parent is not there, or began later than they did by more than a second.
-- Reads `touched_records`; gives `touched_lineage`, which the gaps `missing_parent` and `clock_skew` read.
select
    r.session_id as session_id,
    r.trace_id as trace_id,
    r.parent_span_id as parent_span_id,
    r.service_name as service_name,
    r.time as time,
    p.time as parent_time
from touched_records as r
left join touched_records as p
    on p.signal = 'span' and p.trace_id = r.trace_id and p.span_id = r.parent_span_id
where
    r.signal = 'span' and r.own and r.parent_span_id is not null
    and (p.span_id is null or epoch_us(p.time) > epoch_us(r.time) + 1000000)
