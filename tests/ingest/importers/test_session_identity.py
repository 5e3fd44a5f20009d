"""One session across traces, files and agents: children attached to their makers, orphans shown as orphans."""

import random
from pathlib import Path
from typing import Any

import pytest

from collector.loader import prepare
from journal import Record
from store import Store
from tests.captures import REAL, captures
from tests.ingest.importers.importing_home import imported, one, rows
from tests.ingest.importers.test_transcripts import SESSION, THREAD, at, claude, codex, thread, token_count, write

CHILD, GRANDCHILD = "01a1ed58-0000-7000-8000-00000000000c", "01a1ed58-0000-7000-8000-00000000000d"
TREE = (
    "select session_id, subagent_id, agent_name, parent_session_id, parent_subagent_id, tool_call_id, parent_state, "
    "missing_parent, status from subagents order by session_id, subagent_id"
)
TWO = [
    ("a19c8a3fab8b6cd34", "general-purpose", "toolu_017fa324e95ec8421899b3f6", "attached", "completed", 2, 1),
    ("ad086966960905c66", "general-purpose", "toolu_0130ee58b3b1e94315a54c6b", "attached", "completed", 2, 1),
]
"""The two helpers of a captured run: who they are, the calls that made them, and how many calls they made."""

CALLS = "model_calls, tool_calls"
ABOUT = f"select subagent_id, agent_name, tool_call_id, parent_state, status, {CALLS} from subagents order by 1"


def tree(home: Path) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in rows(home, TREE)]


def test_subagents_of_a_real_run_are_attached_by_its_files_alone(tmp_path: Path) -> None:
    imported(tmp_path / "home", REAL / "claude_code" / "cc_subagent" / "transcript")
    assert [tuple(row.values()) for row in rows(tmp_path / "home", ABOUT)] == TWO
    assert one(tmp_path / "home", "select count(*) from sessions") == 1


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_subagents_of_a_real_run_are_attached_by_telemetry_alone_in_any_order(tmp_path: Path, seed: int | None) -> None:
    bodies = [one for one in captures() if one.run == "claude_code/cc_subagent"]
    if seed is not None:
        random.Random(seed).shuffle(bodies)
    with Store.open(tmp_path) as store:
        for position, body in enumerate(bodies, 1):
            record = Record(position, f"otlp.{body.signal}", 10**18, 1, {"content": body.encoding}, body.body)
            prepared = prepare([record], position - 1)
            store.append(prepared.records, prepared.events.to_arrow(), position)
            store.refresh()
        with store.cursor() as cursor:
            assert cursor.execute(ABOUT).fetchall() == TWO
            assert cursor.execute("select count(*) from sessions").fetchall() == [(1,)]
            assert cursor.execute("select * from gaps where kind in ('orphan', 'not_closed')").fetchall() == []


def test_subagents_whose_session_was_never_seen_are_orphans_until_it_is(tmp_path: Path) -> None:
    whole = REAL / "claude_code" / "cc_subagent" / "transcript"
    (folder,) = whole.rglob("subagents")
    imported(tmp_path / "home", folder)
    assert {(row[5], row[6], row[7]) for row in tree(tmp_path / "home")} == {(row[2], "orphan", row[2]) for row in TWO}
    assert one(tmp_path / "home", "select count(*) from gaps where kind = 'orphan'") == 2
    imported(tmp_path / "home", whole)
    assert [tuple(row.values()) for row in rows(tmp_path / "home", ABOUT)] == TWO
    assert one(tmp_path / "home", "select count(*) from gaps where kind = 'orphan'") == 0


def test_subagents_in_public_files_are_attached(shared: Path, tmp_path: Path) -> None:
    public = shared / "public_data"
    found = tmp_path / "home"
    imported(found, public / "claude_code", public / "otlp")
    assert one(found, "select count(*) from subagents where parent_state = 'orphan'") == 0
    parallel = "select tool_call_id from subagents where session_id = 'mlflow-with-parallel-subagents' order by 1"
    assert [row["tool_call_id"] for row in rows(found, parallel)] == ["toolu_a", "toolu_b", "toolu_c", "toolu_d"]
    # This one's own file is missing; its calls are told while it works.
    told = "select tool_call_id, model_calls, tool_calls from subagents where subagent_id = 'afb92ff'"
    assert list(rows(found, told)[0].values()) == ["toolu_01Cz2Pnv7qNcnK1ZiocxWhQX", 5, 9]
    inside = "select agent_name from subagents where subagent_id like 'span:%' order by 1"
    assert [row["agent_name"].rpartition(".")[2] for row in rows(found, inside)] == [
        "multi-model-synthesizer",
        "plan-validator",
        "success-criteria-optimizer",
    ]


def made_by(parent: str, role: str) -> dict[str, Any]:
    """How a thread that another made tells of it; all share the session of the first."""
    spawned = {"parent_thread_id": parent, "depth": 1, "agent_role": role}
    return {"source": {"subagent": {"thread_spawn": spawned}}, "session_id": THREAD}


def returned(second: float, child: str) -> list[dict[str, Any]]:
    call = {"type": "function_call", "name": "spawn_agent", "call_id": f"call of {child}", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": f"call of {child}", "output": f'{{"agent_id":"{child}"}}'}
    return [codex("response_item", second, call), codex("response_item", second + 1, output)]


def test_threads_that_a_codex_agent_made_are_attached_whichever_file_comes_first(tmp_path: Path) -> None:
    files, home = tmp_path / "sessions", tmp_path / "home"
    child = [*thread(CHILD, **made_by(THREAD, "scout")), token_count(4, 100, 100), *returned(5, GRANDCHILD)]
    done = codex("event_msg", 9, {"type": "task_complete", "turn_id": "t1"})
    imported(home, write(files / f"rollout-2026-01-01T00-00-02-{CHILD}.jsonl", [*child, done]))
    assert tree(home) == [
        (CHILD, CHILD, "scout", THREAD, None, None, "orphan", THREAD, "completed"),
        (CHILD, GRANDCHILD, None, None, CHILD, f"call of {GRANDCHILD}", "attached", None, "unknown"),
    ]
    assert one(home, "select subject from gaps where kind = 'orphan'") == THREAD
    imported(home, write(files / f"rollout-2026-01-01T00-00-00-{THREAD}.jsonl", [*thread(), *returned(3, CHILD)]))
    grandchild = [*thread(GRANDCHILD, **made_by(CHILD, "helper")), token_count(7, 50, 50)]
    imported(home, write(files / f"rollout-2026-01-01T00-00-03-{GRANDCHILD}.jsonl", grandchild))
    assert tree(home) == [
        (CHILD, CHILD, "scout", THREAD, None, f"call of {CHILD}", "attached", None, "completed"),
        (GRANDCHILD, GRANDCHILD, "helper", CHILD, CHILD, f"call of {GRANDCHILD}", "attached", None, "unknown"),
    ]
    used = "select session_id, model_calls, output_tokens from subagents order by output_tokens"
    assert [tuple(row.values()) for row in rows(home, used)] == [(GRANDCHILD, 1, 5), (CHILD, 1, 10)]
    assert one(home, "select count(*) from gaps where kind = 'orphan'") == 0


def test_a_chat_of_a_gemini_subagent_belongs_to_the_session_its_folder_names(tmp_path: Path) -> None:
    def chat(session: str, kind: str, second: float) -> list[dict[str, Any]]:
        head = {"sessionId": session, "projectHash": "p", "startTime": at(second), "kind": kind}
        tokens = {"input": 10, "output": 2, "cached": 0, "thoughts": 1, "total": 13}
        answer = {"id": f"m {session}", "type": "gemini", "timestamp": at(second + 1), "model": "g", "tokens": tokens}
        return [head, {"id": "u", "type": "user", "timestamp": at(second), "content": "go"}, answer]

    folder = tmp_path / "chats"
    imported(tmp_path / "home", write(folder / "main-session" / "scout-1.jsonl", chat("scout-1", "subagent", 5)))
    assert [(row[0], row[1], row[6], row[7]) for row in tree(tmp_path / "home")] == [
        ("main-session", "scout-1", "orphan", "main-session")
    ]
    imported(tmp_path / "home", write(folder / "session-1.jsonl", chat("main-session", "main", 1)))
    assert [(row[0], row[1], row[6]) for row in tree(tmp_path / "home")] == [("main-session", "scout-1", "attached")]
    assert one(tmp_path / "home", "select model_calls from sessions") == 2
    assert one(tmp_path / "home", "select model_calls from subagents") == 1


def test_a_helper_inside_a_helper_is_attached_by_the_call_in_its_makers_file(tmp_path: Path) -> None:
    def asks(second: float, call: str, agent: str | None) -> dict[str, Any]:
        content = [{"type": "tool_use", "id": call, "name": "Task", "input": {}}]
        body = {"id": f"msg{second}", "role": "assistant", "model": "claude-sonnet-4-5", "content": content}
        more = {"agentId": agent, "isSidechain": True} if agent else {}
        return claude("assistant", second, message=body, requestId=f"req{second}", **more)

    folder = tmp_path / "files"
    write(folder / f"{SESSION}.jsonl", [asks(1, "toolu_1", None)])
    helpers = folder / SESSION / "subagents"
    write(helpers / "agent-outer.jsonl", [asks(2, "toolu_2", "outer")])
    write(helpers / "agent-outer.meta.json", [{"agentType": "plan", "toolUseId": "toolu_1"}])
    write(helpers / "agent-inner.jsonl", [asks(3, "toolu_3", "inner")])
    write(helpers / "agent-inner.meta.json", [{"agentType": "look", "toolUseId": "toolu_2"}])
    imported(tmp_path / "home", folder)
    assert [row[1:7] for row in tree(tmp_path / "home")] == [
        ("inner", "look", None, "outer", "toolu_2", "attached"),
        ("outer", "plan", None, None, "toolu_1", "attached"),
    ]
