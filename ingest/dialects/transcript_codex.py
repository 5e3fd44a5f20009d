"""Codex's session files: calls by the increments of the thread's counter, tools, turns, limits and compactions."""

from collections.abc import Iterator
from typing import Any

import orjson
import polars as pl

from ingest.dialects import transcript as ts
from ingest.dialects.dialect import Dialect
from ingest.dialects.transcript import Fact, Line, Noted, count, measure, table, text

PROVIDER = "openai"
CALLS = {
    "function_call": "function_call",
    "custom_tool_call": "function_call",
    "local_shell_call": "command_execution",
    "web_search_call": "web_search",
    "image_generation_call": "image_generation",
    "tool_search_call": "function_call",
}
"""Items that ask for a tool, and the sort of work."""

NAMES = {
    "local_shell_call": "local_shell",
    "web_search_call": "web_search",
    "image_generation_call": "image_generation",
    "tool_search_call": "tool_search",
}
OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
WORK_ITEMS = frozenset({"CommandExecution", "FileChange", "McpToolCall"})
ENDS = frozenset({"exec_command_end", "patch_apply_end", "mcp_tool_call_end"})
USED_UP, LOW = 100.0, 80.0
AGENT_MESSAGES = frozenset({"collab_agent_spawn_end", "collab_waiting_end"})
AGENT_ENDS = {"completed": "completed", "errored": "failed", "interrupted": "failed", "shutdown": "completed"}
ENDS_OF_TURNS = {"task_complete": "completed", "turn_complete": "completed", "turn_aborted": "failed"}
"""An agent that another made is done when its turn is; it may be given another."""


class CodexTranscript(Dialect, name="transcript_codex"):
    """Threads of Codex, old and new versions. Lines that a fork copied from its parent mean nothing new."""

    wants = ts.WANTED
    claims = ts.of_format("codex")

    def events(self, records: pl.LazyFrame) -> pl.LazyFrame:
        """Each line's facts; lines of other kinds are kept as records only."""
        return ts.events_from(records, read)


def read(name: str, line: Line, noted: Noted) -> Iterator[Fact]:
    """The facts of one line."""
    if noted.get("inherited"):
        return
    payload = table(line.get("payload")) or line
    passed = table(payload.get("internal_chat_message_metadata_passthrough"))
    common = {
        "thread_id": noted.get("thread"),
        "turn_id": text(payload.get("turn_id")) or text(passed.get("turn_id")) or noted.get("turn"),
        "subagent_id": text(noted.get("agent")),
    }
    kind, _, inner = name.partition(".")
    for fact in _facts(kind, inner, payload, noted):
        yield common | fact


def _facts(kind: str, inner: str, payload: dict[str, Any], noted: Noted) -> Iterator[Fact]:
    match kind:
        case "session_meta" if noted.get("opens"):
            yield from _opened(payload, noted)
        case "response_item":
            yield from _item(inner, payload)
            if noted.get("spawns"):
                yield from _returned_agent(payload, noted)
        case "turn_context" if "policy" in noted:
            yield from _policy(table(noted["policy"]), table(noted.get("policy_before")))
        case "token_usage_record":
            yield _call(counts(payload.get("usage")), noted, text(payload.get("response_id")))
        case "compacted":
            done = {"status": "completed"}
            yield {"type": "context.compaction.completed", "status": "completed", "payload": done}
        case "event_msg" if inner == "token_count":
            yield from _token_count(payload, noted)
        case "event_msg" if inner in AGENT_MESSAGES:
            yield from _agent_message(inner, payload, noted)
        case "event_msg":
            yield from _message(inner, payload)
            if noted.get("agent") and inner in ENDS_OF_TURNS:
                yield _agent_over(text(noted["agent"]), ENDS_OF_TURNS[inner])


def _opened(payload: dict[str, Any], noted: Noted) -> Iterator[Fact]:
    created = {
        "client_name": "codex",
        "client_version": text(payload.get("cli_version")),
        "cwd": text(payload.get("cwd")),
        "source": text(payload.get("source")) or text(payload.get("originator")),
        "resumed_from": text(payload.get("forked_from_id")),
    }
    yield {"type": "session.created", "payload": created}
    if agent := text(noted.get("agent")):
        told = payload | table(table(table(payload.get("source")).get("subagent")).get("thread_spawn"))
        names = (text(told.get("agent_role")), text(told.get("agent_nickname")))
        yield _spawned(agent, *names, parent_thread_id=text(told.get("parent_thread_id")))


def _spawned(agent: str | None, role: str | None, nickname: str | None, **more: Any) -> Fact:
    told = {"status": "running", "child_thread_id": agent, "role": role, "nickname": nickname}
    call_id = more.pop("tool_call_id", None)
    return {
        "type": "subagent.spawned",
        "status": "running",
        "subagent_id": agent,
        "agent_name": role or nickname,
        "tool_call_id": call_id,
        "payload": told | more,
    }


def _agent_over(agent: str | None, status: str) -> Fact:
    told = {"status": status, "child_thread_id": agent}
    return {"type": f"subagent.{status}", "status": status, "subagent_id": agent, "payload": told}


def _returned_agent(payload: dict[str, Any], noted: Noted) -> Iterator[Fact]:
    """What a call that makes an agent returned: its thread."""
    told = _unpacked(payload.get("output"))
    if agent := text(told.get("agent_id")):
        call_id, maker = text(payload.get("call_id")), text(noted.get("agent"))
        yield _spawned(agent, None, text(told.get("nickname")), tool_call_id=call_id, parent_subagent_id=maker)


def _agent_message(kind: str, payload: dict[str, Any], noted: Noted) -> Iterator[Fact]:
    """What a thread tells about those it made; they tell more themselves."""
    if kind == "collab_agent_spawn_end" and (agent := text(payload.get("new_thread_id"))):
        names = (text(payload.get("new_agent_role")), text(payload.get("new_agent_nickname")))
        call_id, maker = text(payload.get("call_id")), text(noted.get("agent"))
        yield _spawned(agent, *names, tool_call_id=call_id, parent_subagent_id=maker)
    elif kind == "collab_waiting_end":
        for agent, told in table(payload.get("statuses")).items():
            word = told if isinstance(told, str) else next(iter(table(told)), None)
            if word in AGENT_ENDS:
                yield _agent_over(agent, AGENT_ENDS[word])


def _policy(now: dict[str, Any], before: dict[str, Any]) -> Iterator[Fact]:
    """What a turn may do, where it is first told and where it changes."""
    changed = {name: {"from": before.get(name), "to": now.get(name)} for name in now if now[name] != before.get(name)}
    if before and changed:
        told = {
            "policy_scope": "session",
            "permission_mode": now.get("approval_policy"),
            "policy_ref": now.get("approval_policy"),
            "previous_policy_ref": before.get("approval_policy"),
            "changed_rules": changed,
        }
        yield {"type": "policy.changed", "payload": told}
    if mode := now.get("sandbox_mode") if "sandbox_mode" in changed else None:
        yield {"type": "sandbox.applied", "payload": {"mode": mode, "enforced": mode != "danger-full-access"}}


def _item(kind: str, payload: dict[str, Any]) -> Iterator[Fact]:
    call_id = text(payload.get("call_id")) or text(payload.get("id"))
    if kind in CALLS:
        name = text(payload.get("name")) or NAMES.get(kind)
        asked = payload.get("arguments") or payload.get("input") or payload.get("action")
        more = {"item_kind": CALLS[kind], "server_name": text(payload.get("namespace"))}
        yield ts.tool_started(call_id, name, asked, payload=more)
        if kind in ("web_search_call", "image_generation_call") and payload.get("status") == "completed":
            yield ts.tool_ended(call_id, name)  # the provider runs it and reports it once
    elif kind in OUTPUTS:
        output = payload.get("output")
        yield ts.tool_ended(call_id, None, output, error=_output_error(output))


def _unpacked(output: Any) -> dict[str, Any]:
    """An output that is an object, or the text of one."""
    if isinstance(output, str) and output.startswith("{"):
        try:
            output = orjson.loads(output)
        except orjson.JSONDecodeError:
            return {}
    return table(output)


def _output_error(output: Any) -> str | None:
    """Custom tools write their exit code into the output; of others the text does not tell for sure."""
    told = _unpacked(output)
    if told.get("success") is False:
        return "tool_failed"
    code = table(told.get("metadata")).get("exit_code")
    return "tool_failed" if isinstance(code, int) and code != 0 else None


def counts(usage: Any) -> dict[str, int]:
    """The counts of a usage by their own names."""
    names = (
        *("input_tokens", "cached_input_tokens", "cache_write_input_tokens"),
        *("output_tokens", "reasoning_output_tokens"),
    )
    return {name: told for name in names if (told := count(table(usage).get(name))) is not None}


def _token_count(payload: dict[str, Any], noted: Noted) -> Iterator[Fact]:
    info = table(payload.get("info"))
    total, last = counts(info.get("total_token_usage")), counts(info.get("last_token_usage"))
    before = counts(noted.get("before"))
    used = _increment(total, before, last)
    if used:
        yield _call(used, noted, None)
    yield from _limits(table(payload.get("rate_limits")), noted)


def _increment(total: dict[str, int], before: dict[str, int], last: dict[str, int]) -> dict[str, int]:
    """What the counter moved on by, if it did. Where it went back (lines out of order), the last call counts."""
    if not total:
        return last
    if total == before:
        return {}
    moved = {name: value - before.get(name, 0) for name, value in total.items()}
    return moved if all(value >= 0 for value in moved.values()) else last


def _call(used: dict[str, int], noted: Noted, response_id: str | None) -> Fact:
    """OpenAI's input includes what was read from and written to the cache."""
    cached, written = used.get("cached_input_tokens"), used.get("cache_write_input_tokens")
    whole = used.get("input_tokens")
    usage = {
        "uncached_input_tokens": None if whole is None else max(whole - (cached or 0) - (written or 0), 0),
        "cache_read_tokens": cached,
        "cache_write_tokens": written,
        "output_tokens": used.get("output_tokens"),
        "reasoning_tokens": used.get("reasoning_output_tokens"),
    }
    return ts.model_call(
        usage,
        request_id=response_id,
        provider=noted.get("provider") or PROVIDER,
        model=noted.get("model"),
        payload={"response_id": response_id, "input_includes_cache": "true"},
    )


def _limits(told: dict[str, Any], noted: Noted) -> Iterator[Fact]:
    provider = noted.get("provider") or PROVIDER
    name = text(told.get("limit_name")) or text(told.get("limit_id")) or "codex"
    reached = text(told.get("rate_limit_reached_type"))
    for place in ("primary", "secondary"):
        window = table(told.get(place))
        used, minutes = measure(window.get("used_percent")), measure(window.get("window_minutes"))
        if used is None:
            continue
        status = "hit" if used >= USED_UP or reached == place else "low" if used >= LOW else "ok"
        payload = {
            "kind": "quota",
            "name": f"{name}.{place}",
            "scope": "account",
            "status": status,
            "unit": "percent",
            "used": used,
            "maximum": 100,
            "remaining": 100 - used,
            "window_s": None if minutes is None else minutes * 60,
            "resets_at": ts.moment(window.get("resets_at"))
            or _later(noted.get("time_ns"), window.get("resets_in_seconds")),
            "provider_name": provider,
            "plan": text(told.get("plan_type")),
        }
        yield {"type": "limit.changed", "status": status, "provider": provider, "payload": payload}
    if reached or told.get("spend_control_reached") is True:
        stopped = {
            "kind": "quota",
            "name": f"{name}.{reached or 'spend_control'}",
            "scope": "account",
            "status": "blocked",
            "provider_name": provider,
        }
        yield {"type": "quota.blocked", "status": "blocked", "provider": provider, "payload": stopped}
    yield from _credits(table(told.get("credits")), name)


def _later(now_ns: int | None, seconds: Any) -> str | None:
    """Older versions tell how long it takes until a window begins anew."""
    left = measure(seconds)
    return None if left is None or now_ns is None else ts.moment(now_ns / 1e9 + left)


def _credits(told: dict[str, Any], name: str) -> Iterator[Fact]:
    balance = told.get("balance")
    try:
        left = float(balance) if isinstance(balance, str | int | float) and not isinstance(balance, bool) else None
    except ValueError:
        left = None
    if left is not None and not told.get("unlimited"):
        status = "ok" if told.get("has_credits") else "blocked"
        payload = {"kind": "budget", "name": f"{name}.credits", "status": status, "unit": "credits", "remaining": left}
        yield {"type": "limit.changed", "status": status, "provider": PROVIDER, "payload": payload}


def _message(kind: str, payload: dict[str, Any]) -> Iterator[Fact]:
    told: dict[str, Any]
    match kind:
        case "task_started" | "turn_started":
            fact = {"type": "turn.started", "status": "running", "payload": {"status": "running"}}
            yield fact | {"trace_id": text(payload.get("trace_id"))}
        case "task_complete" | "turn_complete":
            yield _turn_ended(payload)
        case "turn_aborted":
            why = text(payload.get("reason"))
            told = {"status": "failed", "failure_category": why, "interrupted": why == "interrupted"}
            yield {"type": "turn.failed", "status": "failed", "error": why, "payload": told}
        case "user_message":
            yield _submitted(payload.get("message"))
        case "item_completed":
            yield from _item_completed(table(payload.get("item")), payload)
        case "thread_rolled_back":
            told = {"status": "completed", "target": "turn", "turns": count(payload.get("num_turns"))}
            yield {"type": "history.rollback.completed", "status": "completed", "payload": told}
        case "thread_name_updated":
            told = {"title": text(payload.get("thread_name")), "changed_fields": ["title"]}
            yield {"type": "session.updated", "payload": told}
        case _ if kind in ENDS:
            yield _ended(payload)


def _turn_ended(payload: dict[str, Any]) -> Fact:
    took = measure(payload.get("duration_ms"))
    done = {
        "status": "completed",
        "duration_ms": took,
        "output_chars": ts.size(payload["last_agent_message"]) if text(payload.get("last_agent_message")) else None,
    }
    return {"type": "turn.completed", "status": "completed", "duration_ms": took, "payload": done}


def _submitted(content: Any) -> Fact:
    payload = {"status": "accepted", "input_chars": ts.size(content), "source": "user"}
    return {"type": "turn.submitted", "status": "accepted", "payload": payload}


def _item_completed(item: dict[str, Any], payload: dict[str, Any]) -> Iterator[Fact]:
    """The client's own account of a finished item: how a tool call went and how long it took."""
    if item.get("type") == "UserMessage":
        yield _submitted(item.get("content"))
    elif item.get("type") in WORK_ITEMS:
        began, ended = measure(payload.get("started_at_ms")), measure(payload.get("completed_at_ms"))
        took = _took(item.get("duration"))
        if took is None and began is not None and ended is not None:
            took = max(ended - began, 0.0)
        yield _ended(item | {"call_id": item.get("id")}, took)


def _ended(told: dict[str, Any], took: float | None = None) -> Fact:
    code = told.get("exit_code")
    bad = told.get("status") in ("failed", "declined") or told.get("success") is False
    bad = bad or (isinstance(code, int) and code != 0)
    error = ("permission_denied" if told.get("status") == "declined" else "tool_failed") if bad else None
    took = _took(told.get("duration")) if took is None else took
    payload = {"exit_code": code, "error_code": str(code) if bad and code is not None else None}
    if not bad:
        payload["success"] = True
    return ts.tool_ended(text(told.get("call_id")), None, None, error=error, duration_ms=took, payload=payload)


def _took(duration: Any) -> float | None:
    seconds, nanos = measure(table(duration).get("secs")), measure(table(duration).get("nanos"))
    return None if seconds is None else seconds * 1000 + (nanos or 0) / 1e6
