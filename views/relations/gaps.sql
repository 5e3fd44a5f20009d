-- gaps: What is known to be missing: one row per hole.
-- Grain: session_id, kind, subject.
-- Kinds: `sequence_hole` (numbers of the session's own count never arrived), `missing_parent` (a span that others name as
-- their parent never arrived), `orphan` (an agent, call or session that made a child agent, or that a session goes on from,
-- never arrived), `not_closed` (work that began and whose end was not recorded; it may still be running; of clients that
-- tell no end of turns, a turn is over when the last that it did was to answer; a request is answered by the next answer),
-- `truncated` (the sender says that it dropped parts, or an output was cut), `metrics_only` (metrics came, but no logs or spans),
-- `clock_skew` (recorded times that cannot be: a span before its parent or ending before it begins, a record from the future or
-- from before 2000, a clock that goes back while the count goes on; times and durations there are as told, not as they were).
-- Columns:
--   session_id: The session.
--   kind: What is missing.
--   subject: The id of what it is about: a sequence number, span, turn, task, tool call, agent, session, record, event or `service:` and its name.
--   time: When the gap begins (UTC).
--   missing: How many things are missing, where that can be known.
--   detail: One sentence.
select
    session_id as session_id,
    kind as kind,
    subject as subject,
    time as time,
    missing as missing,
    detail as detail
from session_gaps
