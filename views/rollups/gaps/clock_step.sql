-- Sessions whose own count goes on while their clock goes back by more than a second. One row per session and dialect.
with followed as (
    select
        session_id as session_id,
        dialect as dialect,
        event_id as event_id,
        sequence as sequence,
        timestamp as time,
        lag(epoch_us(timestamp)) over (partition by session_id, dialect order by sequence, event_id)
        - epoch_us(timestamp) as back_us
    from touched_events
    where sequence is not null
)

select
    session_id as session_id,
    'clock_skew' as kind,
    arg_min(event_id, sequence) as subject,
    arg_min(time, sequence) as time,
    cast(null as bigint) as missing,
    'the clock goes back while the count goes on: ' || cast(count(*) as varchar) || ' times, by up to '
    || cast(max(back_us) // 1000000 as varchar) || ' s, first at number ' || cast(min(sequence) as varchar) as detail
from followed
where back_us > 1000000
group by session_id, dialect
