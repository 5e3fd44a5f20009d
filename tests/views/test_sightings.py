"""One call told in several ways: counted once, every telling listed, disagreement shown."""

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


def used(event_id: str, second: float, signal: str, tokens: tuple[int, int], **columns: Any) -> dict[str, Any]:
    """A call of a client, told without any id of the call."""
    told = {"session_id": "s", "signal": signal, "dialect": "client", "uncached_input_tokens": tokens[0]}
    ids = {"trace_id": "t", "span_id": event_id} if signal == "span" else {}
    return event(event_id, "model.completed", second, **(told | ids | {"output_tokens": tokens[1]} | columns))


CALLS = "select call_id, sightings from model_calls order by call_id"


def test_two_streams_without_a_common_id_are_joined_by_the_usage_that_both_record(store: Store) -> None:
    put(
        store,
        *(used(f"span{at}", at, "span", (10, 1)) for at in (1, 2)),
        used("span3", 3, "span", (20, 2)),
        # a little later, and out of order
        *(used(f"log{at}", 20 + at, "log", (10, 1)) for at in (2, 1)),
        used("log3", 23, "log", (20, 2)),
    )
    assert ask(store, CALLS) == [
        ("span:span1", ["span1", "log1"]),
        ("span:span2", ["span2", "log2"]),
        ("span:span3", ["span3", "log3"]),
    ]
    assert ask(store, "select model_calls, output_tokens from sessions") == [(3, 4)]


def test_equal_calls_stay_as_many_as_one_stream_tells_when_the_other_lost_some(store: Store) -> None:
    put(
        store,
        used("log1", 1, "log", (10, 1)),
        used("log2", 300, "log", (10, 1)),
        used("span2", 299, "span", (10, 1)),
    )
    assert ask(store, CALLS) == [("log1", ["log1"]), ("span:span2", ["span2", "log2"])]
    assert ask(store, "select model_calls, output_tokens from sessions") == [(2, 2)]


def test_equal_calls_of_which_each_stream_lost_another_are_two(store: Store) -> None:
    put(store, used("log1", 1, "log", (10, 1)), used("span2", 300, "span", (10, 1)))
    assert ask(store, "select count(*) from model_calls") == [(2,)]


def test_a_long_call_is_one_however_long_its_end_is_after_the_line_that_tells_its_beginning(store: Store) -> None:
    put(
        store,
        used("line", 10, "file", (10, 1), dialect="file"),
        used("log", 600, "log", (10, 1), duration_ms=595_000.0),
    )
    assert ask(store, "select count(*) from model_calls") == [(1,)]


def test_equal_calls_of_two_sessions_are_never_one(store: Store) -> None:
    put(store, used("a", 1, "span", (10, 1)), used("b", 1, "log", (10, 1), session_id="other"))
    assert ask(store, "select session_id, count(*) from model_calls group by 1 order by 1") == [("other", 1), ("s", 1)]


def test_a_call_that_one_of_two_streams_lost_still_counts(store: Store) -> None:
    put(store, used("a", 1, "span", (10, 1)), used("b", 2, "log", (10, 1)), used("c", 3, "log", (30, 3)))
    assert [row[1] for row in ask(store, CALLS)] == [["c"], ["a", "b"]]
    told = ask(store, "select source, calls, calls_difference, output_difference from reconciliation order by source")
    assert told == [("client log", 2, 0, 0), ("client span", 1, -1, -3)]


def test_cached_input_that_only_one_stream_tells_apart_is_the_same_usage(store: Store) -> None:
    put(store, used("a", 1, "span", (100, 5)), used("b", 2, "log", (40, 5), cache_read_tokens=60))
    assert ask(store, "select uncached_input_tokens, cache_read_tokens from model_calls") == [(40, 60)]
    difference = "select source, uncached_input_difference, cache_read_difference from reconciliation order by source"
    assert ask(store, difference) == [("client log", 0, 0), ("client span", 60, None)]


def test_two_calls_with_ids_of_their_own_are_never_joined_by_usage(store: Store) -> None:
    put(
        store,
        used("a", 1, "span", (10, 1), model_request_id="resp-1"),
        used("b", 1, "log", (10, 1), model_request_id="resp-2"),
    )
    assert [row[0] for row in ask(store, CALLS)] == ["resp-1", "resp-2"]


def test_a_file_a_log_and_a_span_of_one_call_are_one(store: Store) -> None:
    put(
        store,
        used("a", 1, "span", (10, 1)),
        used("b", 1, "log", (10, 1)),
        used("f", 9, "file", (10, 1), dialect="file"),
    )
    assert ask(store, "select len(sightings) from model_calls") == [(3,)]
    assert ask(store, "select source from call_sightings order by 1") == [
        ("client log",),
        ("client span",),
        ("file file",),
    ]


def test_failed_tries_told_by_two_streams_are_joined_one_by_one(store: Store) -> None:
    failed = {"session_id": "s", "dialect": "client"}
    put(
        store,
        event("x", "model.failed", 1, signal="span", trace_id="t", span_id="x", **failed),
        event("y", "model.failed", 2, signal="log", **failed),
        event("z", "model.failed", 3, signal="log", **failed),
    )
    assert ask(store, "select status, count(*) from model_calls group by 1") == [("failed", 2)]


def test_a_tool_asked_for_by_id_and_run_without_one_is_one_call(store: Store) -> None:
    shared = {"session_id": "s", "trace_id": "t", "signal": "span", "tool_name": "look"}
    put(
        store,
        event("asked1", "tool.args", 1, span_id="model", tool_call_id="c1", **shared),
        event("asked2", "tool.args", 1, span_id="model", tool_call_id="c2", **shared),
        event("ran", "tool.result", 2, span_id="tool", **shared),
    )
    found = ask(store, "select call_id, status, len(sightings) from tool_calls order by call_id")
    assert found == [("c1", "completed", 2), ("c2", "unknown", 1)]
    assert ask(store, "select tool_calls from sessions") == [(2,)]


def test_tools_asked_for_without_ids_in_one_answer_are_calls_of_their_own(store: Store) -> None:
    shared = {"session_id": "s", "trace_id": "t", "signal": "span", "span_id": "model", "tool_name": "look"}
    put(store, event("one", "tool.args", 1, **shared), event("two", "tool.args", 1, **shared))
    assert [row[0] for row in ask(store, "select call_id from tool_calls order by 1")] == ["one", "two"]


def test_a_clients_own_totals_stand_beside_the_calls(store: Store) -> None:
    def point(at: int, kind: str, value: float) -> dict[str, Any]:
        told = {"signal": "metric", "name": "claude_code.token.usage", "session_key": "s", "dialect": "claude_code"}
        attributes = f'{{"session.id":"s","type":"{kind}"}}'
        return record(f"p{kind}{at}", at, value=value, attributes=attributes, point='{"temporality":"delta"}', **told)

    put(
        store,
        used("a", 1, "log", (10, 3), dialect="claude_code", cache_read_tokens=4),
        seen=[point(1, "input", 10), point(1, "output", 1), point(2, "output", 1), point(1, "cacheRead", 4)],
    )
    told = "select uncached_input_tokens, output_tokens, output_difference, calls from reconciliation where source = "
    assert ask(store, told + "'claude_code metric'") == [(10, 2, -1, None)]
