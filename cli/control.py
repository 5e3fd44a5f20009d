"""`tachograph control`: send a command to the runtime, the running one or the one in the home folder."""

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

import click
import orjson

from cli.settings import settings
from models.errors import InvalidCommand, UsageError


@click.command("control")
@click.argument("name", metavar="COMMAND", required=False)
@click.option(
    "--json", "text", metavar="OBJECT", help="What the command takes, as a JSON object; `-` reads it from stdin."
)
@click.option("--list", "listing", is_flag=True, help="Print the table of commands.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema of what the command takes and gives.")
@click.pass_context
def command(ctx: click.Context, name: str | None, text: str | None, listing: bool, schema: bool) -> None:
    """Carry out COMMAND on the runtime of this home folder and print its answer as JSON.

    A runtime that is running is asked over HTTP; otherwise its folder is opened just for this command, and no turn is
    begun.
    """
    from runtime.control.command import TABLE
    from runtime.runtime import Runtime  # noqa: F401 - fills the table

    if listing:
        _list()
        return
    if name is None:
        raise UsageError("name a command", next_step="see `tachograph control --list`")
    if name not in TABLE:
        raise InvalidCommand(name, ["there is no such command"])
    if schema:
        one = TABLE[name]
        told = {"takes": one.asks.model_json_schema(), "gives": one.answers.model_json_schema(mode="serialization")}
        click.echo(orjson.dumps(told, option=orjson.OPT_INDENT_2).decode())
        return
    answer = _carry_out(settings(ctx).home / "runtime", name, _content(text, name))
    click.echo(orjson.dumps(answer, option=orjson.OPT_INDENT_2 if sys.stdout.isatty() else 0).decode())


def _content(text: str | None, name: str) -> Any:
    if text == "-":
        text = sys.stdin.read()
    try:
        return orjson.loads(text or "{}")
    except orjson.JSONDecodeError as problem:
        raise InvalidCommand(name, [f"--json is not JSON: {problem}"]) from None


def _carry_out(folder: Path, name: str, content: Any) -> dict[str, Any]:
    from runtime.control.client import ControlClient, announced

    logging.getLogger("tachograph").setLevel(logging.ERROR)  # facts wait for a collector without a word
    if (found := announced(folder)) is not None:
        with ControlClient.of(found) as client:
            return client.call(name, content)
    return asyncio.run(_alone(folder, name, content))


async def _alone(folder: Path, name: str, content: Any) -> dict[str, Any]:
    """Open the runtime's folder for one command."""
    from runtime.runtime import Runtime, RuntimeOptions

    async with await Runtime.open(folder, RuntimeOptions(work=False)) as runtime:
        answer = await runtime.call(name, content)
    told: dict[str, Any] = orjson.loads(answer.model_dump_json(exclude_none=True))
    return told


def _list() -> None:
    from rich.console import Console
    from rich.table import Table

    from runtime.control.command import TABLE

    table = Table("command", "", "what it does", box=None, header_style="bold")
    for one in TABLE.values():
        table.add_row(
            one.name, one.effect, one.summary if one.supported else f"[dim]{one.summary} (not supported yet)[/]"
        )
    Console().print(table)
