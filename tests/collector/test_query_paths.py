"""No answer, be it rows, plan or error, tells where on the machine anything lies."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import httpx
import pytest

from tests.collector.asking import answered, ask, event, loaded, send
from tests.collector.test_query import READING, REFUSED
from tests.running import Collector

ERRORS = [
    "select nothing from events",
    "select cast('x' as int)",
    "select * from events where payload::int > 1",
    "select 1/0, sqrt(-1)",
    "select * from tachograph.nowhere.events",
    "select strptime('x', '%Y')",
    "select json('{')",
    "select range(0, 1, 0)",
    "select * from range(-1, 'x')",
    "select current_query()",
    "select count(*) from range(100000000000000)",
]
SCHEMA = [f"select * from information_schema.{name}" for name in ("tables", "columns", "schemata", "views")]
TELLING = ("duckdb", "pragma", "pg", "sqlite", "information_schema", "show", "storage")
"""How the names of catalog functions and views begin."""


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    home = tmp_path_factory.mktemp("somewhere-on-this-machine") / "home"
    with Collector(home, everything=True) as running:
        with running.client() as client:
            send(client, *(event(number) for number in range(3)))
            loaded(client)
        yield running


@pytest.fixture
def client(collector: Collector) -> Iterator[httpx.Client]:
    with collector.client() as found:
        answered(found)
        yield found


def catalogs() -> list[str]:
    """Every catalog function and catalog view that this DuckDB has, as things to read from."""
    with duckdb.connect() as connection:
        functions = connection.execute(
            "select distinct function_name from duckdb_functions() where function_type in ('table', 'table_macro')"
        ).fetchall()
        views = connection.execute(
            "select schema_name, view_name from duckdb_views() where internal union "
            "select table_schema, table_name from information_schema.tables"
        ).fetchall()
    calls = [f"{name}()" for (name,) in functions if name.startswith(TELLING)]
    calls += [f"{name}('events')" for (name,) in functions if name.startswith(("pragma", "storage"))]
    return sorted({*calls, *(f"{schema}.{name}" for schema, name in views), *(name for _, name in views)})


def test_catalogs_are_there_to_be_asked_and_one_of_them_would_tell(collector: Collector) -> None:
    """The check below would fail if they were served: DuckDB itself tells the path of the file it has open."""
    names = catalogs()
    assert {"duckdb_databases()", "duckdb_settings()", "duckdb_tables()", "pragma_database_list"} <= set(names)
    assert {"duckdb_logs", "main.duckdb_databases", "pg_catalog.pg_settings"} <= set(names)
    path = collector.home / "other.duckdb"
    with duckdb.connect(str(path)) as connection:
        assert str(path) in str(connection.execute("select * from duckdb_databases()").fetchall())


@pytest.mark.parametrize("form", ["select * from {}", "select (select max(c::varchar) from {} as c)", "describe {}"])
def test_no_catalog_tells_where_things_lie(client: httpx.Client, collector: Collector, form: str) -> None:
    for name in catalogs():
        check(ask(client, form.format(name)), collector, name)


def test_no_answer_tells_where_things_lie(client: httpx.Client, collector: Collector) -> None:
    for sql in [*REFUSED, *READING, *SCHEMA, *ERRORS, "show all tables"]:
        answer = ask(client, sql, params=[1] if "?" in sql else [], timeout_s=1)
        assert answer.status_code < 500, answer.text
        check(answer, collector, sql)


def check(answer: httpx.Response, collector: Collector, asked: str) -> None:
    for secret in (str(collector.home), "somewhere-on-this-machine", str(Path.home()) + "/", "tachograph.duckdb"):
        assert secret not in answer.text, asked
    assert "site-packages" not in answer.text, asked
