"""Claude Code's session files: what each line says about calls, tools, turns, subagents and compactions."""

import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from ingest.dialects import transcript as ts
from ingest.dialects.dialect import Dialect
from ingest.dialects.transcript import Fact, Line, Noted, count, items, measure, table, text

PROVIDER = "anthropic"
SYNTHETIC = "<synthetic>"
"""The model of lines that the client wrote itself; nobody was asked and nothing is billed."""

AGENT_TOOLS = frozenset({"Agent", "Task"})
TOOL_REQUESTS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
REFUSED = ("The user doesn't want to", "Permission to use", "was rejected", "[Request interrupted by user")
COMPACTIONS = {"system.compact_boundary": "compactMetadata", "system.microcompact_boundary": "microcompactMetadata"}
TOO_MANY = 429
TOOL_ID = "toolu_"
LIMIT = re.compile(r"(?i)usage limit|(hit|reached) your .*limit|credit balance is too low")
RESET = re.compile(r"\|(\d{10})\b")
LIMIT_STATES = {"allowed": "ok", "allowed_warning": "low", "rejected": "blocked"}
WINDOWS_S = {"five_hour": 5 * 3600, "seven_day": 7 * 86_400}
MODES = {"bypassPermissions": "bypass", "acceptEdits": "auto", "dontAsk": "never"}


class ClaudeCodeTranscript(Dialect, name="transcript_claude_code"):
    """The same sessions, calls and tools as Claude Code's telemetry, by the same ids."""

    wants = ts.WANTED
    claims = ts.of_format("claude_code")

    def events(self, records: pl.LazyFrame) -> pl.LazyFrame:
        """Each line's facts; lines of other kinds are kept as records only."""
        return ts.events_from(records, read)


def read(name: str, line: Line, noted: Noted) -> Iterator[Fact]:
    """The facts of one line."""
    common = {
        "turn_id": text(line.get("promptId")) or noted.get("turn"),
        "subagent_id": text(line.get("agentId")),
        "agent_name": text(line.get("attributionAgent")),
    }
    for fact in _facts(name, line, noted):
        yield common | fact


def _facts(name: str, line: Line, noted: Noted) -> Iterator[Fact]:
    if noted.get("opens"):
        yield _opened(line)
    if "mode_before" in noted:
        yield _mode_changed(line, noted)
    if line.get("agentId") and line.get("parentUuid", "") is None:
        yield _spawned(text(line.get("agentId")), {"status": "running"})
    match name:
        case "assistant":
            yield from _assistant(line, repeats="repeats" in noted)
            if table(line.get("message")).get("stop_reason") == "end_turn" and not line.get("isSidechain"):
                done = {"status": "completed", "stop_reason": "end_turn"}
                yield {"type": "turn.completed", "status": "completed", "payload": done}
        case "user" if noted.get("interrupted"):
            told = {"status": "failed", "failure_category": "interrupted", "interrupted": True}
            yield {"type": "turn.failed", "status": "failed", "error": "interrupted", "payload": told}
        case "user":
            yield from _user(line, noted)
        case "progress":
            yield from _progress(line, table(line.get("data")), noted)
        case "rate_limit_event":
            yield from _limits(table(line.get("rate_limit_info")))
        case "system.api_error":
            yield from _api_error(line)
        case "system.turn_duration":
            took = measure(line.get("durationMs"))
            payload = {"status": "completed", "duration_ms": took}
            yield {"type": "turn.completed", "status": "completed", "duration_ms": took, "payload": payload}
        case "system.stop_hook_summary":
            yield from _hooks(line)
        case "custom-title" | "ai-title":
            # A `summary` line is no title of this session: it may be about any, by the id of that one's last line.
            title = text(line.get("customTitle") or line.get("aiTitle") or line.get("title"))
            yield {"type": "session.updated", "payload": {"title": title, "changed_fields": ["title"]}}
        case "subagent.meta":
            yield _noted_subagent(line, noted)
        case _ if name in COMPACTIONS:
            yield _compacted(table(line.get(COMPACTIONS[name])))


def _opened(line: Line) -> Fact:
    payload = {
        "client_name": "claude-code",
        "client_version": text(line.get("version")),
        "cwd": text(line.get("cwd")),
        "source": text(line.get("entrypoint")),
        "metadata": {"git_branch": line["gitBranch"]} if text(line.get("gitBranch")) else {},
    }
    return {"type": "session.created", "payload": payload}


def _mode_changed(line: Line, noted: Noted) -> Fact:
    mode, before = str(line.get("permissionMode")), str(noted["mode_before"])
    payload = {
        "policy_scope": "session",
        "permission_mode": MODES.get(mode, mode),
        "changed_rules": {"permission_mode": {"from": before, "to": mode}},
    }
    return {"type": "policy.changed", "payload": payload}


def _assistant(line: Line, *, repeats: bool) -> Iterator[Fact]:
    message = table(line.get("message"))
    model = text(message.get("model"))
    request_id, response_id = text(line.get("requestId")), text(message.get("id"))
    if line.get("isApiErrorMessage"):
        said = next((text(table(block).get("text")) for block in items(message.get("content"))), None)
        error = text(line.get("error")) or "api_error"
        yield ts.model_failed(error, said, provider=PROVIDER, model_request_id=request_id)
        yield from _used_up(error, said)
    elif model != SYNTHETIC and not repeats:
        payload = {
            "response_id": response_id,
            "request_id": request_id,
            "stop_reason": text(message.get("stop_reason")),
            "input_includes_cache": "false",
        }
        # The telemetry of this client knows a call by the request's id only.
        yield ts.model_call(
            _usage(table(message.get("usage"))),
            request_id=request_id or response_id,
            provider=PROVIDER,
            model=model,
            payload=payload,
        )
    for block in map(table, items(message.get("content"))):
        if block.get("type") in TOOL_REQUESTS:
            yield _tool_started(block)


def _usage(usage: dict[str, Any]) -> dict[str, int | None]:
    """Anthropic counts cached input apart. `iterations` repeats the totals."""
    writes = table(usage.get("cache_creation"))
    write = count(usage.get("cache_creation_input_tokens"))
    details = table(usage.get("output_tokens_details"))
    told = {
        "uncached_input_tokens": count(usage.get("input_tokens")),
        "cache_read_tokens": count(usage.get("cache_read_input_tokens")),
        "cache_write_tokens": write,
        "output_tokens": count(usage.get("output_tokens")),
        "reasoning_tokens": count(details.get("thinking_tokens")),
    }
    long, short = count(writes.get("ephemeral_1h_input_tokens")), count(writes.get("ephemeral_5m_input_tokens"))
    if write and (long or 0) + (short or 0) == write:
        told |= {"cache_write_1h_tokens": long, "cache_write_5m_tokens": short}
    return told


def _tool_started(block: dict[str, Any]) -> Fact:
    name = text(block.get("name"))
    payload = {"item_kind": "subagent"} if name in AGENT_TOOLS else {}
    if block.get("type") != "tool_use":
        payload["runtime_owner"] = "provider"
    return ts.tool_started(text(block.get("id")), name, block.get("input"), payload=payload)


def _user(line: Line, noted: Noted) -> Iterator[Fact]:
    content = table(line.get("message")).get("content")
    results = [table(block) for block in items(content) if table(block).get("type") == "tool_result"]
    more = table(line.get("toolUseResult")) if len(results) == 1 else {}
    for block in results:
        yield from _tool_result(block, more)
    own = not (results or line.get("isMeta") or line.get("isCompactSummary") or line.get("isSidechain"))
    if own and content is not None:
        options = {"permission_mode": line["permissionMode"]} if text(line.get("permissionMode")) else {}
        payload = {
            "status": "accepted",
            "input_chars": ts.size(content),
            "source": text(line.get("promptSource")) or "user",
            "options": options,
        }
        turn = text(line.get("promptId")) or noted.get("turn") or text(line.get("uuid"))
        yield {"type": "turn.submitted", "status": "accepted", "turn_id": turn, "payload": payload}


def _tool_result(block: dict[str, Any], more: dict[str, Any]) -> Iterator[Fact]:
    call_id, output = text(block.get("tool_use_id")), block.get("content")
    took = measure(more.get("durationMs") or more.get("totalDurationMs"))
    spilled = text(more.get("persistedOutputPath"))
    error = _refusal(output) if block.get("is_error") else None
    payload: dict[str, Any] = {"result_ref": spilled}
    if error is None:
        payload |= {"success": True, "truncated": True if spilled or more.get("truncated") else None}
    yield ts.tool_ended(call_id, None, output, error=error, duration_ms=took, payload=payload)
    if spilled:
        kept = {"output_ref": spilled, "size_bytes": count(more.get("persistedOutputSize"))}
        yield {"type": "output.spilled", "tool_call_id": call_id, "payload": kept}
    if agent := text(more.get("agentId")):
        yield _agent_ended(agent, call_id, took, more)


def _refusal(output: Any) -> str:
    said = output if isinstance(output, str) else str(output)
    return "permission_denied" if any(words in said[:2000] for words in REFUSED) else "tool_failed"


def _agent_ended(agent: str, call_id: str | None, took: float | None, more: dict[str, Any]) -> Fact:
    """The usage beside it is that of the last request only, so it is left out; the agent's own file has the calls."""
    status = text(more.get("status")) or "completed"
    launched = status in ("async_launched", "running")
    payload = {
        "status": "running" if launched else "completed",
        "native_status": status,
        "role": text(more.get("agentType")),
        "duration_ms": took,
        "tool_calls": count(more.get("totalToolUseCount")),
    }
    return {
        "type": "subagent.status" if launched else "subagent.completed",
        "status": payload["status"],
        "subagent_id": agent,
        "tool_call_id": call_id,
        "agent_name": text(more.get("agentType")),
        "duration_ms": took,
        "payload": payload,
    }


def _spawned(agent: str | None, payload: dict[str, Any], **fact: Any) -> Fact:
    return {"type": "subagent.spawned", "status": "running", "subagent_id": agent, "payload": payload} | fact


def _noted_subagent(line: Line, noted: Noted) -> Fact:
    kind = text(line.get("agentType"))
    payload = {"status": "running", "agent_type": kind, "role": kind, "objective": text(line.get("description"))}
    return _spawned(text(noted.get("agent")), payload, tool_call_id=text(line.get("toolUseId")), agent_name=kind)


def _api_error(line: Line) -> Iterator[Fact]:
    """An attempt that failed and is tried again."""
    error = table(line.get("error"))
    inner = table(table(error.get("error")).get("error")) or table(error.get("error")) or error
    status = count(error.get("status"))
    kind = text(inner.get("type")) or (f"http_{status}" if status else "api_error")
    payload = {
        "http_status": status,
        "retryable": True,
        "retry_after_ms": measure(line.get("retryInMs")),
        "attempt_index": count(line.get("retryAttempt")),
    }
    yield ts.model_failed(kind, text(inner.get("message")), provider=PROVIDER, payload=payload)
    if status == TOO_MANY:
        told: dict[str, Any] = {"limiter": "provider", "kind": "rate_limit", "status": "hit"}
        told |= {"provider_name": PROVIDER, "http_status": status, "retry_after_ms": payload["retry_after_ms"]}
        yield {"type": "rate_limit.hit", "status": "hit", "provider": PROVIDER, "payload": told}


def _used_up(error: str, said: str | None) -> Iterator[Fact]:
    """The client stopped because of a limit of the plan; older versions put the time of its reset behind a bar."""
    if error != "rate_limit" and not LIMIT.search(said or ""):
        return
    told = {
        "kind": "quota",
        "name": "plan",
        "scope": "account",
        "status": "blocked",
        "blocked": "model call",
        "message": said[: ts.MESSAGE_CHARS] if said else None,
        "provider_name": PROVIDER,
        "resets_at": ts.moment(int(found[1])) if (found := RESET.search(said or "")) else None,
    }
    yield {"type": "quota.blocked", "status": "blocked", "provider": PROVIDER, "payload": told}


def _limits(told: dict[str, Any]) -> Iterator[Fact]:
    """Where the windows of the plan stand; how much of one is used is a part of 1."""
    windows = {name: table(window) for name, window in table(told.get("unifiedWindows")).items()}
    named = text(told.get("rateLimitType"))
    if named and named not in windows:
        windows[named] = told
    for name, window in windows.items():
        share = measure(window.get("utilization"))
        used = None if share is None else round(share * 100, 6)
        word = text(told.get("status")) if name == named else None
        status = LIMIT_STATES.get(word or "", "unknown" if used is None else "hit" if used >= 100 else "ok")
        payload = {
            "kind": "quota",
            "name": name,
            "scope": "account",
            "status": status,
            "unit": "percent",
            "used": used,
            "maximum": 100,
            "remaining": None if used is None else 100 - used,
            "window_s": WINDOWS_S.get(name.split("_opus")[0].split("_sonnet")[0]),
            "resets_at": ts.moment(window.get("resetsAt")),
            "provider_name": PROVIDER,
        }
        yield {"type": "limit.changed", "status": status, "provider": PROVIDER, "payload": payload}


def _progress(line: Line, data: dict[str, Any], noted: Noted) -> Iterator[Fact]:
    """What goes on inside a call: hooks that are run, and what a child agent says and does."""
    call_id = text(line.get("parentToolUseID"))
    if data.get("type") == "hook_progress":
        payload = {
            "point": text(data.get("hookEvent")),
            "hook_name": text(data.get("hookName")),
            "handler_ref": text(data.get("command")),
        }
        about = call_id if call_id and call_id.startswith(TOOL_ID) else None
        yield {"type": "hook.started", "status": "running", "tool_call_id": about, "payload": payload}
    elif data.get("type") == "agent_progress" and (agent := text(data.get("agentId"))):
        whose = {"subagent_id": agent}
        if noted.get("first_of_agent"):
            yield _spawned(agent, {"status": "running"}, tool_call_id=call_id)
        message = table(data.get("message"))
        if message.get("type") == "assistant":
            yield from (whose | fact for fact in _assistant(message, repeats=False))
        elif message.get("type") == "user":
            for block in map(table, items(table(message.get("message")).get("content"))):
                if block.get("type") == "tool_result":
                    yield from (whose | fact for fact in _tool_result(block, {}))


def _compacted(told: dict[str, Any]) -> Fact:
    before, saved = count(told.get("preTokens")), count(told.get("tokensSaved"))
    after = count(told.get("postTokens"))
    if after is None and before is not None and saved is not None:
        after = before - saved
    took = measure(told.get("durationMs"))
    payload = {
        "status": "completed",
        "trigger": text(told.get("trigger")),
        "tokens_before": before,
        "tokens_after": after,
        "duration_ms": took,
    }
    return {"type": "context.compaction.completed", "status": "completed", "duration_ms": took, "payload": payload}


def _hooks(line: Line) -> Iterator[Fact]:
    failed = bool(items(line.get("hookErrors")))
    for hook in map(table, items(line.get("hookInfos"))):
        took = measure(hook.get("durationMs"))
        payload = {
            "point": "stop",
            "hook_name": "Stop",
            "handler_ref": text(hook.get("command")),
            "status": "failed" if failed else "completed",
            "duration_ms": took,
        }
        kind = "hook.failed" if failed else "hook.completed"
        yield {"type": kind, "status": payload["status"], "duration_ms": took, "payload": payload}
