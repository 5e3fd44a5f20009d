"""Opening the DuckDB file: always hardened, whether we write or only read."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

CATALOG = "tachograph"
"""The name the file has inside; users see `tachograph.main.events`, never a path."""

MEMORY_LIMIT = "2GB"

_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "python_scan_all_frames": "false",
}

_DAMAGE = re.compile(
    r"(?:IO Error: |Serialization Error: )?(?:Corrupt database file|Could not read enough bytes|Failed to deserialize|"
    r"The file .* not a valid DuckDB database|Trying to read a database file with version)"
)


def connect(
    path: Path, *, read_only: bool = False, threads: int | None = None, memory_limit: str = MEMORY_LIMIT
) -> duckdb.DuckDBPyConnection:
    """A connection to the file and to nothing else: no other file, no network, no extension, no setting can be reached.

    The file is attached to an in-memory database without a write-ahead log: what a checkpoint has not written is lost
    with the process and comes again from the journal. DuckDB's own checkpoints are put off; the writer makes them.
    """
    connection = duckdb.connect(":memory:", config=_CONFIG)
    try:
        connection.execute(f"set memory_limit = '{memory_limit}'")
        if threads is not None:
            connection.execute(f"set threads = {threads:d}")
        for setting in (
            "checkpoint_threshold = '1TB'",
            "temp_directory = ''",
            "max_temp_directory_size = '0KB'",
            "allow_persistent_secrets = false",
            "TimeZone = 'UTC'",
            "allocator_background_threads = true",  # gives memory back after a heavy query
        ):
            connection.execute(f"set {setting}")
        connection.execute("pragma disable_checkpoint_on_shutdown")
        mode = "read_only" if read_only else "recovery_mode 'no_wal_writes'"
        connection.execute(f"attach {quoted(str(path))} as {CATALOG} ({mode})")
        connection.execute("set enable_external_access = false")
        connection.execute("set allowed_configs = ['max_vacuum_tasks']")  # for `merging`, and nothing else
        connection.execute("set lock_configuration = true")
        connection.execute(f"use {CATALOG}")
    except BaseException:
        connection.close()
        raise
    return connection


def cursor(connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    """A second connection to the same database, for another thread; a cursor does not take over `use`."""
    other = connection.cursor()
    other.execute(f"use {CATALOG}")
    return other


@contextmanager
def registered(connection: duckdb.DuckDBPyConnection, **tables: object) -> Iterator[None]:
    """Tables of this process as relations by these names.

    In a transaction that an error ended even letting go of them fails; that must not hide the error.
    """
    for name, table in tables.items():
        connection.register(name, table)
    try:
        yield
    finally:
        for name in tables:
            with suppress(duckdb.TransactionException):
                connection.unregister(name)


def merging(connection: duckdb.DuckDBPyConnection, wanted: bool) -> None:
    """Whether checkpoints merge small row groups and let go of deleted rows; see `Store.checkpoint`."""
    connection.execute("reset max_vacuum_tasks" if wanted else "set max_vacuum_tasks = 0")


def quoted(text: str) -> str:
    """A SQL string literal."""
    return "'" + text.replace("'", "''") + "'"


def without_paths(error: Exception) -> str:
    """What an error says, in one line and without the folders of this machine."""
    return re.sub(r"(?<![\w.])/(?:[^\s\"'/]+/)+", "", str(error)).replace("\n", " ").strip()


def lacks_memory(error: Exception) -> bool:
    """Whether DuckDB had no memory left; a checkpoint says so in words only."""
    return isinstance(error, duckdb.OutOfMemoryException) or "could not allocate block" in str(error)


def shows_damage(error: Exception) -> bool:
    """Whether an error says that the file is not as DuckDB wrote it.

    Only how a message begins counts, and only of errors that no query and no record can cause: what they bring along
    stands in many messages, and must not be able to condemn the file.
    """
    text = str(error)
    if isinstance(error, duckdb.FatalException | duckdb.InternalException):
        return "Corrupt database file" in text or "Could not read enough bytes" in text
    ours = type(error) is duckdb.Error or isinstance(error, duckdb.IOException | duckdb.SerializationException)
    return ours and _DAMAGE.match(text) is not None
