-- Numbers of a session's own count that never arrived.
with numbered as (
    select session_id as session_id, dialect as dialect, sequence as sequence, min(timestamp) as time
    from touched_events
    where sequence is not null
    group by session_id, dialect, sequence
),

followed as (
    select
        session_id as session_id,
        sequence as sequence,
        time as time,
        coalesce(lag(sequence) over (partition by session_id, dialect order by sequence), 0) as previous
    from numbered
)

select
    session_id as session_id,
    'sequence_hole' as kind,
    cast(previous + 1 as varchar) as subject,
    time as time,
    cast(sequence - previous - 1 as bigint) as missing,
    'numbers ' || cast(previous + 1 as varchar) || ' to ' || cast(sequence - 1 as varchar) || ' never arrived' as detail
from followed
where sequence - previous > 1
