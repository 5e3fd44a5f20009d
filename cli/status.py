"""`tachograph status`: what was received, refused and stored."""

import sys
from typing import Any

import click
import orjson

from cli.settings import settings
from collector.home import Home
from collector.status import status


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for scripts.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """What was received, refused and stored, per signal."""
    home = Home(settings(ctx).home)
    found = status(home)
    if as_json:
        click.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2 if sys.stdout.isatty() else 0).decode())
        return
    _show(found)


def _show_index(index: dict[str, Any]) -> None:
    if index["loaded"] is not None:
        behind, seconds = index["lag"]["records"], index["lag"]["seconds"]
        late = f", {seconds:.0f} s behind" if seconds else ""
        click.echo(f"index    {index['loaded']} records loaded, {behind} to go{late}")
    if index["trouble"]:
        click.echo(f"trouble  {index['trouble']}")
    if index.get("undecoded"):
        click.echo(f"trouble  {index['undecoded']} records could not be decoded; see the table `undecoded`")
    for note in index["quarantines"]:
        click.echo(f"put aside  {note['time']} {note['file']}: {note['reason']}")


def _show(found: dict[str, Any]) -> None:
    for process in found["processes"]:
        where = "  ".join(f"{key}={process[key]}" for key in ("http", "grpc") if key in process)
        click.echo(f"{process['role']} running (pid {process['pid']})  {where}")
    if not found["processes"]:
        click.echo("not running; start it with `tachograph up`")
    click.echo(f"home     {found['home']}")
    click.echo(f"journal  {found['journal']['position']} records, {found['journal']['bytes'] / 1e6:.1f} MB on disk")
    _show_index(found["index"])
    for line in found["journal"]["damage"]:
        click.echo(f"damage   {line}")
    rows = [("signal", "requests", "items", "stored", "rejected", "refused", "last")]
    for name, signal in found["signals"].items():
        received, journaled = signal["received"], signal["journaled"]
        rows.append(
            (
                name,
                str(received["requests"]),
                str(received["items"]),
                str(journaled["items"]),
                str(signal["rejected"]["items"]),
                str(signal["refused"]["requests"]),
                journaled["last"] or "-",
            )
        )
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    for row in rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    for name, signal in found["signals"].items():
        for reason, requests in signal["refused"]["by_reason"].items():
            click.echo(f"refused  {name}: {requests} x {reason}")
