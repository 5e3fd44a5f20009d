-- records_by_source: What arrived, by sender: one row per service, scope, signal and dialect.
-- Grain: service_name, scope_name, signal, dialect.
-- Columns:
--   service_name: `service.name` of the resource; NULL where the sender does not tell.
--   scope_name: Instrumentation scope.
--   signal: `span`, `log`, `metric`, `event` or `file`.
--   dialect: The dialect that made events of the records; NULL where none claimed them.
--   records: Records.
--   unclaimed: Of these, records that no dialect claimed; they are kept and can be queried as records.
--   first_time: Time of the first (UTC).
--   last_time: Time of the last (UTC).
--   last_received: When the last of them was received (UTC).
select
    service_name as service_name,
    scope_name as scope_name,
    signal as signal,
    dialect as dialect,
    count(*) as records,
    count(case when dialect is null then 1 end) as unclaimed,
    min(time) as first_time,
    max(time) as last_time,
    max(received) as last_received
from records
group by service_name, scope_name, signal, dialect
