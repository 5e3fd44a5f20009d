-- Child agents and forks whose maker never arrived. A span's missing parent is a gap of its own kind.
with children as (
    select
        session_id as session_id,
        coalesce(missing_parent, parent_session_id) as subject,
        missing_parent is null as elsewhere,
        'child agent ' || subagent_id || ' was made by '
        || case when missing_parent = session_id then 'the main agent, of which nothing' else 'this, which never' end
        || ' arrived' as child,
        started as time
    from touched_subagents
    where coalesce(missing_parent, parent_session_id) is not null and coalesce(missing_parent, '') not like 'span:%'
    union all
    select
        session_id as session_id,
        payload ->> '$.resumed_from' as subject,
        true as elsewhere,
        'the session goes on from this one, which never arrived' as child,
        timestamp as time
    from touched_events
    where type = 'session.created' and payload ->> '$.resumed_from' <> session_id
),

known as (
    select session_id as session_id
    from session_rollup
    union
    select session_id as session_id
    from touched
)

select
    c.session_id as session_id,
    'orphan' as kind,
    c.subject as subject,
    min(c.time) as time,
    cast(1 as bigint) as missing,
    string_agg(distinct c.child, '; ' order by c.child) as detail
from children as c
left join known as k on k.session_id = c.subject and c.elsewhere
where k.session_id is null
group by c.session_id, c.subject
