"""`tachograph sql`: ask anything of the index."""

import sys
from pathlib import Path
from typing import TextIO

import click
import orjson
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from cli import output
from cli.settings import settings
from models.errors import UsageError
from store import open as open_store


@click.command("sql")
@click.argument("query", required=False)
@click.option("-f", "--file", type=click.File(), help="Read the query from a file.")
@click.option("--json", "as_json", is_flag=True, help='Print {"columns": […], "rows": [[…]]}.')
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a header.")
@click.option("--parquet", type=click.Path(dir_okay=False, path_type=Path), help="Write a Parquet file.")
@click.pass_context
def command(
    ctx: click.Context,
    query: str | None,
    file: TextIO | None,
    as_json: bool,
    as_csv: bool,
    parquet: Path | None,
) -> None:
    """Run one SELECT (also DESCRIBE, SHOW, SUMMARIZE, EXPLAIN) over the index.

    QUERY may come as an argument, from a file, or on stdin. Start with `show tables`, then `describe sessions`.
    """
    text = query or (file.read() if file else None) or ("" if sys.stdin.isatty() else sys.stdin.read())
    if not text.strip():
        raise UsageError("no query", next_step='try: tachograph sql "select * from sessions limit 5"')
    with open_store(settings(ctx).home) as reader:
        found = reader.sql(text)
    if parquet is not None:
        pyarrow.parquet.write_table(found, parquet)
        click.echo(f"{found.num_rows} rows written to {parquet}", err=True)
    elif as_json:
        output.json_line({"columns": found.column_names, "rows": [list(row.values()) for row in _rows(found)]})
    elif as_csv:
        pyarrow.csv.write_csv(_plain(found), sys.stdout.buffer)
    else:
        output.table(found.column_names, (list(row.values()) for row in _rows(found)))
        if sys.stdout.isatty():
            click.echo(f"{found.num_rows} rows", err=True)


def _rows(found: pa.Table) -> list[dict[str, object]]:
    names = [f"{at}" for at in range(found.num_columns)]  # two columns may have one name
    rows: list[dict[str, object]] = found.rename_columns(names).to_pylist()
    return rows


def _plain(found: pa.Table) -> pa.Table:
    """Nested columns as JSON text, which CSV can hold."""
    for at, column in enumerate(found.schema):
        if pa.types.is_nested(column.type):
            texts = [
                None if value is None else orjson.dumps(value, default=str).decode() for value in found[at].to_pylist()
            ]
            found = found.set_column(at, column.name, pa.array(texts, pa.string()))
    return found
