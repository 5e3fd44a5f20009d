"""`tachograph show SESSION`: one session, step by step."""

from typing import Any

import click

from cli import output
from cli.settings import settings
from models.errors import UsageError
from store import Reader
from store import open as open_store


@click.command("show")
@click.argument("session")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for scripts: the session and its timeline.")
@click.option("--limit", default=500, show_default=True, help="How many steps at most, from the first.")
@click.pass_context
def command(ctx: click.Context, session: str, as_json: bool, limit: int) -> None:
    """Show SESSION step by step. Any unique beginning of its id will do."""
    with open_store(settings(ctx).home) as reader:
        found = _session(reader, session)
        # The session's time range lets the database skip everything else.
        steps = reader.sql(
            "select * from timeline where session_id = ? and timestamp between ? and ? order by place limit ?",
            [found["session_id"], str(found["first_time"]), str(found["last_time"]), limit],
        ).to_pylist()
        gaps = reader.sql("select * from gaps where session_id = ?", [found["session_id"]]).to_pylist()
    if as_json:
        output.json_line(
            {"schema": "tachograph.session", "version": 1, "session": found, "timeline": steps, "gaps": gaps}
        )
        return
    _head(found)
    start = steps[0]["started"] if steps else None
    output.table(
        ("at", "fact", "what", "status", "took", "input", "cached", "output", "cost"),
        [
            (
                f"+{(step['timestamp'] - start).total_seconds():.1f} s" if start and step["timestamp"] else "",
                step["type"],
                step["label"] if step["label"] != step["type"] else "",
                step["status"],
                output.duration(step["duration_ms"]) if step["duration_ms"] is not None else "",
                step["uncached_input_tokens"],
                step["cache_read_tokens"],
                step["output_tokens"],
                output.money(step["cost_usd"], step["cost_state"]) if step["cost_state"] else "",
            )
            for step in steps
        ],
        right=("at", "took", "input", "cached", "output", "cost"),
    )
    if found["events"] > len(steps):
        click.echo(f"{found['events'] - len(steps)} more steps; see --limit", err=True)
    for gap in gaps:
        click.echo(f"gap: {output.clean(gap['detail'])}", err=True)


def _session(reader: Reader, prefix: str) -> dict[str, Any]:
    rows: list[dict[str, Any]] = reader.sql(
        "select * from sessions where starts_with(session_id, ?) order by session_id = ? desc, session_id limit 5",
        [prefix, prefix],
    ).to_pylist()
    if not rows:
        raise UsageError(f"no session begins with {prefix!r}", next_step="`tachograph sessions` lists them")
    if len(rows) > 1 and rows[0]["session_id"] != prefix:
        names = ", ".join(row["session_id"] for row in rows)
        raise UsageError(f"several sessions begin with {prefix!r}: {names}", next_step="write more of the id")
    return rows[0]


def _head(found: dict[str, Any]) -> None:
    tokens = " + ".join(
        f"{found[column]} {word}"
        for column, word in (
            ("uncached_input_tokens", "in"),
            ("cache_read_tokens", "cached"),
            ("cache_write_tokens", "cache written"),
            ("output_tokens", "out"),
        )
        if found[column]
    )
    click.echo(f"{output.clean(found['session_id'])}  {found['status']}  {output.duration(found['duration_ms'])}")
    click.echo(
        f"{found['model_calls']} model calls, {found['tool_calls']} tool calls, {tokens or 'tokens unknown'}, "
        f"cost {output.cost(found)}; from {output.clean(found['service_name'])}"
    )
