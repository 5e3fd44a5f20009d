"""Bringing older files forward."""

from pathlib import Path

import duckdb
import pytest

from models.errors import SchemaTooNew
from store import Layout, Store, database
from store.migrations import migrate, version_of
from store.schema import VERSION
from tests.store.frames import event, events, records, spans


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Store.open(tmp_path) as store:
        store.append(*spans(20), position=3)
    return Layout(tmp_path).database


def add_column(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("alter table undecoded add column attempts integer")


def state(path: Path) -> tuple[object, ...]:
    with database.connect(path, read_only=True) as connection:
        columns = connection.execute("select * from undecoded limit 0").description or []
        count = connection.execute("select count(*) from records").fetchall()
        return version_of(connection), [column[0] for column in columns][-1], count


def test_an_older_file_is_brought_forward_and_the_old_one_kept(path: Path) -> None:
    before = path.read_bytes()
    steps = {VERSION: add_column, VERSION + 1: add_column_again}
    assert migrate(path, target=VERSION + 2, migrations=steps) == (VERSION, VERSION + 2)
    assert state(path) == (VERSION + 2, "more", [(20,)])
    assert path.with_name(f"{path.name}.v{VERSION}").read_bytes() == before
    assert migrate(path, target=VERSION + 2, migrations=steps) is None


def test_a_file_of_the_first_version_knows_how_far_it_is_rolled_up(path: Path) -> None:
    for noted, rolled_up in (("3", 3), ("-1", -1)):
        with database.connect(path) as connection:
            connection.execute("alter table progress drop column rolled_up")
            connection.execute("update meta set value = '1' where key = 'schema_version'")
            connection.execute("insert into meta values ('rolled_up', ?)", [noted])
            connection.execute(f"checkpoint {database.CATALOG}")
        assert migrate(path, target=2) == (1, 2)
        with database.connect(path, read_only=True) as connection:
            assert connection.execute("select position, rolled_up from progress").fetchall() == [(3, rolled_up)]
            assert connection.execute("select * from meta where key = 'rolled_up'").fetchall() == []


def test_what_is_derived_is_made_anew_for_a_file_of_an_older_version(tmp_path: Path) -> None:
    child = event("c", "model.completed", session_id="s", subagent_id="kid", payload="{}")
    with Store.open(tmp_path) as store:
        store.append(records(), events(child), 1)
    path = Layout(tmp_path).database
    with database.connect(path) as connection:
        connection.execute("drop table subagent_rollup; delete from session_gaps; delete from cost_rollup")
        for name in ("costs_unknown", "price_entry", "price_version"):
            connection.execute(f"alter table cost_rollup drop column {name}")
        connection.execute("update meta set value = '2' where key = 'schema_version'")
        connection.execute(f"checkpoint {database.CATALOG}")
    assert migrate(path) == (2, VERSION)
    with Store.open(tmp_path) as store, store.cursor() as cursor:
        found = cursor.execute("select subagent_id, parent_state, model_calls from subagents").fetchall()
        assert found == [("kid", "orphan", 1)]
        assert cursor.execute("select kind, subject from gaps").fetchall() == [("orphan", "s")]
        assert cursor.execute("select sum(calls) from costs").fetchall() == [(1,)]


def add_column_again(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("alter table undecoded add column more integer")


def test_an_interrupted_migration_leaves_the_file_as_it_was_and_starts_again(path: Path) -> None:
    before = path.read_bytes()

    def interrupted(connection: duckdb.DuckDBPyConnection) -> None:
        add_column(connection)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        migrate(path, target=VERSION + 1, migrations={VERSION: interrupted})
    assert path.read_bytes() == before
    assert migrate(path, target=VERSION + 1, migrations={VERSION: add_column}) == (VERSION, VERSION + 1)
    assert state(path) == (VERSION + 1, "attempts", [(20,)])


def test_a_newer_file_is_refused(path: Path) -> None:
    migrate(path, target=VERSION + 1, migrations={VERSION: add_column})
    with pytest.raises(SchemaTooNew) as error:
        Store.open(path.parent.parent)
    assert (error.value.found, error.value.supported) == (VERSION + 1, VERSION)
