"""SQL over HTTP: what is answered, what is refused, and what hostile queries cannot do."""

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import httpx
import pyarrow as pa
import pytest

from collector.problems import Problem
from collector.sql_guard import TABLE_FUNCTIONS, Guard
from tests.collector.asking import answered, ask, event, loaded, rows, send
from tests.running import Collector, tachograph

MEMORY_LIMIT_BYTES = 256 * 1024 * 1024
SQL_LIMIT = 64 * 1024


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    home = tmp_path_factory.mktemp("query") / "home"
    with Collector(home, everything=True, TACHOGRAPH_INDEX_MEMORY_BYTES=str(MEMORY_LIMIT_BYTES)) as running:
        with running.client() as client:
            send(client, *(event(number, f"s{number % 3}") for number in range(300)))
            loaded(client)
        yield running


@pytest.fixture
def client(collector: Collector) -> Iterator[httpx.Client]:
    with collector.client() as found:
        answered(found)
        yield found


@pytest.fixture(scope="module")
def guard() -> Guard:
    return Guard({"events": ["session_id", "type", "cost_usd"], "sessions": ["session_id"]})


READING = [
    "select 1",
    "from events",
    "values (1), (2)",
    "table events",
    "with x as (select 1 as a) select a from x",
    "with recursive r(i) as (select 1 union all select i + 1 from r where i < 5) from r",
    "select * from events as e left join sessions as s using (session_id) where e.type like 'tool.%' order by 1",
    "select type, count(*) filter (where session_id = 's1') from tachograph.main.events group by all having true",
    "select list_transform([1, 2], lambda x: x + 1), {'a': 1}.a, map {'a': 1}, [x for x in [1, 2] if x > 1]",
    "select payload ->> '$.tool_name', payload['x'], try_cast(type as int), date_trunc('day', timestamp) from events",
    "select row_number() over (partition by session_id order by timestamp) as n from events qualify n = 1",
    "pivot events on type in ('tool.started') using count(*)",
    "select * from range(3), unnest([1, 2]) as u(x), lateral (select x + 1)",
    "select session_id from events union all select session_id from sessions",
    "select * exclude (payload), columns('session_.*') from events limit ?",
    "describe events",
    "describe select 1",
    "show tables",
    "summarize sessions",
    "from information_schema.columns",
    "explain select * from events",
    "explain analyze select * from events",
    "explain (format json) select 1",
    "/* why */ select 1 -- so",
]


@pytest.mark.parametrize("sql", READING)
def test_reading_statements_are_answered(client: httpx.Client, sql: str) -> None:
    answer = ask(client, sql, params=[3] if "?" in sql else [])
    assert answer.status_code == 200, answer.text
    assert set(answer.json()) == {"columns", "rows", "truncated"}


REFUSED = [
    "insert into events (type) values ('x')",
    "delete from events",
    "with x as (insert into events (type) values ('x') returning *) select * from x",
    "with x as (delete from events returning *) select count(*) from x",
    "with x as (update events set type = 'x' returning *) select count(*) from x",
    "select (with y as (delete from events returning type) select max(type) from y)",
    "explain analyze delete from events",
    "explain (analyze) delete from events",
    "create table x (a int)",
    "create temp table x as select 1",
    "create macro m() as 1",
    "drop table events",
    "attach '/tmp/other.duckdb' as other",
    "detach tachograph",
    "copy events to '/tmp/stolen'",
    "copy (select 1) to '/tmp/stolen'",
    "copy events from '/etc/passwd'",
    "export database '/tmp/stolen'",
    "import database '/tmp/stolen'",
    "install httpfs",
    "load httpfs",
    "set memory_limit = '100GB'",
    "set lock_configuration = false",
    "set variable x = 1",
    "reset memory_limit",
    "pragma database_list",
    "pragma version",
    "call pragma_version()",
    "create secret s (type s3)",
    "prepare p as select 1",
    "execute p",
    "begin",
    "checkpoint",
    "vacuum",
    "use memory",
    "show databases",
    "show variables",
    "show secret_directory",
    "show memory_limit",
    "select current_setting('secret_directory')",
    "select \"CURRENT_SETTING\"('secret_directory')",
    "select system.main.current_setting('home_directory')",
    "select getvariable('x')",
    "select nextval('x')",
    "select sleep_ms(1000)",
    "select pg_sleep(1)",
    "select write_log('x')",
    "select error('Corrupt database file: computed checksum 1 does not match stored checksum 2')",
    "select assert_true(false, 'Corrupt database file: computed checksum 1 does not match stored checksum 2')",
    "from duckdb_databases",
    "from pragma_database_list",
    "from pg_settings",
    "from pg_catalog.pg_settings",
    "from system.main.duckdb_databases",
    "describe duckdb_databases",
    "from memory.main.x",
    "with a as (with duckdb_databases as (select 1) select 1) from duckdb_databases",
    "pivot events on type using count(*)",
]


@pytest.mark.parametrize("sql", REFUSED)
def test_everything_else_is_refused(client: httpx.Client, sql: str) -> None:
    before = rows(client, "select count(*) from events")
    answer = ask(client, sql)
    assert (answer.status_code, answer.json()["kind"]) == (403, "refused"), answer.text
    assert rows(client, "select count(*) from events") == before


def table_functions() -> list[str]:
    with duckdb.connect() as connection:
        found = connection.execute(
            "select distinct function_name from duckdb_functions() where function_type in ('table', 'table_macro')"
        ).fetchall()
    return sorted(name for (name,) in found)


def test_every_table_function_of_duckdb_is_refused_but_those_that_only_compute(guard: Guard) -> None:
    names = table_functions()
    assert len(names) > 90
    assert set(names) >= TABLE_FUNCTIONS
    for name in names:
        for call in (
            f"{name}('/etc/passwd')",
            f"{name}()",
            f"system.main.{name}('/etc/passwd')",
            f'"{name.upper()}"(1)',
        ):
            if name in TABLE_FUNCTIONS:
                continue
            for sql in (f"from {call}", f"select (select count(*) from {call})", f"describe from {call}"):
                with pytest.raises(Problem) as refusal:
                    guard.checked(sql)
                assert refusal.value.kind == "refused", sql


def test_the_table_functions_that_are_left_cannot_read_a_file(client: httpx.Client) -> None:
    for name in sorted(TABLE_FUNCTIONS):
        answer = ask(client, f"from {name}('/etc/passwd')")
        assert "root:" not in answer.text
        answer = ask(client, f"from {name}('/etc/passwd', '/etc/passwd')")
        assert "root:" not in answer.text


def test_no_function_that_acts_is_served(guard: Guard) -> None:
    with duckdb.connect() as connection:
        acting = connection.execute(
            "select distinct function_name from duckdb_functions() "
            "where function_type = 'scalar' and (has_side_effects or stability = 'VOLATILE')"
        ).fetchall()
    harmless = {
        "current_connection_id",
        "current_query",
        "current_query_id",
        "current_transaction_id",
        "error",
        "stats",
    }
    harmless |= {"gen_random_uuid", "random", "uuid", "uuidv4", "uuidv7", "vector_type"}
    assert {name for (name,) in acting} > harmless, "DuckDB no longer says which functions act"
    for (name,) in acting:
        if name not in harmless:
            with pytest.raises(Problem, match="not served"):
                guard.checked(f"select {name}(1)")


@pytest.mark.parametrize(
    "sql",
    [
        "from '/etc/passwd'",
        "from 'x.csv'",
        "from 'http://127.0.0.1/x.parquet'",
        "select * from collector",
        "from guard",
    ],
)
def test_files_addresses_and_python_variables_are_no_tables(client: httpx.Client, sql: str) -> None:
    answer = ask(client, sql)
    assert (answer.status_code, answer.json()["kind"]) == (400, "sql")
    assert "no table" in answer.json()["error"]


@pytest.mark.parametrize(
    ("sql", "meant"),
    [
        ("select sesion_id from events", "session_id"),
        ("select e.modl from events as e", "model"),
        ("select * from evnts", "events"),
        ("select * from events as a join events as b using (sesion_id)", "session_id"),
        ("select lowr(type) from events", "lower"),
    ],
)
def test_a_misspelt_name_brings_the_right_one(client: httpx.Client, sql: str, meant: str) -> None:
    answer = ask(client, sql)
    assert (answer.status_code, answer.json()["kind"]) == (400, "sql")
    assert f'"{meant}"' in answer.json()["hint"]
    assert "LINE 1" not in answer.json()["error"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b'{"sql": 1}', 400),
        (b'{"sql": "select 1", "colour": "red"}', 400),
        (b'{"sql": "select 1", "max_rows": 0}', 400),
        (b'{"sql": "select 1", "max_rows": 100000000}', 400),
        (b'{"sql": "select 1", "timeout_s": 61}', 400),
        (b'{"sql": "select 1", "params": [[1]]}', 400),
        (b'{"sql": ""}', 400),
        (b'{"sql": "select 1; select 2"}', 400),
        (b'{"sql": "selec 1"}', 400),
        (b'{"sql": "select \\u0000"}', 400),
        (b'{"sql": "select \\ud800"}', 400),
        (json.dumps({"sql": "select 1 -- " + "x" * SQL_LIMIT}).encode(), 413),
        (b'{"sql": "' + b" " * 300_000 + b'"}', 413),
    ],
)
def test_what_is_no_query_is_said_to_be_none(client: httpx.Client, body: bytes, status: int) -> None:
    answer = client.post("/v1/query", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, set(answer.json()) >= {"error", "kind", "hint"}) == (status, True), answer.text
    assert client.post("/v1/query", content=body, headers={"content-type": "text/plain"}).status_code == 415


def test_values_survive_as_json(client: httpx.Client) -> None:
    sql = r"""select sum(i), 2::hugeint ** 70, 1.5::decimal(9, 2), [1, null], {'a': {'b': 'x'}}, '\xC3\xA9'::blob, null,
             timestamp '2026-01-02 03:04:05.000006', timestamp_ns '2026-01-02 03:04:05.000006789', date '2026-01-02',
             timestamptz '2026-01-02 03:04:05+02', '{"k": 1}'::json, 'nan'::double, true from range(3) as t(i)"""
    (found,) = rows(client, sql)
    assert found[:2] == [3, 2.0**70]
    assert found[2:7] == [1.5, [1, None], {"a": {"b": "x"}}, "w6k=", None]
    assert found[7:10] == ["2026-01-02T03:04:05.000006Z"] * 2 + ["2026-01-02"]
    assert found[10:] == ["2026-01-02T01:04:05Z", '{"k": 1}', None, True]
    assert rows(client, "select timestamp 'infinity', null::timestamp") == [[2**63 - 1, None]]


def test_parameters_stand_for_values_by_place_or_name(client: httpx.Client) -> None:
    assert rows(client, "select ?, ? || 'x'", params=[1, "a"]) == [[1, "ax"]]
    assert rows(client, "select $n + 1", params={"n": 2}) == [[3]]
    assert rows(client, "select count(*) from events where session_id = ?", params=["s1' or true --"]) == [[0]]
    assert ask(client, "select ?").status_code == 400


def test_an_arrow_stream_says_the_same_as_json(client: httpx.Client) -> None:
    sql = "select event_id, sequence, timestamp from events order by event_id"
    answer = ask(client, sql, format="arrow")
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    table = pa.ipc.open_stream(answer.content).read_all()
    assert [[row["event_id"], row["sequence"]] for row in table.to_pylist()] == [row[:2] for row in rows(client, sql)]
    assert table.num_rows == 300


def test_more_rows_than_allowed_are_cut_off_and_said_to_be(client: httpx.Client, collector: Collector) -> None:
    whole = ask(client, "from range(10000)").json()
    assert (len(whole["rows"]), whole["truncated"]) == (10_000, False)
    cut = ask(client, "from range(10001)")
    assert (len(cut.json()["rows"]), cut.json()["truncated"], cut.headers["x-truncated"]) == (10_000, True, "true")
    few = ask(client, "from range(10)", max_rows=3, format="arrow")
    assert pa.ipc.open_stream(few.content).read_all().num_rows == 3
    assert few.headers["x-truncated"] == "true"
    wide = ask(client, "select repeat('x', 1000000) from range(200)").json()
    assert wide["truncated"]
    assert 40 < len(wide["rows"]) <= 67
    # Through the socket, as our own pages and verbs ask, nothing is left out silently.
    with httpx.Client(
        transport=httpx.HTTPTransport(uds=str(collector.home / "index.sock")), base_url="http://index"
    ) as own:
        assert len(ask(own, "from range(50000)").json()["rows"]) == 50_000
        large = ask(own, "select repeat('x', 1000000) from range(200)")
        assert (large.status_code, large.json()["limit"]) == (422, "bytes")


def test_a_query_past_its_time_is_stopped(client: httpx.Client) -> None:
    started = time.monotonic()
    answer = ask(client, "select count(*) from range(100000000000000)", timeout_s=0.5)
    assert (answer.status_code, answer.json()["kind"], answer.json()["limit"]) == (422, "limit", "time")
    assert time.monotonic() - started < 3


def test_a_query_whose_sender_left_is_stopped(client: httpx.Client) -> None:
    for _ in range(8):
        with pytest.raises(httpx.ReadTimeout):
            client.post("/v1/query", json={"sql": "select count(*) from range(100000000000000)"}, timeout=0.2)
    assert answered(client) < 3


def test_a_fifth_query_waits_a_moment_and_is_then_told_to_come_again(client: httpx.Client) -> None:
    def long(_: int) -> httpx.Response:
        return ask(client, "select count(*) from range(100000000000000)", timeout_s=4)

    with ThreadPoolExecutor(5) as pool:
        answers = list(pool.map(long, range(5)))
    assert sorted(answer.status_code for answer in answers) == [422, 422, 422, 422, 503]
    (busy,) = (answer for answer in answers if answer.status_code == 503)
    assert (busy.json()["kind"], busy.headers["retry-after"]) == ("busy", "1")


def test_a_foreign_page_cannot_ask(client: httpx.Client, collector: Collector) -> None:
    for headers in (
        {"host": "evil.example"},
        {"host": "evil.example:4318"},
        {"host": "127.0.0.1.evil.example"},
        {"host": ""},
        {"origin": "https://evil.example"},
        {"origin": "null"},
    ):
        for method, path in (("POST", "/v1/query"), ("GET", "/v1/index"), ("GET", "/v1/stream")):
            answer = client.request(method, path, json={"sql": "select 1"}, headers=headers)
            assert (answer.status_code, answer.json()["kind"]) == (403, "refused"), (headers, path)
    port = int(collector.http.rsplit(":", 1)[1])
    for host in ("localhost", f"localhost:{port}", "127.0.0.1", f"[::1]:{port}"):
        assert client.get("/v1/index", headers={"host": host}).status_code == 200
    assert client.get("/v1/index", headers={"origin": f"http://localhost:{port}"}).status_code == 200


def test_without_an_index_reads_are_503_and_receiving_goes_on(tmp_path: Path) -> None:
    with Collector(tmp_path / "home") as alone, alone.client() as client:
        for method, path in (("POST", "/v1/query"), ("GET", "/v1/index"), ("GET", "/v1/stream")):
            answer = client.request(method, path, json={"sql": "select 1"})
            assert (answer.status_code, answer.json()["kind"]) == (503, "restarting")
            assert answer.headers["retry-after"] == "1"
        send(client, event(1))


def test_each_read_needs_its_scope_once_tokens_are_made(tmp_path: Path) -> None:
    home = tmp_path / "home"
    tokens = {
        scope: tachograph("token", "create", "--scope", scope, home=home).stdout.strip()
        for scope in ("ingest", "read", "sql", "admin")
    }
    allowed = {"/v1/query": {"sql", "admin"}, "/v1/index": {"read", "admin"}, "/v1/stream": {"read", "admin"}}
    with Collector(home) as alone, alone.client() as client:
        for path, scopes in allowed.items():
            method = "POST" if path == "/v1/query" else "GET"
            for scope, token in tokens.items():
                headers = {"authorization": f"Bearer {token}", "host": "reverse.proxy.example"}
                answer = client.request(method, path, json={"sql": "select 1"}, headers=headers)
                # There is no index behind it, so who is let in is told 503.
                assert answer.status_code == (503 if scope in scopes else 403), (path, scope)
            answer = client.request(method, path, json={"sql": "select 1"})
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_a_body_that_never_ends_is_let_go(tmp_path: Path) -> None:
    with Collector(tmp_path / "home", TACHOGRAPH_BODY_TIMEOUT_S="0.5") as alone:
        host, port = alone.http.removeprefix("http://").rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(
                b"POST /v1/query HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
                b"content-length: 100\r\n\r\n{"
            )
            assert connection.recv(100).startswith(b"HTTP/1.1 408")
