"""The tables of the index, column by column: the one place that names them."""

from dataclasses import dataclass

import pyarrow as pa

VERSION = 4
"""Raised with every change of the tables; `store.migrations` brings older files forward."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name, DuckDB type, Arrow type of the frames written to it, and what it holds."""

    name: str
    sql: str
    arrow: pa.DataType
    meaning: str


TEXT = pa.string()
NS = pa.uint64()
JSON = "JSON USING COMPRESSION zstd"
MICROS = pa.timestamp("us")

RECORDS: tuple[Column, ...] = (
    Column("record_id", "VARCHAR", TEXT, "Stable id: delivering the same record again gives the same id."),
    Column(
        "signal", "VARCHAR", TEXT, "`span`, `log`, `metric` (one row per data point), `event` (our JSON) or `file`."
    ),
    Column(
        "time",
        "TIMESTAMP",
        MICROS,
        "When it happened (UTC; a span's start); the observed or received time if not told.",
    ),
    Column("time_ns", "UBIGINT", NS, "The same as sent, in nanoseconds since 1970; NULL if not told."),
    Column("end_ns", "UBIGINT", NS, "A span's end in nanoseconds since 1970; NULL while unknown."),
    Column("observed_ns", "UBIGINT", NS, "When a log record was observed, in nanoseconds since 1970."),
    Column("received", "TIMESTAMP", MICROS, "When the receiver took it (UTC)."),
    Column("name", "VARCHAR", TEXT, "Span name, log event name (field, else attribute `event.name`), or metric name."),
    Column("kind", "VARCHAR", TEXT, "Span kind in lower case, or metric type (`gauge`, `sum`, `histogram`, …)."),
    Column("severity", "VARCHAR", TEXT, "Log severity text, else the standard name of its number."),
    Column("service_name", "VARCHAR", TEXT, "`service.name` of the resource."),
    Column("resource", JSON, TEXT, "Resource attributes."),
    Column("scope_name", "VARCHAR", TEXT, "Instrumentation scope."),
    Column("scope_version", "VARCHAR", TEXT, "Instrumentation scope's version."),
    Column("trace_id", "VARCHAR", TEXT, "32 lower-case hex digits, or NULL."),
    Column("span_id", "VARCHAR", TEXT, "16 lower-case hex digits, or NULL."),
    Column("parent_span_id", "VARCHAR", TEXT, "16 lower-case hex digits; NULL for a root."),
    Column("status", "VARCHAR", TEXT, "A span's status: `unset`, `ok` or `error`."),
    Column("status_message", "VARCHAR", TEXT, "What the span's status says."),
    Column("attributes", JSON, TEXT, "Attributes by key: `attributes ->> '$.\"gen_ai.request.model\"'`."),
    Column("body", JSON, TEXT, "A log record's body, or a file's line, as a JSON value."),
    Column(
        "span_events", JSON, TEXT, "A span's events: [{name, time_ns, attributes, dropped_attributes_count}], or NULL."
    ),
    Column("links", JSON, TEXT, "A span's links: [{trace_id, span_id, trace_state, flags, attributes, …}], or NULL."),
    Column("value", "DOUBLE", pa.float64(), "A number data point's value."),
    Column(
        "point", JSON, TEXT, "The rest of a metric data point: unit, description, temporality, buckets, exemplars …"
    ),
    Column(
        "extra",
        JSON,
        TEXT,
        "Whatever else was sent: trace_state, flags, dropped counts, schema URLs, scope attributes.",
    ),
    Column("session_key", "VARCHAR", TEXT, "The session this record names itself, or NULL."),
    Column("dialect", "VARCHAR", TEXT, "The dialect that made events of it, or NULL."),
    Column("journal_position", "BIGINT", pa.int64(), "The journal record it came in."),
    Column("ordinal", "INTEGER", pa.int32(), "Its place in that journal record, from 0."),
)

EVENTS: tuple[Column, ...] = (
    Column("type", "VARCHAR", TEXT, "The event type, for example `tool.result`."),
    Column("event_id", "VARCHAR", TEXT, "Stable id: as emitted by our runtime; elsewhere made from the record id."),
    Column("timestamp", "TIMESTAMP", MICROS, "When the fact became true (UTC): a finished call's end."),
    Column("time_ns", "UBIGINT", NS, "The same in nanoseconds since 1970."),
    Column("sequence", "BIGINT", pa.int64(), "Place within the session, where the source records one."),
    Column("schema_version", "VARCHAR", TEXT, "Version of the event schema."),
    Column("runtime_id", "VARCHAR", TEXT, "Runtime installation or service instance."),
    Column(
        "session_id", "VARCHAR", TEXT, "Session as this record tells it; NULL if only another record of its trace does."
    ),
    Column("thread_id", "VARCHAR", TEXT, "Ordered execution context within the session."),
    Column("turn_id", "VARCHAR", TEXT, "One submitted input cycle."),
    Column("task_id", "VARCHAR", TEXT, "Unit of work."),
    Column("run_id", "VARCHAR", TEXT, "One execution attempt of a task."),
    Column("attempt_id", "VARCHAR", TEXT, "The attempt's id, where it differs from the run's."),
    Column("step_id", "VARCHAR", TEXT, "Ordered item within a turn, task or run."),
    Column("tool_call_id", "VARCHAR", TEXT, "One tool invocation."),
    Column("action_id", "VARCHAR", TEXT, "One pending human or policy decision."),
    Column("subagent_id", "VARCHAR", TEXT, "Child agent."),
    Column("artifact_id", "VARCHAR", TEXT, "Deliverable."),
    Column("evidence_id", "VARCHAR", TEXT, "Trace, replay, verification or review reference."),
    Column(
        "model_request_id", "VARCHAR", TEXT, "One model request: the provider's response id or the client's request id."
    ),
    Column("trace_id", "VARCHAR", TEXT, "OpenTelemetry trace."),
    Column("span_id", "VARCHAR", TEXT, "OpenTelemetry span of the work it belongs to."),
    Column("parent_span_id", "VARCHAR", TEXT, "That span's parent; NULL for a root or where not known."),
    Column("status", "VARCHAR", TEXT, "State after the fact, for example `completed`, `failed`, `running`."),
    Column("agent_name", "VARCHAR", TEXT, "Agent that did it."),
    Column("provider", "VARCHAR", TEXT, "Model provider."),
    Column("model", "VARCHAR", TEXT, "Model that answered, else the one asked for."),
    Column("tool_name", "VARCHAR", TEXT, "Tool."),
    Column("duration_ms", "DOUBLE", pa.float64(), "Wall time of the finished work."),
    Column(
        "uncached_input_tokens", "BIGINT", pa.int64(), "Input tokens that were not read from or written to a cache."
    ),
    Column("cache_read_tokens", "BIGINT", pa.int64(), "Input tokens read from the provider's cache."),
    Column("cache_write_tokens", "BIGINT", pa.int64(), "Input tokens written to the provider's cache."),
    Column(
        "output_tokens",
        "BIGINT",
        pa.int64(),
        "Output tokens; reasoning is among them, except from Gemini clients, which count it beside them.",
    ),
    Column(
        "reasoning_tokens",
        "BIGINT",
        pa.int64(),
        "Tokens spent on reasoning: a part of the output, except from Gemini clients, which count them beside it.",
    ),
    Column("cost_usd", "DOUBLE", pa.float64(), "Cost in US dollars; NULL when unknown."),
    Column("cost_state", "VARCHAR", TEXT, "`reported`, `priced`, `unknown`; NULL on events that cost nothing."),
    Column("price_entry", "VARCHAR", TEXT, "The price table's entry that was matched."),
    Column("price_version", "VARCHAR", TEXT, "Version of the price table, or of the user's file, the entry is in."),
    Column("error", "VARCHAR", TEXT, "Error type or category of a failure."),
    Column("payload", JSON, TEXT, "What is particular to the type, as JSON; no prompt or completion text."),
    Column("refs", JSON, TEXT, "References to large content and to facts owned elsewhere."),
    Column("record_id", "VARCHAR", TEXT, "The record it was made from."),
    Column("signal", "VARCHAR", TEXT, "That record's signal; the store fills it in where it is left NULL."),
    Column("dialect", "VARCHAR", TEXT, "The dialect that made it."),
    Column("journal_position", "BIGINT", pa.int64(), "The journal record it came in."),
)

BIG = pa.int64()
TIME = "TIMESTAMP"

TOKENS: tuple[Column, ...] = tuple(column for column in EVENTS if column.name.endswith("_tokens"))

PROGRESS: tuple[Column, ...] = (
    Column("position", "BIGINT", BIG, "The last journal record that is loaded; 0 before the first."),
    Column("records", "BIGINT", BIG, "Rows of `records` stored so far."),
    Column("events", "BIGINT", BIG, "Rows of `events` stored so far."),
    Column("duplicates", "BIGINT", BIG, "Records that had been stored before and were not stored again."),
    Column("undecoded", "BIGINT", BIG, "Journal records that could not be decoded."),
    Column(
        "rolled_up",
        "BIGINT",
        BIG,
        "The last journal record that sessions, costs and gaps know of; -1 if some could not be rolled up.",
    ),
)

UNDECODED: tuple[Column, ...] = (
    Column("position", "BIGINT", BIG, "The journal record that could not be decoded."),
    Column("kind", "VARCHAR", TEXT, "What it claims to be, for example `otlp.traces`."),
    Column("received", TIME, MICROS, "When the receiver took it (UTC)."),
    Column("reason", "VARCHAR", TEXT, "Why it could not be decoded."),
)

TRACE_SESSIONS: tuple[Column, ...] = (
    Column("trace_id", "VARCHAR", TEXT, "A trace of which some record names its session."),
    Column(
        "session_id", "VARCHAR", TEXT, "That session; the smallest if several are named, so that order never matters."
    ),
)

CALL_LINKS: tuple[Column, ...] = (
    Column("session_id", "VARCHAR", TEXT, "The session."),
    Column("event_id", "VARCHAR", TEXT, "A model or tool event whose call its own ids do not name."),
    Column("call_id", "VARCHAR", TEXT, "The call it shows; empty if it is none of its own (a request told twice)."),
    Column("counts", "BOOLEAN", pa.bool_(), "False for a parent that only repeats the totals of the call below it."),
)

TRUNCATIONS: tuple[Column, ...] = (
    Column("record_id", "VARCHAR", TEXT, "A record whose sender says that it dropped parts of it."),
    Column("time", TIME, MICROS, "That record's time."),
    Column("trace_id", "VARCHAR", TEXT, "Its trace."),
    Column("session_key", "VARCHAR", TEXT, "The session it names."),
    Column("dropped", "JSON", TEXT, "What was dropped: count by kind."),
)

SESSION_ROLLUP: tuple[Column, ...] = (
    Column("session_id", "VARCHAR", TEXT, "The session."),
    Column("first_time", TIME, MICROS, "No event or record of the session is older."),
    Column("last_time", TIME, MICROS, "No event or record of the session is younger."),
    Column("started", TIME, MICROS, "Start of the earliest work, else time of the first record."),
    Column("ended", TIME, MICROS, "The last fact."),
    Column("service_name", "VARCHAR", TEXT, "Service that sent most of it."),
    Column("agent_name", "VARCHAR", TEXT, "Agent named first."),
    Column("dialects", "VARCHAR", TEXT, "Dialects its events came in, comma-separated."),
    Column("models", "VARCHAR", TEXT, "Models that were called, comma-separated."),
    Column("status", "VARCHAR", TEXT, "Status of the last fact that closed a turn, task or session."),
    Column("events", "BIGINT", BIG, "Events."),
    Column("spans", "BIGINT", BIG, "Span records."),
    Column("logs", "BIGINT", BIG, "Log and event records."),
    Column("metric_points", "BIGINT", BIG, "Metric data points."),
    Column("turns", "BIGINT", BIG, "Distinct turns."),
    Column("model_calls", "BIGINT", BIG, "Model calls, each counted once."),
    Column("model_calls_failed", "BIGINT", BIG, "Of these, failed."),
    Column("tool_calls", "BIGINT", BIG, "Tool calls, each counted once."),
    Column("tool_calls_failed", "BIGINT", BIG, "Of these, failed."),
    *TOKENS,
    Column("cost_usd", "DOUBLE", pa.float64(), "Sum of the known costs; NULL when none is known."),
    Column("costs_unknown", "BIGINT", BIG, "Model calls that completed and whose cost is unknown."),
    Column("costs_reported", "BIGINT", BIG, "Model calls whose cost the source reported."),
    Column("costs_priced", "BIGINT", BIG, "Model calls whose cost the price table gave."),
    Column("gaps", "BIGINT", BIG, "Rows of `session_gaps`."),
)

COST_ROLLUP: tuple[Column, ...] = (
    Column("session_id", "VARCHAR", TEXT, "The session."),
    Column("day", "DATE", pa.date32(), "Day (UTC) on which the calls ended."),
    Column("provider", "VARCHAR", TEXT, "Model provider."),
    Column("model", "VARCHAR", TEXT, "Model."),
    Column("cost_state", "VARCHAR", TEXT, "`reported`, `priced` or `unknown`."),
    Column("calls", "BIGINT", BIG, "Model calls."),
    *TOKENS,
    Column("cost_usd", "DOUBLE", pa.float64(), "Sum of the costs; NULL when unknown."),
    Column("costs_unknown", "BIGINT", BIG, "Model calls that completed and whose cost is unknown."),
    Column("price_entry", "VARCHAR", TEXT, "The price table's entry that was matched."),
    Column("price_version", "VARCHAR", TEXT, "Version of the price table, or of the user's file, the entry is in."),
)

SESSION_GAPS: tuple[Column, ...] = (
    Column("session_id", "VARCHAR", TEXT, "The session."),
    Column("kind", "VARCHAR", TEXT, "What is missing; the relation `gaps` explains each kind."),
    Column("subject", "VARCHAR", TEXT, "The id of what it is about."),
    Column("time", TIME, MICROS, "When the gap begins."),
    Column("missing", "BIGINT", BIG, "How many things are missing, where that can be known."),
    Column("detail", "VARCHAR", TEXT, "One sentence."),
)

SUBAGENT_ROLLUP: tuple[Column, ...] = (
    Column("session_id", "VARCHAR", TEXT, "The session."),
    Column("subagent_id", "VARCHAR", TEXT, "The child agent."),
    Column("agent_name", "VARCHAR", TEXT, "What sort of agent it is."),
    Column("parent_subagent_id", "VARCHAR", TEXT, "The child agent that made it; NULL if the main agent did."),
    Column("parent_session_id", "VARCHAR", TEXT, "The session of the agent that made it, if that is another one."),
    Column("tool_call_id", "VARCHAR", TEXT, "The call by which it was made."),
    Column(
        "missing_parent", "VARCHAR", TEXT, "What made it and never arrived; other sessions are looked up when asked."
    ),
    Column("status", "VARCHAR", TEXT, "`completed`, `failed`, or `unknown` when no end was recorded."),
    Column("started", TIME, MICROS, "Its first fact, less the fact's duration."),
    Column("ended", TIME, MICROS, "When it was completed or failed."),
    Column("events", "BIGINT", BIG, "Events that name it."),
)

META: tuple[Column, ...] = (
    Column("key", "VARCHAR", TEXT, "Name of the fact about this file."),
    Column("value", "VARCHAR", TEXT, "Its value."),
)

TABLES: dict[str, tuple[Column, ...]] = {
    "meta": META,
    "progress": PROGRESS,
    "undecoded": UNDECODED,
    "records": RECORDS,
    "events": EVENTS,
    "trace_sessions": TRACE_SESSIONS,
    "call_links": CALL_LINKS,
    "truncations": TRUNCATIONS,
    "session_rollup": SESSION_ROLLUP,
    "cost_rollup": COST_ROLLUP,
    "session_gaps": SESSION_GAPS,
    "subagent_rollup": SUBAGENT_ROLLUP,
}
"""Every table of the index. `records` and `events` hold the data; the others are derived or keep our place."""


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """The Arrow schema of frames written to a table."""
    return pa.schema([(column.name, column.arrow) for column in columns])


def as_json(table: pa.Table, columns: tuple[Column, ...]) -> pa.Table:
    """The table with its JSON texts marked as JSON, so that DuckDB takes them as they are and does not parse each."""
    kind = pa.json_(TEXT)
    for column in columns:
        if column.sql.startswith("JSON"):
            texts = table.column(column.name).cast(TEXT)
            marked = [pa.ExtensionArray.from_storage(kind, chunk) for chunk in texts.chunks]
            table = table.set_column(
                table.schema.get_field_index(column.name), pa.field(column.name, kind), pa.chunked_array(marked, kind)
            )
    return table


def create_table(name: str, columns: tuple[Column, ...]) -> str:
    """The statement that makes the table."""
    return f"create table {name} ({', '.join(f'{column.name} {column.sql}' for column in columns)})"
