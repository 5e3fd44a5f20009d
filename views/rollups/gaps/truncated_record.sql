-- Records of which the sender says that it dropped parts.
select
    session_id as session_id,
    'truncated' as kind,
    record_id as subject,
    time as time,
    cast(null as bigint) as missing,
    'the sender dropped parts of this record: ' || dropped as detail
from touched_truncations
