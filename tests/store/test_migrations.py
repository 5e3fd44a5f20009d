"""Bringing older files forward."""

from pathlib import Path

import duckdb
import pytest

from models.errors import SchemaTooNew
from store import Layout, Store, database
from store.migrations import migrate, version_of
from store.schema import VERSION
from tests.store.frames import spans


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
