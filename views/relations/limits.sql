-- limits: Where providers' windows, quotas and budgets stood: one row each time somebody told, with the burn rate and the spend beside it.
-- Grain: event_id.
-- Told by session files (Codex), by rate-limit headers (our runtime, gateways such as LiteLLM, captured HTTP headers) and by
-- facts such as a refused call. One limit's tellings, of all sessions that it binds, in the order of their times (not of their
-- arrival), are a series. A window begins anew when what is used falls, or when the time of its reset is another one (by more
-- than a minute) or has passed; rates and spend never reach across that. The burn rate is what was told and nothing else:
-- from the first telling of the window to this one; a window told of once has none. Limits that fill up again all the time
-- (token buckets) begin a window each time. Providers do not say what a window is worth: `spend_usd` is what the calls on
-- record cost meanwhile, and a use that nobody recorded here is in `used` and not in it.
-- Columns:
--   session_id: The session in which it was told.
--   event_id: The event.
--   time: When it was told (UTC).
--   type: `limit.changed`, `rate_limit.hit`, `quota.low` or `quota.blocked`.
--   source: Who told it and how: the dialect and the signal, for example `transcript_codex file`.
--   provider: The provider it is about; NULL where not told.
--   model: The model it is about; NULL where it is about all, or not told.
--   limit_name: The limit's own name, for example `codex.primary` or `requests`.
--   kind: `rate_limit`, `quota`, `budget`, `cost` or `policy`.
--   scope: Whom it binds: `account`, `provider`, `runtime`, `session` …; NULL where not told.
--   status: `ok`, `low`, `hit`, `blocked` or `unknown`.
--   unit: Unit of the numbers: `percent`, `tokens`, `requests`, `usd`, `credits`.
--   used: How much of the window was used, in `unit`; NULL where not told.
--   maximum: How much may be used, in `unit`; NULL where not told.
--   remaining: How much is left, in `unit`; NULL where not told.
--   used_percent: `used` in percent of `maximum`; NULL where one of them is not known.
--   window_s: Length of the window in seconds; NULL where not told.
--   resets_at: When the window begins anew (UTC); NULL where not told.
--   window_number: Counts the windows of this limit, from 1; NULL where no number was told.
--   window_first_time: When this window was first told of (UTC).
--   burn_per_hour: Use per hour since then, in `unit`; never negative; NULL while unknown.
--   time_to_limit_s: Seconds until nothing is left if it goes on so; 0 when nothing is; NULL when nothing is used or the rate is unknown.
--   reached_before_reset: Whether that comes before `resets_at`; NULL where either is unknown.
--   spend_usd: Known cost of the recorded calls that count to the limit and ended since `window_first_time`; NULL when none is known.
--   costs_unknown: Of these calls, those that completed and whose cost is unknown, so `spend_usd` lacks them.
with told as (
    select
        e.session_id as session_id,
        e.event_id as event_id,
        e.timestamp as time,
        epoch_us(e.timestamp) as time_us,
        e.type as type,
        coalesce(e.dialect, 'unknown') || ' ' || coalesce(e.signal, 'event') as source,
        coalesce(e.provider, e.payload ->> '$.provider_name') as provider,
        coalesce(e.model, e.payload ->> '$.model_name') as model,
        e.payload ->> '$.name' as limit_name,
        e.payload ->> '$.kind' as kind,
        e.payload ->> '$.scope' as scope,
        coalesce(e.payload ->> '$.status', e.payload ->> '$.limit_status', e.status) as status,
        e.payload ->> '$.unit' as unit,
        try_cast(e.payload ->> '$.used' as double) as used,
        try_cast(e.payload ->> '$.maximum' as double) as maximum,
        try_cast(e.payload ->> '$.remaining' as double) as remaining,
        try_cast(e.payload ->> '$.window_s' as double) as window_s,
        cast(try_cast(e.payload ->> '$.resets_at' as timestamp with time zone) as timestamp) as resets_at
    from session_events as e
    where e.type in ('limit.changed', 'rate_limit.hit', 'quota.low', 'quota.blocked')
),

points as (
    select
        t.* exclude (used, remaining),
        coalesce(t.used, t.maximum - t.remaining) as used,
        coalesce(t.remaining, t.maximum - t.used) as remaining,
        -- Grows with use, also where only what is left is told.
        coalesce(t.used, t.maximum - t.remaining, -t.remaining) as level,
        epoch_us(t.resets_at) as resets_us,
        coalesce(t.scope like 'session%' or t.scope in ('runtime', 'thread', 'turn', 'task'), false) as ours,
        concat_ws(
            chr(31), coalesce(t.provider, ''), coalesce(t.model, ''), coalesce(t.scope, ''), coalesce(t.limit_name, ''),
            coalesce(t.unit, ''), case when t.scope like 'session%' or t.scope in ('thread', 'turn', 'task') then t.session_id else '' end
        ) as series
    from told as t
),

measured as (
    select
        p.event_id as event_id,
        p.series as series,
        p.time as time,
        p.time_us as time_us,
        p.level as level,
        case
            when
                row_number() over (partition by p.series order by p.time_us, p.level, p.event_id) = 1
                or p.level < lag(p.level) over (partition by p.series order by p.time_us, p.level, p.event_id)
                or p.time_us >= lag(p.resets_us) over (partition by p.series order by p.time_us, p.level, p.event_id)
                or abs(p.resets_us - lag(p.resets_us) over (partition by p.series order by p.time_us, p.level, p.event_id)) > 60000000
                then 1
            else 0
        end as begins
    from points as p
    where p.level is not null
),

numbered as (
    select
        m.event_id as event_id,
        m.series as series,
        m.time as time,
        m.time_us as time_us,
        m.level as level,
        sum(m.begins) over (
            partition by m.series order by m.time_us, m.level, m.event_id
            rows between unbounded preceding and current row
        ) as window_number
    from measured as m
),

windows as (
    select
        n.series as series,
        n.window_number as window_number,
        min(n.time) as first_time,
        min(n.time_us) as first_us,
        min(n.level) as first_level
    from numbered as n
    group by n.series, n.window_number
),

rated as (
    select
        n.event_id as event_id,
        n.series as series,
        n.window_number as window_number,
        w.first_time as first_time,
        w.first_us as first_us,
        case when n.time_us > w.first_us then (n.level - w.first_level) * 3600000000.0 / (n.time_us - w.first_us) end as burn_per_hour
    from numbered as n
    inner join windows as w on w.series = n.series and w.window_number = n.window_number
),

bound as (
    select distinct
        p.series as series,
        p.provider as provider,
        p.model as model,
        case when p.scope like 'session%' or p.scope in ('thread', 'turn', 'task') then p.session_id end as session_id
    from points as p
    where p.level is not null and (p.provider is not null or p.ours)
),

spent as (
    select
        b.series as series,
        epoch_us(coalesce(c.ended, c.started)) as at_us,
        c.cost_usd as cost_usd,
        case when c.cost_usd is not null then 1 else 0 end as known,
        case when c.cost_usd is null and c.status = 'completed' then 1 else 0 end as unknown
    from model_calls as c
    inner join bound as b
        on (b.provider is null or b.provider = c.provider)
        and (b.model is null or b.model = c.model)
        and (b.session_id is null or b.session_id = c.session_id)
),

steps as (
    select s.series as series, s.at_us as at_us, 0 as place, s.cost_usd as cost_usd, s.known as known, s.unknown as unknown, null as event_id
    from spent as s
    union all
    -- Calls count up to and with the moment of a telling, and after that of the first.
    select r.series as series, p.time_us as at_us, 1 as place, null as cost_usd, 0 as known, 0 as unknown, r.event_id as event_id
    from rated as r
    inner join points as p on p.event_id = r.event_id
    inner join bound as b on b.series = r.series
),

running as (
    select
        s.event_id as event_id,
        sum(coalesce(s.cost_usd, 0)) over (partition by s.series order by s.at_us, s.place rows between unbounded preceding and current row) as cost_usd,
        sum(s.known) over (partition by s.series order by s.at_us, s.place rows between unbounded preceding and current row) as known,
        sum(s.unknown) over (partition by s.series order by s.at_us, s.place rows between unbounded preceding and current row) as unknown
    from steps as s
),

beside as (
    select
        r.event_id as event_id,
        u.cost_usd - min(u.cost_usd) over (partition by r.series, r.window_number) as cost_usd,
        u.known - min(u.known) over (partition by r.series, r.window_number) as known,
        u.unknown - min(u.unknown) over (partition by r.series, r.window_number) as unknown
    from rated as r
    inner join running as u on u.event_id = r.event_id
)

select
    p.session_id as session_id,
    p.event_id as event_id,
    p.time as time,
    p.type as type,
    p.source as source,
    p.provider as provider,
    p.model as model,
    p.limit_name as limit_name,
    p.kind as kind,
    p.scope as scope,
    p.status as status,
    p.unit as unit,
    p.used as used,
    p.maximum as maximum,
    p.remaining as remaining,
    case when p.maximum > 0 then 100.0 * p.used / p.maximum end as used_percent,
    p.window_s as window_s,
    p.resets_at as resets_at,
    cast(r.window_number as bigint) as window_number,
    r.first_time as window_first_time,
    r.burn_per_hour as burn_per_hour,
    case when p.remaining <= 0 then 0.0 when r.burn_per_hour > 0 then p.remaining * 3600.0 / r.burn_per_hour end as time_to_limit_s,
    case
        when p.resets_us is null then null
        when p.remaining <= 0 then true
        when r.burn_per_hour > 0 then p.time_us + p.remaining * 3600000000.0 / r.burn_per_hour <= p.resets_us
        when r.burn_per_hour = 0 and p.remaining > 0 then false
    end as reached_before_reset,
    case when b.known > 0 then round(b.cost_usd, 10) end as spend_usd,
    cast(b.unknown as bigint) as costs_unknown
from points as p
left join rated as r on r.event_id = p.event_id
left join beside as b on b.event_id = p.event_id
