"""Facts told by name: what each kind of a client's log events means in our vocabulary."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import polars as pl

from ingest.dialects.expressions import count, events_of, first, json_object, measure

TEXT_CHARS = 500
"""A reason or message is kept this long in an event; the whole is in the record."""

Columns = Mapping[str, pl.Expr]
Reader = Callable[[pl.LazyFrame], pl.LazyFrame]

ALLOW = (
    "accept",
    "auto_accept",
    "modify",
    "approved",
    "approved_for_session",
    "approved_execpolicy_amendment",
    "allow",
)
DENY = ("reject", "denied", "denied_for_session", "deny", "block", "abort", "timed_out", "cancel")
SOURCES = {
    "config": "rule",
    "hook": "hook",
    "user": "human",
    "user_permanent": "human",
    "user_temporary": "human",
    "user_abort": "human",
    "user_reject": "human",
    "automatedreviewer": "classifier",
    "automated_reviewer": "classifier",
    "automated reviewer": "classifier",
    "guardian": "classifier",
}
"""Who decided, in the words of the clients and in ours; a source we do not know stays as it was told."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What a record of one name means: the event's type, columns and payload."""

    type: pl.Expr | str
    payload: Columns = field(default_factory=dict)
    columns: Columns = field(default_factory=dict)
    lists: Columns = field(default_factory=dict)
    """Fields of the payload that are JSON texts already."""

    part: str = ""
    """Tells a record's second event from its first."""

    def events(self, records: pl.LazyFrame, common: Columns) -> pl.LazyFrame:
        """The events of these records."""
        columns = {**common, **self.columns}
        payload = json_object(self.lists, **self.payload)
        if self.part:
            columns["event_id"] = pl.concat_str("record_id", pl.lit(f":{self.part}"))
        kind = pl.lit(self.type) if isinstance(self.type, str) else self.type
        return events_of(records, type=kind, payload=payload, **columns)


def told(
    records: pl.DataFrame, kind: str, facts: Mapping[str, tuple[Fact, ...]], common: Columns
) -> list[pl.LazyFrame]:
    """The events of records whose column `kind` names a fact; only names that occur cost anything."""
    present = records[kind].unique().drop_nulls().to_list()
    return [
        fact.events(records.lazy().filter(pl.col(kind) == name), common)
        for name in sorted(present)
        for fact in facts.get(name, ())
    ]


def together(parts: list[pl.LazyFrame]) -> pl.LazyFrame:
    """All the events of a dialect as one frame; a column that a part lacks is NULL there."""
    return pl.concat(parts, how="diagonal_relaxed") if parts else pl.LazyFrame(schema={"type": pl.String})


def short(*keys: str) -> pl.Expr:
    """A text under the first of several spellings, cut to what an event keeps."""
    return first(*keys).str.head(TEXT_CHARS)


def verdict(*keys: str) -> pl.Expr:
    """A client's decision in our words; one we do not know stays as it was told."""
    word = first(*keys).str.to_lowercase()
    return word.replace(dict.fromkeys(ALLOW, "allow") | dict.fromkeys(DENY, "deny"))


def decision_source(*keys: str) -> pl.Expr:
    """Who decided, in our words."""
    return first(*keys).str.to_lowercase().replace(SOURCES)


def decision(
    tool_name: pl.Expr,
    tool_call_id: pl.Expr,
    *,
    source: pl.Expr,
    reason: pl.Expr,
    part: str = "",
    word: str = "decision",
) -> Fact:
    """A permission for a tool call was decided."""
    return Fact(
        "permission.evaluated",
        payload={
            "decision": verdict(word),
            "result": first(word),
            "decision_source": source,
            "decision_reason": reason,
            "subject_kind": pl.lit("tool"),
            "tool_name": tool_name,
        },
        columns={
            "tool_name": tool_name,
            "tool_call_id": tool_call_id,
            "status": pl.when(verdict(word) == "deny").then(pl.lit("denied")).otherwise(pl.lit("completed")),
        },
        part=part,
    )


def note(code: str, *, type: str = "runtime.warning", message: pl.Expr | None = None, **metadata: pl.Expr) -> Fact:
    """Something worth knowing that no family of events is about."""
    said = {} if message is None else {"message": message}
    return Fact(
        type,
        payload={"code": pl.lit(code), **said},
        lists={"metadata": json_object({}, **metadata)} if metadata else {},
    )


def submitted(source: pl.Expr | None = None, **metadata: pl.Expr) -> Fact:
    """The user's prompt came in."""
    return Fact(
        "turn.submitted",
        payload={
            "status": pl.lit("running"),
            "input_chars": count("prompt_length"),
            "source": pl.lit("user") if source is None else pl.coalesce(source, pl.lit("user")),
        },
        lists={"metadata": json_object({}, **metadata)} if metadata else {},
        columns={"status": pl.lit("running")},
    )


def mode_changed(reason: pl.Expr) -> Fact:
    """The user or the client changed what may be done without asking."""
    return Fact(
        "policy.changed",
        payload={
            "policy_scope": pl.lit("session"),
            "permission_mode": first("to_mode"),
            "policy_ref": first("to_mode"),
            "previous_policy_ref": first("from_mode"),
            "reason": reason,
        },
    )


def rate_limited(status: pl.Expr, model: pl.Expr, provider: pl.Expr) -> Fact:
    """The provider refused a call because of its limit: a second fact beside the failed call."""
    hit = status == 429
    return Fact(
        pl.when(hit).then(pl.lit("rate_limit.hit")),
        payload={
            "limiter": pl.lit("provider"),
            "kind": pl.lit("rate_limit"),
            "status": pl.lit("hit"),
            "http_status": status,
            "model_name": model,
            "provider_name": provider,
        },
        columns={"status": pl.lit("hit"), "model": model, "provider": provider},
        part="limit",
    )


USED_UP = r"(?i)quota|usage.?limit|insufficient.?(funds|credit)|credit balance|spend(ing)? (limit|cap)"
TOO_FAST = r"(?i)per.?(minute|second)"
"""How providers and clients say that what may be used is used up; quotas of a minute are limits of the rate."""


def quota_used_up(model: pl.Expr, provider: pl.Expr, *keys: str) -> Fact:
    """A call was refused because a quota is used up: a second fact beside the failed call."""
    said = pl.coalesce(first(key) for key in keys)
    blocked = pl.any_horizontal(first(key).str.contains(USED_UP) & ~first(key).str.contains(TOO_FAST) for key in keys)
    return Fact(
        pl.when(blocked).then(pl.lit("quota.blocked")),
        payload={
            "kind": pl.lit("quota"),
            "name": pl.lit("provider"),
            "status": pl.lit("blocked"),
            "blocked": pl.lit("model call"),
            "message": said.str.head(TEXT_CHARS),
            "model_name": model,
            "provider_name": provider,
        },
        columns={"status": pl.lit("blocked"), "model": model, "provider": provider},
        part="quota",
    )


def took_ms(*keys: str) -> pl.Expr:
    """A duration in milliseconds; one below zero says nothing."""
    number = measure(*keys)
    return pl.when(number >= 0).then(number)
