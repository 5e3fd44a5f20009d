-- Sessions of which metrics came, but no log record or span.
select
    session_id as session_id,
    'metrics_only' as kind,
    session_id as subject,
    min(time) as time,
    cast(null as bigint) as missing,
    cast(count(*) as varchar) || ' metric points came, but no log record or span' as detail
from touched_records
where own
group by session_id
having count(case when signal <> 'metric' then 1 end) = 0
