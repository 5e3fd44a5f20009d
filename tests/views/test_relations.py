"""The relations, on small hand-made sessions whose answers are known, and the promises of their headers."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from store import Store
from store.rollup import CALL_COLUMNS, note_incomplete
from tests.store.frames import event, events, record, records, spans
from views import relations as module
from views.relations import ORDER, relations, rollup


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


def call(event_id: str, second: float, span: str, parent: str | None = None, **columns: Any) -> dict[str, Any]:
    """A model call that ended, seen as a span."""
    ids = {"trace_id": "t", "span_id": span, "parent_span_id": parent, "session_id": "s", "duration_ms": 1000.0}
    return event(event_id, "model.completed", second, **(ids | columns))


CALLS = "select call_id, status, output_tokens, sightings from model_calls order by call_id"


@pytest.mark.parametrize("name", ORDER)
def test_the_header_of_a_relation_names_exactly_its_columns(store: Store, name: str) -> None:
    relation = relations()[name]
    with store.cursor() as cursor:
        described = cursor.execute(f"select * from {name} limit 0").description or []
    columns = [column[0] for column in described]
    if "*" in relation.columns:
        with store.cursor() as cursor:
            below = {column[0] for column in cursor.execute("select * from events limit 0").description or []}
        columns = [column for column in columns if column not in below - {"session_id"}] + ["*"]
    assert columns == list(relation.columns)
    assert set(relation.grain) <= set(relation.columns) | {"event_id"}
    assert all(len(sentence) > 5 and sentence.endswith(".") for sentence in relation.columns.values())
    assert relation.meaning.endswith(".")


def test_every_sql_file_is_a_relation() -> None:
    assert {path.stem for path in (module.HERE / "relations").glob("*.sql")} == set(ORDER)


@pytest.mark.parametrize("name", ORDER)
def test_relations_keep_to_sql_that_other_databases_understand(name: str) -> None:
    sql = relations()[name].sql.lower()
    assert not re.search(r"\basof\b|range between interval|::", sql)
    assert not re.search(r"\b(from|join) (\w+)\s+(?!as\b|on\b|where\b|group\b|left\b|inner\b|union\b|order\b)\w", sql)


def test_the_documentation_is_in_the_database(store: Store) -> None:
    found = ask(
        store, "select comment from duckdb_columns() where table_name = 'model_calls' and column_name = 'status'"
    )
    assert found == [(relations()["model_calls"].columns["status"],)]


def test_nested_spans_of_one_call_count_once_and_the_inner_one_is_the_call(store: Store) -> None:
    put(store, call("outer", 3, "a", output_tokens=7), call("inner", 2.9, "b", "a", output_tokens=7))
    assert ask(store, CALLS) == [("span:b", "completed", 7, ["inner", "outer"])]
    assert ask(store, "select model_calls, output_tokens from sessions") == [(1, 7)]


def test_a_parent_that_repeats_the_totals_of_two_calls_is_none_itself(store: Store) -> None:
    put(
        store,
        call("sum", 9, "a", output_tokens=12),
        call("one", 3, "b", "a", output_tokens=5),
        call("two", 6, "c", "a", output_tokens=7),
    )
    found = ask(store, CALLS)
    assert found == [("span:b", "completed", 5, ["one", "sum"]), ("span:c", "completed", 7, ["two", "sum"])]
    assert ask(store, "select sum(calls), sum(output_tokens) from costs") == [(2, 12)]


def test_a_chain_of_three_with_tokens_only_outside_and_inside_counts_once(store: Store) -> None:
    put(store, call("a", 3, "a", output_tokens=7), call("b", 2.9, "b", "a"), call("c", 2.8, "c", "b", output_tokens=7))
    assert [(row[0], row[2]) for row in ask(store, CALLS)] == [("span:c", 7)]


def test_an_inner_span_without_tokens_is_a_sighting_of_the_outer_call(store: Store) -> None:
    put(store, call("outer", 3, "a", output_tokens=7), call("inner", 2.9, "b", "a"))
    assert ask(store, CALLS) == [("span:a", "completed", 7, ["outer", "inner"])]


def test_a_log_inside_the_span_of_a_call_shows_the_same_call(store: Store) -> None:
    log = event("log", "model.completed", 3, signal="log", session_id="s", trace_id="t", span_id="a", output_tokens=7)
    put(store, call("span", 3, "a", model_request_id="resp-1"), log)
    assert ask(store, CALLS) == [("resp-1", "completed", 7, ["log", "span"])]


def test_logs_in_a_span_that_is_no_call_stay_calls_of_their_own(store: Store) -> None:
    inside = {"signal": "log", "session_id": "s", "trace_id": "t", "span_id": "turn", "output_tokens": 1}
    put(store, event("one", "model.completed", 1, **inside), event("two", "model.completed", 2, **inside))
    assert [row[0] for row in ask(store, CALLS)] == ["one", "two"]


def test_sightings_with_one_request_id_are_one_call_whichever_comes_first(store: Store) -> None:
    requested = event("asked", "model.requested", 1, signal="log", session_id="s", model_request_id="r", model="m")
    put(store, requested)
    assert ask(store, "select call_id, status, ended from model_calls") == [("r", "unknown", None)]
    assert ask(store, "select kind, subject from gaps") == [("not_closed", "r")]
    put(store, event("done", "model.completed", 2, signal="log", session_id="s", model_request_id="r", output_tokens=3))
    assert ask(store, "select call_id, status, model, output_tokens from model_calls") == [("r", "completed", "m", 3)]
    assert ask(store, "select count(*) from gaps") == [(0,)]


def test_requests_without_any_id_are_not_counted_beside_the_answers(store: Store) -> None:
    bare = {"signal": "log", "session_id": "s"}
    put(store, event("q", "model.requested", 1, **bare), event("a", "model.completed", 2, output_tokens=3, **bare))
    assert [row[0] for row in ask(store, CALLS)] == ["a"]


def test_a_response_id_that_a_server_used_twice_names_two_calls(store: Store) -> None:
    put(
        store,
        call("one", 10, "a", model_request_id="chatcmpl-7", output_tokens=1),
        call("two", 20, "b", model_request_id="chatcmpl-7", output_tokens=2),
    )
    assert [(row[0], row[2]) for row in ask(store, CALLS)] == [("span:a", 1), ("span:b", 2)]


def test_two_instrumentations_without_a_common_trace_saw_one_call(store: Store) -> None:
    shared: dict[str, Any] = {"session_id": None, "model_request_id": "msg_1", "output_tokens": 4}
    put(store, call("one", 5, "a", **shared | {"trace_id": "t1", "dialect": "gen_ai"}))
    put(store, call("two", 5.1, "b", **shared | {"trace_id": "t2", "dialect": "openinference"}))
    assert ask(store, "select session_id, model_calls, output_tokens from sessions") == [("trace:t1", 1, 4)]
    put(store, call("named", 6, "c", session_id="real", trace_id="t1"), seen=[])
    assert ask(store, "select session_id, model_calls from sessions") == [("real", 2)]


def test_a_failed_call_carries_its_error_and_no_cost(store: Store) -> None:
    put(store, event("f", "model.failed", 1, session_id="s", span_id="a", trace_id="t", error="rate_limit"))
    assert ask(store, "select status, error, cost_usd, cost_state from model_calls") == [
        ("failed", "rate_limit", None, "unknown")
    ]
    assert ask(store, "select model_calls_failed, cost_usd, cost_state from sessions") == [(1, None, "unknown")]


def test_costs_tell_the_known_and_the_unknown_apart(store: Store) -> None:
    put(
        store,
        call("r", 1, "a", model="m", cost_usd=0.5, cost_state="reported"),
        call("p", 2, "b", model="m", cost_usd=0.25, cost_state="priced"),
        call("u", 3, "c", model="x", cost_state="unknown"),
    )
    found = ask(store, "select model, cost_state, calls, cost_usd from costs order by all")
    assert found == [("m", "priced", 1, 0.25), ("m", "reported", 1, 0.5), ("x", "unknown", 1, None)]
    assert ask(store, "select cost_usd, cost_state, models from sessions") == [(0.75, "partial", "m, x")]


def test_plain_sessions_are_counted_as_the_full_search_would(store: Store) -> None:
    told = [
        call(f"c{at}", at * 2, f"{at:03}", output_tokens=at, cost_usd=at / 8, cost_state="priced") for at in range(20)
    ]
    told += [event(f"f{at}", "model.failed", at, session_id="s", span_id=f"f{at}", trace_id="t") for at in range(3)]
    put(store, *told)
    with store.cursor() as cursor:
        cursor.execute("create temp table tangled (session_id varchar)")
        cursor.execute("create temp view touched_events as select * from session_events")
        short = cursor.execute(f"select {CALL_COLUMNS} from ({rollup('plain_calls')}) order by all").fetchall()
        full = cursor.execute(f"select {CALL_COLUMNS} from model_calls order by all").fetchall()
    assert short == full
    assert len(full) == 23


def test_a_session_that_only_the_root_names_holds_the_whole_trace(store: Store) -> None:
    put(store, call("early", 1, "b", "a", session_id=None))
    assert ask(store, "select session_id from sessions") == [("trace:t",)]
    root = record("root", 0, trace_id="t", span_id="a", session_key="named")
    put(store, seen=[root])
    assert ask(store, "select session_id, model_calls from sessions") == [("named", 1)]
    put(store, call("late", 2, "c", "a", session_id=None))
    assert ask(store, "select session_id, model_calls, events from sessions") == [("named", 2, 2)]
    assert ask(store, "select distinct session_id, session_source from session_events") == [("named", "trace")]


def test_an_event_without_session_and_trace_is_kept_apart_as_unknown(store: Store) -> None:
    put(store, event("e", "runtime.warning", signal="log"))
    assert ask(store, "select session_id, events from sessions") == [("unknown:gen_ai", 1)]


def test_tool_calls_are_joined_by_their_id_and_by_their_span(store: Store) -> None:
    log = {"signal": "log", "session_id": "s", "tool_call_id": "call-1", "tool_name": "grep"}
    put(
        store,
        event("asked", "tool.started", 1, **log),
        event("done", "tool.result", 2, **log),
        event(
            "span", "tool.result", 2, session_id="s", trace_id="t", span_id="a", tool_call_id="call-1", tool_name="grep"
        ),
        event("outer", "tool.failed", 5, session_id="s", trace_id="t", span_id="x", tool_name="ls", error="denied"),
        event("inner", "tool.failed", 5, session_id="s", trace_id="t", span_id="y", parent_span_id="x", tool_name="ls"),
    )
    found = ask(store, "select call_id, tool_name, status, sightings from tool_calls order by call_id")
    assert found == [
        ("call-1", "grep", "completed", ["asked", "done", "span"]),
        ("span:x", "ls", "failed", ["inner", "outer"]),
    ]
    assert ask(store, "select tool_calls, tool_calls_failed from sessions") == [(2, 1)]


def test_a_turn_adds_up_its_calls(store: Store) -> None:
    put(
        store,
        event("start", "turn.started", 0, session_id="s", turn_id="1", signal="log"),
        call("m", 2, "a", turn_id="1", output_tokens=5, cost_usd=0.5, cost_state="reported"),
        event("tool", "tool.result", 3, session_id="s", turn_id="1", trace_id="t", span_id="b"),
        event("end", "turn.completed", 4, session_id="s", turn_id="1", signal="log"),
        event("next", "turn.started", 5, session_id="s", turn_id="2", signal="log"),
    )
    found = ask(
        store, "select turn_id, status, events, model_calls, tool_calls, output_tokens, cost_usd from turns order by 1"
    )
    assert found == [("1", "completed", 4, 1, 1, 5, 0.5), ("2", "unknown", 1, 0, 0, None, None)]
    assert ask(store, "select kind, subject from gaps") == [("not_closed", "2")]


def test_holes_in_the_sequence_are_gaps_until_they_are_filled(store: Store) -> None:
    numbered = {"session_id": "s", "signal": "log"}
    put(store, *(event(f"e{at}", "run.status", at, sequence=at, **numbered) for at in (1, 2, 5, 9)))
    assert ask(store, "select kind, subject, missing from gaps order by missing") == [
        ("sequence_hole", "3", 2),
        ("sequence_hole", "6", 3),
    ]
    put(store, *(event(f"e{at}", "run.status", at, sequence=at, **numbered) for at in (3, 4)))
    assert ask(store, "select subject from gaps") == [("6",)]
    assert ask(store, "select gaps from sessions") == [(1,)]


def test_a_parent_that_never_arrived_is_a_gap_until_it_does_even_if_no_dialect_knows_it(store: Store) -> None:
    child = record("c", 5, trace_id="t", span_id="b", parent_span_id="a", session_key="s", dialect="gen_ai")
    put(store, seen=[child])
    assert ask(store, "select kind, subject from gaps") == [("missing_parent", "a")]
    put(store, seen=[record("p", 0, trace_id="t", span_id="a")])
    assert ask(store, "select count(*) from gaps") == [(0,)]
    put(store, seen=[record("c2", 6, trace_id="t", span_id="d", parent_span_id="a", session_key="s", dialect="gen_ai")])
    assert ask(store, "select count(*) from gaps") == [(0,)]


def test_a_session_of_metrics_alone_is_a_gap(store: Store) -> None:
    put(store, seen=[record(f"m{at}", at, signal="metric", session_key="s") for at in range(3)])
    assert ask(store, "select kind, session_id from gaps") == [("metrics_only", "s")]
    put(store, seen=[record("log", 2, signal="log", session_key="s")])
    assert ask(store, "select metric_points, logs, gaps from sessions") == [(3, 1, 0)]


def test_records_by_source_counts_what_nobody_claimed(store: Store) -> None:
    put(
        store,
        seen=[
            record("a", 1, service_name="x", dialect="gen_ai"),
            record("b", 2, service_name="x"),
            record("c", 3, service_name="x"),
        ],
    )
    found = ask(
        store, "select service_name, signal, dialect, records, unclaimed from records_by_source order by dialect"
    )
    assert found == [("x", "span", "gen_ai", 1, 0), ("x", "span", None, 2, 2)]


def test_absurd_numbers_do_not_stop_the_roll_up(store: Store) -> None:
    put(
        store,
        call("huge", 1, "a", output_tokens=2**62, duration_ms=1e300),
        call("more", 2, "b", output_tokens=2**62, duration_ms=float("inf")),
        call("none", 3, "c", duration_ms=float("nan"), output_tokens=2**62),
        call("early", -1_763_449_999, "d", duration_ms=1e12),
    )
    assert store.trouble is None
    assert ask(store, "select model_calls, output_tokens from sessions") == [(4, None)]


def test_a_session_is_complete_whatever_else_is_stored(store: Store) -> None:
    store.append(*spans(2000, session="noise"), position=1)
    put(store, call("mine", 1, "zz", session_id="mine", trace_id="zz"))
    assert ask(store, "select session_id, model_calls from sessions order by 1") == [("mine", 1), ("noise", 1800)]


def test_events_show_at_once_and_once_before_and_after_their_session_is_rolled_up(store: Store) -> None:
    count = "select count(*), count(distinct event_id) from session_events where session_id = 's'"

    def told(position: int, *seconds: float) -> None:
        made = [call(f"{position}-{at}", at, f"{position}-{at}", journal_position=position) for at in seconds]
        seen = [record(one["record_id"], journal_position=position, dialect="gen_ai") for one in made]
        store.append(records(*seen), events(*made), position)

    told(1, 10.0, 20.0)
    assert ask(store, count) == [(2, 2)]
    store.refresh()
    assert ask(store, count) == [(2, 2)]
    told(2, 15.0, 5.0, 30.0)  # within the session's times as rolled up, before and after them
    assert ask(store, count) == [(5, 5)]
    store.refresh()
    assert ask(store, count) == [(5, 5)]


def test_events_that_could_not_be_rolled_up_still_show_in_their_session(store: Store) -> None:
    put(store, call("c", 1, "a"))
    with store.cursor() as cursor:
        note_incomplete(cursor)
        cursor.execute("delete from session_rollup")
    put(store, call("d", 2, "b", session_id="other"))
    assert ask(store, "select session_id, count(*) from timeline group by session_id order by 1") == [
        ("other", 1),
        ("s", 1),
    ]


def test_every_sum_says_how_many_of_its_calls_have_no_known_cost(store: Store) -> None:
    turn: dict[str, Any] = {"turn_id": "u", "provider": "p", "model": "m", "uncached_input_tokens": 1}
    priced = turn | {"cost_usd": 0.25, "cost_state": "priced", "price_entry": "p/m", "price_version": "v"}
    reported = turn | {"cost_usd": 0.5, "cost_state": "reported"}
    put(
        store,
        call("a", 1, "a", **priced),
        call("b", 2, "b", **reported),
        call("c", 3, "c", **turn, cost_state="unknown"),
        call("d", 4, "d", **turn, cost_state="unknown") | {"type": "model.failed"},  # nobody pays for a failure
    )
    assert ask(store, "select cost_usd, costs_unknown, unpriced_share from sessions") == [(0.75, 1, 1 / 3)]
    assert ask(store, "select cost_usd, costs_unknown, unpriced_share from turns") == [(0.75, 1, 1 / 3)]
    totals = "select sum(cost_usd), sum(costs_unknown), sum(calls_priced), sum(calls) from costs"
    assert ask(store, totals) == [(0.75, 1, 2, 4)]
    assert ask(store, "select price_entry, price_version, cost_usd from costs where price_entry is not null") == [
        ("p/m", "v", 0.25)
    ]
    told = "reported_cost_usd, costs_unreported, counted_cost_usd, counted_costs_unknown, cost_difference_usd"
    assert ask(store, f"select {told} from reconciliation") == [(0.5, 3, 0.75, 1, None)]
