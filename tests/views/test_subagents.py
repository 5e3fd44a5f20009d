"""Child agents: attached by recorded ids, in whatever order they arrive; orphans as long as their maker is missing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from store import Store
from tests.store.frames import event, events, record, records


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path) as opened:
        yield opened


def put(store: Store, *told: dict[str, Any], seen: list[dict[str, Any]] | None = None) -> None:
    store.append(records(*(seen or [])), events(*told), store.position() + 1)
    store.refresh()


def ask(store: Store, query: str) -> list[tuple[Any, ...]]:
    with store.cursor() as cursor:
        return cursor.execute(query).fetchall()


TREE = (
    "select subagent_id, parent_session_id, parent_subagent_id, tool_call_id, parent_state, missing_parent "
    "from subagents order by session_id, subagent_id"
)
ORPHANS = "select session_id, subject, detail from gaps where kind = 'orphan' order by all"


def told(event_id: str, type: str, second: float, agent: str | None = None, **columns: Any) -> dict[str, Any]:
    shared = {"session_id": "s", "signal": "log", "dialect": "client", "subagent_id": agent, "payload": "{}"}
    return event(event_id, type, second, **(shared | columns))


def names(parent: str) -> str:
    return f'{{"parent_subagent_id":"{parent}"}}'


def test_a_child_belongs_to_the_agent_that_it_names(store: Store) -> None:
    put(
        store,
        told("p", "turn.submitted", 0, turn_id="t"),
        told("a", "model.completed", 1, "outer", output_tokens=5),
        told("b", "model.completed", 2, "inner", output_tokens=7, payload=names("outer")),
    )
    assert ask(store, TREE) == [
        ("inner", None, "outer", None, "attached", None),
        ("outer", None, None, None, "attached", None),
    ]
    assert ask(store, "select subagent_id, model_calls, output_tokens from subagents order by 1") == [
        ("inner", 1, 7),
        ("outer", 1, 5),
    ]
    assert ask(store, ORPHANS) == []
    assert ask(store, "select label, subagent_id from timeline where place = 3") == [("model.completed", "inner")]


def test_a_child_whose_maker_never_arrived_is_an_orphan_until_it_does(store: Store) -> None:
    child = told("b", "model.completed", 2, "inner", payload=names("outer"))
    put(store, told("p", "turn.submitted", 0, turn_id="t"), child)
    assert ask(store, TREE) == [("inner", None, "outer", None, "orphan", "outer")]
    assert ask(store, ORPHANS) == [("s", "outer", "child agent inner was made by this, which never arrived")]
    put(store, told("a", "model.completed", 1, "outer"))
    assert ("inner", None, "outer", None, "attached", None) in ask(store, TREE)
    assert ask(store, ORPHANS) == []


def test_a_child_belongs_to_the_agent_whose_call_made_it(store: Store) -> None:
    spawned = told("c", "subagent.spawned", 3, "inner", tool_call_id="call")
    put(store, spawned, told("p", "turn.submitted", 0))
    assert ask(store, TREE) == [("inner", None, None, "call", "orphan", "call")]
    put(store, told("a", "tool.started", 1, "outer", tool_call_id="call", tool_name="Task"))
    assert ask(store, TREE)[0] == ("inner", None, "outer", "call", "attached", None)


def test_children_of_a_main_agent_that_was_never_seen_are_orphans(store: Store) -> None:
    put(store, told("a", "model.completed", 1, "child"))
    assert ask(store, TREE) == [("child", None, None, None, "orphan", "s")]
    put(store, told("p", "turn.submitted", 0))
    assert ask(store, TREE) == [("child", None, None, None, "attached", None)]


@pytest.mark.parametrize("child_first", [True, False])
def test_a_child_with_a_session_of_its_own_is_attached_across_sessions(store: Store, child_first: bool) -> None:
    child = told("c", "subagent.spawned", 5, "kid", session_id="kid", payload='{"parent_thread_id":"root"}')
    maker = told("m", "subagent.spawned", 4, "kid", session_id="root", tool_call_id="call", agent_name="scout")
    call = told("t", "tool.started", 4, session_id="root", tool_call_id="call", tool_name="spawn_agent")
    batches = [(child,), (maker, call)] if child_first else [(maker, call), (child,)]
    put(store, *batches[0])
    if child_first:
        assert ask(store, TREE) == [("kid", "root", None, None, "orphan", "root")]
        assert ask(store, ORPHANS) == [("kid", "root", "child agent kid was made by this, which never arrived")]
        assert ask(store, "select gaps from sessions") == [(2,)]  # its end is not recorded either
    put(store, *batches[1])
    assert ask(store, "select session_id, agent_name from subagents") == [("kid", "scout")]
    assert ask(store, TREE) == [("kid", "root", None, "call", "attached", None)]
    assert ask(store, ORPHANS) == []


def test_a_session_that_goes_on_from_one_that_never_arrived_is_an_orphan(store: Store) -> None:
    fork = told("c", "session.created", 5, session_id="fork", payload='{"resumed_from":"first"}')
    put(store, fork)
    assert ask(store, ORPHANS) == [("fork", "first", "the session goes on from this one, which never arrived")]
    put(store, told("d", "session.created", 1, session_id="first"))
    assert ask(store, ORPHANS) == []


def run(span: str, parent: str | None, second: float, name: str | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The span of an agent's run, or of a plain step, and its event."""
    ids = {"trace_id": "t", "span_id": span, "parent_span_id": parent}
    told = event(
        f"e{span}",
        "run.status",
        second,
        status="completed",
        agent_name=name,
        payload='{"phase":"invoke_agent"}' if name else '{"phase":"chain"}',
        **ids,
    )
    return record(f"t:{span}", second, dialect="gen_ai", **ids), told


def test_agents_inside_one_program_are_attached_by_the_spans_around_them(store: Store) -> None:
    made = [run("1", None, 0, "lead"), run("2", "1", 1), run("4", "3", 3, "writer"), run("5", "4", 4, "proof")]
    tool = {"trace_id": "t", "span_id": "3", "parent_span_id": "2", "tool_call_id": "call", "tool_name": "ask_writer"}
    steps = [record("t:3", 2, dialect="gen_ai", trace_id="t", span_id="3", parent_span_id="2")]
    put(
        store,
        *(told for _, told in made),
        event("e3", "tool.result", 2, **tool),
        seen=[seen for seen, _ in made] + steps,
    )
    assert ask(store, TREE) == [
        ("span:4", None, None, "call", "attached", None),
        ("span:5", None, "span:4", None, "attached", None),
    ]
    assert ask(store, "select agent_name, model_calls from subagents order by subagent_id") == [
        ("writer", None),
        ("proof", None),
    ]


def test_an_agents_run_whose_span_around_it_is_missing_is_an_orphan_and_no_second_gap(store: Store) -> None:
    seen, said = run("4", "3", 3, "writer")
    put(store, said, seen=[seen])
    assert ask(store, TREE) == [("span:4", None, None, None, "orphan", "span:3")]
    assert ask(store, "select kind, subject from gaps") == [("missing_parent", "3")]
    later, told = run("3", None, 2, "lead")
    put(store, told, seen=[later])
    assert ask(store, TREE) == [("span:4", None, None, None, "attached", None)]
    assert ask(store, "select kind, subject from gaps") == []
