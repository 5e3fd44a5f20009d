"""The tables as digests, so that two can be compared row for row."""

from collections.abc import Iterable
from pathlib import Path

import duckdb

from collector.loader import Loader
from journal import Entry, Journal
from journal.log import SEGMENT_BYTES
from store import Layout, Store, database
from tests.captures import Capture

ENTRIES_PER_COMMIT = 8


def fill(journal: Path, bodies: Iterable[Capture], segment_bytes: int = SEGMENT_BYTES) -> None:
    """A journal of real bodies; in a few commits, so that small segments are closed on the way."""
    entries = [Entry(f"otlp.{one.signal}", one.body, {"content": one.encoding}) for one in bodies]
    with Journal(journal, segment_bytes=segment_bytes, compress=False) as opened:
        for start in range(0, len(entries), ENTRIES_PER_COMMIT):
            opened.append(*entries[start : start + ENTRIES_PER_COMMIT])


def load(home: Path, store: Store) -> None:
    """Bring the store up to the journal's end."""
    with Journal(home / "journal", compress=False) as journal:
        loader = Loader(journal, store)
        loader.catch_up()
        loader.close()


def digests(home: Path) -> dict[str, object]:
    """For each table the number of its rows and a digest that does not depend on their order."""
    with database.connect(Layout(home).database, read_only=True) as connection:
        return digests_of(connection)


def digests_of(connection: duckdb.DuckDBPyConnection) -> dict[str, object]:
    """See digests."""
    names = connection.execute("select table_name from duckdb_tables() where database_name = 'tachograph'").fetchall()
    return {
        name: connection.execute(
            f"select count(*), sha256(string_agg(h, '' order by h)) from (select sha256(t::varchar) as h from {name} t)"
        ).fetchall()[0]
        for (name,) in names
        if name != "progress"  # how often things came twice depends on the way, what is stored does not
    }
