"""Session files of each client: resumed, forked, rewound, compacted, compressed, cut off, shuffled."""

import gzip
import json
import os
import random
import struct
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import zstandard

from collector.home import Home
from collector.importing import Import
from ingest.importers.importer import MAX_LINE_BYTES
from tests.ingest.importers.importing_home import imported, one, rows

REAL = Path(__file__).resolve().parents[3] / "sample_traces" / "real"
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SESSION = "11111111-2222-3333-4444-555555555555"
THREAD = "01a1ed58-0000-7000-8000-000000000001"


def at(second: float) -> str:
    return (BEGIN + timedelta(seconds=second)).isoformat().replace("+00:00", "Z")


def write(path: Path, lines: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def claude(kind: str, second: float, **more: Any) -> dict[str, Any]:
    base = {
        "type": kind,
        "sessionId": SESSION,
        "uuid": f"u{second}",
        "timestamp": at(second),
        "cwd": "/w",
        "version": "2",
    }
    return base | more


def answer(
    second: float, output: int, *, message: str = "msg_1", request: str = "req_1", **more: Any
) -> dict[str, Any]:
    usage = {
        "input_tokens": 10,
        "output_tokens": output,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 7,
    }
    body = {"id": message, "role": "assistant", "model": "claude-sonnet-4-5", "usage": usage, "content": []}
    return claude("assistant", second, requestId=request, message=body | more.pop("message_more", {}), **more)


def codex(kind: str, second: float, payload: dict[str, Any]) -> dict[str, Any]:
    return {"timestamp": at(second), "type": kind, "payload": payload}


def used(total: int) -> dict[str, int]:
    return {
        "input_tokens": total,
        "cached_input_tokens": total // 2,
        "output_tokens": total // 10,
        "total_tokens": total,
    }


def token_count(second: float, total: int, last: int, **more: Any) -> dict[str, Any]:
    info = {"total_token_usage": used(total), "last_token_usage": used(last)}
    return codex("event_msg", second, {"type": "token_count", "info": info, **more})


def thread(thread_id: str = THREAD, **more: Any) -> list[dict[str, Any]]:
    return [
        codex(
            "session_meta", 0, {"id": thread_id, "timestamp": at(0), "cwd": "/w", "model_provider": "openai", **more}
        ),
        codex("turn_context", 1, {"turn_id": "t1", "model": "gpt-5.1", "cwd": "/w"}),
    ]


def test_lines_of_one_answer_are_one_call_with_the_most_output(tmp_path: Path) -> None:
    write(tmp_path / f"{SESSION}.jsonl", [answer(1, 1), answer(2, 420), answer(3, 420)])
    imported(tmp_path / "home", tmp_path / f"{SESSION}.jsonl")
    (call,) = rows(tmp_path / "home", "select * from model_calls")
    assert (call["call_id"], call["output_tokens"]) == ("req_1", 420)
    assert (call["uncached_input_tokens"], call["cache_read_tokens"], call["cache_write_tokens"]) == (10, 5, 7)
    payload = json.loads(one(tmp_path / "home", "select payload from events where output_tokens = 420"))
    assert (payload["response_id"], payload["request_id"]) == ("msg_1", "req_1")
    # The third line repeats the second's usage and tells nothing new.
    assert one(tmp_path / "home", "select count(*) from events where type = 'model.completed'") == 2


def test_lines_that_a_resumed_session_copied_are_stored_once(tmp_path: Path) -> None:
    old, new = tmp_path / "files" / "old.jsonl", tmp_path / "files" / "new.jsonl"
    write(old, [answer(1, 30)])
    other = {"sessionId": "99999999-2222-3333-4444-555555555555"}
    write(new, [answer(1, 30) | other, answer(9, 40, message="msg_2", request="req_2") | other])
    os.utime(old, (1, 1))
    imported(tmp_path / "home", tmp_path / "files")
    found = rows(tmp_path / "home", "select session_id, output_tokens from model_calls order by output_tokens")
    assert [(row["session_id"][:1], row["output_tokens"]) for row in found] == [("1", 30), ("9", 40)]


def test_what_the_client_wrote_itself_is_no_call_and_an_error_is_a_failed_one(tmp_path: Path) -> None:
    synthetic = {"model": "<synthetic>", "content": [{"type": "text", "text": "API Error: 529"}]}
    lines = [
        answer(1, 0, request="", message="a", message_more=synthetic),
        answer(2, 0, message="b", request="req_2", message_more=synthetic, isApiErrorMessage=True, error="overloaded"),
        claude("system", 3, subtype="api_error", error={"status": 529}, retryInMs=500.0, retryAttempt=1),
    ]
    imported(tmp_path / "home", write(tmp_path / "s.jsonl", lines))
    found = rows(tmp_path / "home", "select status, error from model_calls order by error")
    assert found == [{"status": "failed", "error": "http_529"}, {"status": "failed", "error": "overloaded"}]


def test_compaction_permission_mode_and_spilled_output_are_facts(tmp_path: Path) -> None:
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "head"}]}
    lines = [
        claude("user", 1, message={"role": "user", "content": "hello"}, permissionMode="default"),
        claude("system", 2, subtype="compact_boundary", compactMetadata={"trigger": "auto", "preTokens": 900}),
        claude("user", 3, message=result, toolUseResult={"persistedOutputPath": "/x/tool-results/1.txt"}),
        claude("user", 4, message={"role": "user", "content": "go"}, permissionMode="bypassPermissions"),
    ]
    imported(tmp_path / "home", write(tmp_path / "s.jsonl", lines))
    events = rows(tmp_path / "home", "select type, payload, tool_call_id from events")
    found = {event["type"]: json.loads(event["payload"]) for event in events}
    assert found["context.compaction.completed"]["tokens_before"] == 900
    assert found["policy.changed"]["permission_mode"] == "bypass"
    assert found["output.spilled"]["output_ref"] == "/x/tool-results/1.txt"
    assert found["session.created"]["client_version"] == "2"


def test_limits_retries_interruptions_and_hooks_are_facts(tmp_path: Path) -> None:
    info = {"status": "allowed_warning", "rateLimitType": "five_hour", "resetsAt": 1_767_225_600}
    info |= {"unifiedWindows": {"seven_day": {"utilization": 0.25, "resetsAt": 1_767_225_600}}, "utilization": 0.9}
    synthetic = {"model": "<synthetic>", "content": [{"type": "text", "text": "usage limit reached|1767225600"}]}
    hook = {"type": "hook_progress", "hookEvent": "PreToolUse", "hookName": "PreToolUse:Bash", "command": "check.sh"}
    stop = {"role": "user", "content": [{"type": "text", "text": "[Request interrupted by user]"}]}
    lines = [
        claude("user", 1, message={"role": "user", "content": "hello"}),
        claude("rate_limit_event", 2, rate_limit_info=info),
        claude("system", 3, subtype="api_error", error={"status": 429}, retryInMs=500.0, retryAttempt=1),
        answer(4, 0, message="b", request="r", message_more=synthetic, isApiErrorMessage=True, error="rate_limit"),
        claude("progress", 5, data=hook, toolUseID="toolu_1", parentToolUseID="toolu_1"),
        claude("user", 6, message=stop),
    ]
    done = imported(tmp_path / "home", write(tmp_path / "s.jsonl", lines))
    assert done.unknown == {}
    query = "select type, status, payload, tool_call_id, turn_id from events where type not like 'session%'"
    found = rows(tmp_path / "home", query + " order by timestamp, event_id")
    told = [json.loads(row["payload"]) for row in found]
    assert [row["type"] for row in found] == [
        *("turn.submitted", "limit.changed", "limit.changed", "model.failed", "rate_limit.hit", "model.failed"),
        *("quota.blocked", "hook.started", "turn.failed"),
    ]
    assert [(one["name"], one["used"], one["status"], one["window_s"]) for one in told[1:3]] == [
        ("seven_day", 25.0, "ok", 604_800),
        ("five_hour", 90.0, "low", 18_000),
    ]
    assert {one["resets_at"] for one in (told[1], told[2], told[6])} == {"2026-01-01T00:00:00+00:00"}
    assert (told[4]["retry_after_ms"], found[7]["tool_call_id"]) == (500.0, "toolu_1")
    assert found[8]["turn_id"] == found[0]["turn_id"]


def test_subagents_are_attached_by_recorded_ids(tmp_path: Path) -> None:
    imported(tmp_path / "home", REAL / "claude_code" / "cc_subagent" / "transcript")
    found = rows(
        tmp_path / "home",
        "select subagent_id, max(tool_call_id) as tool_call_id, list(distinct type order by type) as types from events"
        " where subagent_id is not null and type like 'subagent.%' group by all order by 1",
    )
    assert [(row["subagent_id"], row["tool_call_id"]) for row in found] == [
        ("a19c8a3fab8b6cd34", "toolu_017fa324e95ec8421899b3f6"),
        ("ad086966960905c66", "toolu_0130ee58b3b1e94315a54c6b"),
    ]
    assert all(row["types"] == ["subagent.completed", "subagent.spawned"] for row in found)
    inside = "select count(*) from model_calls where subagent_id is not null"
    assert one(tmp_path / "home", inside) == 4


def test_codex_calls_are_the_increments_of_the_counter(tmp_path: Path) -> None:
    lines = [*thread(), token_count(2, 100, 100), token_count(3, 100, 100), token_count(4, 250, 150)]
    # The third call's own line was lost; the counter still tells.
    lines.append(token_count(5, 450, 80))
    imported(tmp_path / "home", write(tmp_path / "rollout-x.jsonl", lines))
    found = rows(
        tmp_path / "home", "select uncached_input_tokens, output_tokens, model, provider from model_calls order by 2"
    )
    assert [(row["uncached_input_tokens"], row["output_tokens"]) for row in found] == [(50, 10), (75, 15), (100, 20)]
    assert {(row["model"], row["provider"]) for row in found} == {("gpt-5.1", "openai")}


def test_codex_windows_used_up_plans_and_changed_policies_are_facts(tmp_path: Path) -> None:
    windows = {"primary": {"used_percent": 85.0, "window_minutes": 300, "resets_in_seconds": 60}}
    windows |= {"secondary": {"used_percent": 100.0, "window_minutes": 10080, "resets_at": 1_767_225_600}}
    limits = {"limit_id": "codex", "rate_limit_reached_type": "secondary", **windows}

    def allowed(second: float, approval: str, sandbox: str) -> dict[str, Any]:
        policy = {"approval_policy": approval, "sandbox_policy": {"type": sandbox}}
        return codex("turn_context", second, {"turn_id": "t1", "model": "gpt-5.1", **policy})

    lines = [
        *thread(),
        allowed(2, "on-request", "read-only"),
        allowed(3, "on-request", "read-only"),
        allowed(4, "never", "danger-full-access"),
        token_count(5, 100, 100, rate_limits=limits),
    ]
    imported(tmp_path / "home", write(tmp_path / "rollout-x.jsonl", lines))
    kinds = "('limit.changed', 'quota.blocked', 'policy.changed', 'sandbox.applied')"
    query = f"select type, payload from events where type in {kinds} order by timestamp, event_id"
    found = [(row["type"], json.loads(row["payload"])) for row in rows(tmp_path / "home", query)]
    assert [kind for kind, _ in found] == [
        *("sandbox.applied", "policy.changed", "sandbox.applied", "limit.changed", "limit.changed", "quota.blocked")
    ]
    assert found[1][1]["changed_rules"]["approval_policy"] == {"from": "on-request", "to": "never"}
    assert (found[0][1]["enforced"], found[2][1]["enforced"]) == (True, False)
    assert [(told["status"], told["window_s"], told["resets_at"][:16]) for _, told in found[3:5]] == [
        ("low", 18_000, "2026-01-01T00:01"),
        ("hit", 604_800, "2026-01-01T00:00"),
    ]
    assert found[5][1]["name"] == "codex.secondary"


def test_a_usage_record_and_the_counter_beside_it_are_one_call(tmp_path: Path) -> None:
    record = {"thread_id": THREAD, "turn_id": "t1", "response_id": "resp_1", "usage": used(100)}
    record |= {"thread_token_usage": used(100)}
    lines = [*thread(), codex("token_usage_record", 2, record), token_count(3, 100, 100)]
    imported(tmp_path / "home", write(tmp_path / "rollout-x.jsonl", lines))
    assert rows(tmp_path / "home", "select call_id, output_tokens from model_calls") == [
        {"call_id": "resp_1", "output_tokens": 10}
    ]


@pytest.mark.parametrize("told_by", ["parent's file", "ordinal", "time"])
def test_a_fork_does_not_count_its_parents_calls_again(tmp_path: Path, told_by: str) -> None:
    child = "01a1ed58-0000-7000-8000-000000000002"
    call = codex("response_item", 3, {"type": "function_call", "name": "shell", "call_id": "c1", "arguments": "{}"})
    parent = [*thread(), token_count(2, 100, 100), call, token_count(4, 250, 150)]
    shift = 100 if told_by != "time" else 0
    copied = [line | {"timestamp": at(shift + 1)} if shift else line for line in parent]
    more = {"subagent_history_start_ordinal": 6} if told_by == "ordinal" else {}
    head = codex("session_meta", 100, {"id": child, "forked_from_id": THREAD, "timestamp": at(100), **more})
    lines = [head, *copied, token_count(110, 310, 60)]
    lines = [line | {"ordinal": place} for place, line in enumerate(lines)]
    folder = tmp_path / "sessions" / "2026" / "01" / "01"
    write(folder / f"rollout-2026-01-01T00-01-40-{child}.jsonl", lines)
    if told_by == "parent's file":
        write(folder / f"rollout-2026-01-01T00-00-00-{THREAD}.jsonl", parent)
    imported(tmp_path / "home", tmp_path / "sessions")
    own = f"select output_tokens from model_calls where session_id = '{child}'"
    assert rows(tmp_path / "home", own) == [{"output_tokens": 6}]
    assert one(tmp_path / "home", f"select count(*) from tool_calls where session_id = '{child}'") == 0
    created = "select payload ->> '$.resumed_from' from events where type = 'session.created' and session_id = "
    assert one(tmp_path / "home", f"{created} '{child}'") == THREAD


def test_codex_limits_are_a_series_with_windows_and_resets(tmp_path: Path) -> None:
    limits = {
        "limit_id": "codex",
        "primary": {"used_percent": 42.5, "window_minutes": 300, "resets_at": 1767243600},
        "secondary": {"used_percent": 100.0, "window_minutes": 10080, "resets_at": 1767743600},
    }
    lines = [*thread(), token_count(2, 100, 100, rate_limits=limits)]
    imported(tmp_path / "home", write(tmp_path / "rollout-x.jsonl", lines))
    found = rows(tmp_path / "home", "select payload, status from events where type = 'limit.changed' order by status")
    full, part = [json.loads(row["payload"]) for row in found]
    assert (part["used"], part["maximum"], part["unit"], part["window_s"]) == (42.5, 100, "percent", 18_000)
    assert part["resets_at"] == "2026-01-01T05:00:00+00:00"
    assert [row["status"] for row in found] == ["hit", "ok"]
    assert full["name"] == "codex.secondary"


def test_the_oldest_codex_files_are_read(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"id": THREAD, "timestamp": at(0), "instructions": None, "git": {}},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "function_call", "name": "shell", "call_id": "c1", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": '{"output":"x","metadata":{"exit_code":1}}'},
    ]
    done = imported(tmp_path / "home", write(tmp_path / "rollout-old.jsonl", lines))
    assert (done.items, dict(done.unknown)) == (5, {})
    assert rows(tmp_path / "home", "select session_id, tool_name, status from tool_calls") == [
        {"session_id": THREAD, "tool_name": "shell", "status": "failed"}
    ]


def test_an_older_gemini_chat_is_one_document(tmp_path: Path) -> None:
    tokens = {"input": 30, "output": 5, "cached": 10, "thoughts": 2, "tool": 0, "total": 37}
    messages = [
        {"id": "m1", "timestamp": at(1), "type": "user", "content": "hi"},
        {"id": "m2", "timestamp": at(2), "type": "gemini", "content": "x", "tokens": tokens, "model": "gemini-2.5-pro"},
    ]
    chat = {"sessionId": SESSION, "projectHash": "h", "startTime": at(0), "lastUpdated": at(2), "messages": messages}
    path = tmp_path / "session-1.json"
    path.write_text(json.dumps(chat, indent=2))
    imported(tmp_path / "home", path)
    (call,) = rows(tmp_path / "home", "select session_id, uncached_input_tokens, cache_read_tokens from model_calls")
    assert call == {"session_id": SESSION, "uncached_input_tokens": 20, "cache_read_tokens": 10}


def test_a_result_stream_of_a_runner_is_a_session(tmp_path: Path) -> None:
    call = {"tool_call_id": "c1", "tool_name": "search"}
    lines = [
        {"run_id": "r1", "type": "tool.call.started", "data": call, "sequence": 1, "timestamp": 1767225600},
        {"run_id": "r1", "type": "tool.call.completed", "data": call | {"error": "no"}, "sequence": 2},
        {"run_id": "r1", "type": "something.new", "data": {}, "sequence": 3},
        {"run_id": "r1", "type": "run.failed", "data": {"error": "gave up", "code": "limit"}, "sequence": 4},
    ]
    done = imported(tmp_path / "home", write(tmp_path / "run.jsonl", lines))
    assert done.unknown == {"agent_runner something.new": 1}
    (session,) = rows(tmp_path / "home", "select session_id, status, tool_calls_failed from sessions")
    assert session == {"session_id": "r1", "status": "failed", "tool_calls_failed": 1}


@pytest.mark.parametrize("fold", [gzip.compress, zstandard.compress])
def test_compressed_rollouts_are_read(tmp_path: Path, fold: Any) -> None:
    source = next((REAL / "codex" / "cx_basic" / "transcript").rglob("*.jsonl"))
    path = tmp_path / f"{source.name}.zst"
    path.write_bytes(fold(source.read_bytes()))
    imported(tmp_path / "home", path, strict=True)
    assert one(tmp_path / "home", "select sum(output_tokens)::bigint from model_calls") == 95


def test_a_damaged_sample_of_an_evaluation_costs_itself(tmp_path: Path) -> None:
    source = next((REAL / "inspect_ai" / "weather" / "transcript").glob("*.eval"))
    content = bytearray(source.read_bytes())
    with zipfile.ZipFile(source) as archive:
        member = archive.getinfo("samples/s2_epoch_1.json")
    names = struct.unpack("<HH", content[member.header_offset + 26 : member.header_offset + 30])
    start = member.header_offset + 30 + sum(names)
    content[start + 20 : start + 60] = bytes(40)
    path = tmp_path / "damaged.eval"
    path.write_bytes(content)
    done = imported(tmp_path / "home", path)
    assert [problem.reason.split(":")[0] for problem in done.problems] == ["samples/s2_epoch_1.json"]
    assert one(tmp_path / "home", "select count(*) from sessions") == 2


def test_shuffled_lines_give_the_same_calls(tmp_path: Path) -> None:
    source = next((REAL / "claude_code" / "cc_edit" / "transcript").rglob("*.jsonl"))
    lines = source.read_text().splitlines(keepends=True)
    random.Random(7).shuffle(lines)
    path = tmp_path / source.name
    path.write_text("".join(lines))
    done = imported(tmp_path / "home", path)
    assert not done.problems
    found = rows(tmp_path / "home", "select count(*) as calls, sum(output_tokens)::bigint as output from model_calls")
    assert found == [{"calls": 4, "output": 239}]
    assert one(tmp_path / "home", "select count(*) from sessions") == 1


def test_a_cut_off_last_line_is_named_and_taken_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    whole = json.dumps(answer(2, 20, message="m2", request="r2")) + "\n"
    path.write_text(json.dumps(answer(1, 10)) + "\n" + whole[:80])
    done = imported(tmp_path / "home", path)
    (problem,) = done.problems
    assert (problem.line, "the file ends in the middle of a line" in problem.reason) == (2, True)
    path.write_text(json.dumps(answer(1, 10)) + "\n" + whole)
    done = imported(tmp_path / "home", path)
    assert (done.items, done.problems) == (1, [])
    assert one(tmp_path / "home", "select count(*) from model_calls") == 2


def test_other_encodings_are_read_or_named(tmp_path: Path) -> None:
    text = json.dumps(answer(1, 10, message="m1", request="r1", note="schön")) + "\n"
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (tmp_path / "b.jsonl").write_text(text.replace("m1", "m2").replace("r1", "r2").replace("u1", "u2"), "utf-16")
    latin = text.replace("\\u00f6", "ö").replace("u1", "u3").encode("latin-1")
    half = text.replace("\\u00f6", "\\ud83d").replace("m1", "m4").replace("r1", "r4").replace("u1", "u4").encode()
    (tmp_path / "c.jsonl").write_bytes(latin + half)
    done = imported(tmp_path / "home", *sorted(tmp_path.glob("*.jsonl")))
    assert [(problem.path.name, problem.line, problem.reason) for problem in done.problems] == [
        ("c.jsonl", 1, "not UTF-8 text (it looks like an older 8-bit encoding)")
    ]
    assert one(tmp_path / "home", "select count(*) from model_calls") == 3


def test_a_line_of_200_mb_costs_itself_and_its_size_is_told(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    with path.open("w") as file:
        file.write(json.dumps(answer(1, 10)) + "\n" + '{"type":"user","x":"')
        for _ in range(200):
            file.write("y" * 1_000_000)
        file.write('"}\n' + json.dumps(answer(2, 20, message="m2", request="r2")) + "\n")
    done = imported(tmp_path / "home", path)
    (problem,) = done.problems
    assert problem.line == 2
    assert f"at most {MAX_LINE_BYTES} are taken" in problem.reason
    assert "200000023 bytes" in problem.reason
    assert one(tmp_path / "home", "select count(*) from model_calls") == 2


def test_secrets_in_lines_are_masked_before_they_reach_the_disk(tmp_path: Path) -> None:
    secret = "sk-ant-api03-" + "a1B2c3D4e5" * 9 + "AA"
    done = imported(tmp_path / "home", write(tmp_path / "s.jsonl", [answer(1, 10, note=f"key {secret}")]))
    assert done.redactions == 1
    assert secret not in one(tmp_path / "home", "select body::varchar from records")


def test_a_growing_file_is_followed_line_by_line(tmp_path: Path) -> None:
    path = write(tmp_path / "s.jsonl", [answer(1, 10)])
    with Import.into(Home(tmp_path / "home")) as running:
        assert running.follow(path)
        assert not running.follow(path)
        whole = json.dumps(answer(2, 20, message="m2", request="r2")) + "\n"
        with path.open("a") as file:
            file.write(whole[:50])
        assert not running.follow(path)
        with path.open("a") as file:
            file.write(whole[50:])
        assert running.follow(path)
        assert (running.done.items, running.done.problems) == (2, [])
    assert imported(tmp_path / "home", path).items == 0
    assert one(tmp_path / "home", "select count(*) from model_calls") == 2


def test_a_grown_file_adds_only_its_new_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "rollout-x.jsonl", [*thread(), token_count(2, 100, 100)])
    imported(tmp_path / "home", path)
    with path.open("a") as file:
        file.write(json.dumps(token_count(3, 150, 50)) + "\n")
    assert imported(tmp_path / "home", path).items == 1
    found = rows(tmp_path / "home", "select output_tokens, model from model_calls order by 1")
    # What the earlier lines said, the counter and the model, is still known.
    assert found == [{"output_tokens": 5, "model": "gpt-5.1"}, {"output_tokens": 10, "model": "gpt-5.1"}]


def test_two_equal_lines_without_an_id_stay_two(tmp_path: Path) -> None:
    note = {"type": "queue-operation", "operation": "dequeue", "timestamp": at(1), "sessionId": SESSION}
    path = write(tmp_path / "s.jsonl", [note, note, answer(1, 10)])
    assert imported(tmp_path / "home", path).items == 3
    assert one(tmp_path / "home", "select count(*) from records") == 3


def test_a_file_found_empty_is_followed_once_it_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.touch()
    made = path.stat()
    with Import.into(Home(tmp_path / "home")) as running:
        assert not running.follow(path)
        write(path, [answer(1, 10)])
        os.utime(path, ns=(made.st_atime_ns, made.st_mtime_ns))  # written in the moment of its making
        assert running.follow(path)
