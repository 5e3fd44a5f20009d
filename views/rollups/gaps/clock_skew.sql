-- Services whose clocks cannot be right: what they recorded is impossible in time. One row per service.
with signs as (
    select
        session_id as session_id,
        coalesce(service_name, 'unknown') as service,
        time as time,
        'spans begin before their parents, by up to '
        || cast(max((epoch_us(parent_time) - epoch_us(time)) // 1000000) over (partition by session_id, service_name) as varchar)
        || ' s' as sign
    from touched_lineage
    where parent_time is not null
    union all
    select
        session_id as session_id,
        coalesce(service_name, 'unknown') as service,
        time as time,
        case
            when end_ns < time_ns then 'spans end before they begin; how long they took is unknown'
            when epoch_us(time) < 946684800000000 then 'records are dated before the year 2000'
            else 'records are dated later than they were received'
        end as sign
    from touched_records
    where
        own
        and (
            end_ns < time_ns
            or epoch_us(time) not between 946684800000000 and epoch_us(received) + 60000000
        )
),

counted as (
    select
        session_id as session_id,
        service as service,
        min(time) as time,
        cast(count(*) as varchar) || ' ' || sign as sign
    from signs
    group by session_id, service, sign
)

select
    session_id as session_id,
    'clock_skew' as kind,
    'service:' || service as subject,
    min(time) as time,
    cast(null as bigint) as missing,
    string_agg(sign, '; ' order by sign) as detail
from counted
group by session_id, service
