"""Brings the file of an older program forward: on a copy, swapped in by renaming only when it is whole."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import duckdb

from models.errors import SchemaTooNew
from models.failpoints import reached
from store import database, rollup
from store.schema import TABLES, VERSION, create_table
from views.relations import Relation, relations

Migration = Callable[[duckdb.DuckDBPyConnection], None]


def _rolled_up_beside_the_position(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("alter table progress add column rolled_up bigint")
    connection.execute("""
        update progress set rolled_up = coalesce(
            (select cast(value as bigint) from meta where key = 'rolled_up' and value = '-1'), position
        )
    """)  # in a file the roll-ups are never behind
    connection.execute("delete from meta where key = 'rolled_up'")


def _subagents(connection: duckdb.DuckDBPyConnection) -> None:
    _create_table(connection, "subagent_rollup")  # empty: what is derived is made anew after the last step


def _costs_by_entry(connection: duckdb.DuckDBPyConnection) -> None:
    for name in ("costs_unknown bigint", "price_entry varchar", "price_version varchar"):
        connection.execute(f"alter table cost_rollup add column {name}")  # filled when what is derived is made anew


MIGRATIONS: dict[int, Migration] = {1: _rolled_up_beside_the_position, 2: _subagents, 3: _costs_by_entry}
"""For each older version, the step that makes the next one of it."""


def create(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the tables in an empty file."""
    connection.execute("begin")
    for name in TABLES:
        _create_table(connection, name)
    connection.execute("insert into meta values ('schema_version', ?)", [str(VERSION)])
    connection.execute("insert into progress values (0, 0, 0, 0, 0, 0)")
    connection.execute("commit")


def _create_table(connection: duckdb.DuckDBPyConnection, name: str) -> None:
    connection.execute(create_table(name, TABLES[name]))
    for column in TABLES[name]:
        connection.execute(f"comment on column {name}.{column.name} is {database.quoted(column.meaning)}")


def version_of(connection: duckdb.DuckDBPyConnection) -> int | None:
    """The schema version of the file; None if it is empty."""
    found = connection.execute(
        "select count(*) from duckdb_tables() where database_name = ? and table_name = 'meta'", [database.CATALOG]
    ).fetchall()
    if not found[0][0]:
        return None
    return int(connection.execute("select value from meta where key = 'schema_version'").fetchall()[0][0])


def migrate(
    path: Path, *, target: int = VERSION, migrations: Mapping[int, Migration] = MIGRATIONS
) -> tuple[int, int] | None:
    """Bring the file to the target version; the versions before and after, or None if there was nothing to do.

    The file as it was is kept beside it as `NAME.vN`. A run that is interrupted leaves the file untouched and the next
    one starts again.
    """
    with database.connect(path, read_only=True) as connection:
        found = version_of(connection)
    if found is None or found == target:
        return None
    if found > target:
        raise SchemaTooNew(path, found, target)
    work = path.with_name(path.name + ".migrating")
    work.unlink(missing_ok=True)
    shutil.copyfile(path, work)
    with database.connect(work) as connection:
        for version in range(found, target):
            connection.execute("begin")
            migrations[version](connection)
            connection.execute("update meta set value = ? where key = 'schema_version'", [str(version + 1)])
            connection.execute("commit")
            reached("store.migrated.step")
        connection.execute("begin")
        rollup.remake(connection)
        connection.execute("commit")
        connection.execute(f"checkpoint {database.CATALOG}")
    _sync(work)
    reached("store.migrated")
    kept = path.with_name(f"{path.name}.v{found}")
    kept.unlink(missing_ok=True)
    os.link(path, kept)
    reached("store.migrated.kept")
    work.replace(path)
    reached("store.migrated.swapped")
    _sync(path.parent)
    return found, target


def install_relations(connection: duckdb.DuckDBPyConnection) -> bool:
    """Make the relations in the file as this program knows them; False if they are there already."""
    wanted = "\n".join(relation.sql + repr(relation.columns) for relation in relations().values())
    digest = connection.execute("select md5(?)", [wanted]).fetchall()[0][0]
    if connection.execute("select 1 from meta where key = 'relations' and value = ?", [digest]).fetchall():
        return False
    connection.execute("begin")
    for relation in relations().values():
        _install(connection, relation)
    connection.execute("delete from meta where key = 'relations'")
    connection.execute("insert into meta values ('relations', ?)", [digest])
    connection.execute("commit")
    return True


def _install(connection: duckdb.DuckDBPyConnection, relation: Relation) -> None:
    connection.execute(f"create or replace view {relation.name} as {relation.sql}")
    connection.execute(f"comment on view {relation.name} is {database.quoted(relation.meaning)}")
    for column, meaning in relation.columns.items():
        if column != "*":
            connection.execute(f"comment on column {relation.name}.{column} is {database.quoted(meaning)}")


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
