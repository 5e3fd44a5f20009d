"""`tachograph sessions`: the sessions on record, newest first."""

import click

from cli import output
from cli.settings import settings
from store import open as open_store

SHOWN = (
    "session",
    "status",
    "source",
    "started",
    "took",
    "turns",
    "calls",
    "tools",
    "input",
    "cached",
    "output",
    "cost",
)
NUMBERS = SHOWN[4:]


@click.command("sessions")
@click.option("--limit", default=50, show_default=True, help="How many.")
@click.option("--status", help="Only those with this status.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for scripts, with every column.")
@click.pass_context
def command(ctx: click.Context, limit: int, status: str | None, as_json: bool) -> None:
    """List the sessions on record, newest first."""
    where = "where status = ?" if status else ""
    with open_store(settings(ctx).home) as reader:
        rows = reader.sql(
            f"select * from sessions {where} order by started desc nulls last, session_id limit {limit:d}",  # noqa: S608
            [status] if status else [],
        ).to_pylist()
    if as_json:
        output.json_line({"schema": "tachograph.sessions", "version": 1, "sessions": rows})
        return
    output.table(
        SHOWN,
        [
            (
                row["session_id"],
                row["status"],
                row["service_name"],
                output.ago(row["started"]),
                output.duration(row["duration_ms"]),
                row["turns"],
                _of(row["model_calls"], row["model_calls_failed"]),
                _of(row["tool_calls"], row["tool_calls_failed"]),
                row["uncached_input_tokens"],
                row["cache_read_tokens"],
                row["output_tokens"],
                output.cost(row),
            )
            for row in rows
        ],
        right=NUMBERS,
    )
    if not rows:
        click.echo("nothing recorded yet; `tachograph demo` shows what it looks like", err=True)


def _of(all_of_them: int, failed: int) -> str:
    return f"{all_of_them} ({failed} failed)" if failed else str(all_of_them)
