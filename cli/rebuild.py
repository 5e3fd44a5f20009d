"""`tachograph rebuild`: make the index again from the journal."""

import click

from cli.output import progress
from cli.settings import settings, take_prices
from collector.home import Home
from collector.loader import rebuild
from journal import Journal
from models.errors import UsageError


@click.command("rebuild")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Make the index again from the journal, beside the old one, and swap it in when it is whole.

    Stop `tachograph up` first (exit code 5 while it runs). Receiving does not need the index and loses nothing.
    """
    chosen = settings(ctx)
    home = Home(chosen.home)
    if not home.journal.is_dir():
        raise UsageError(f"there is no journal in {home.path}", next_step="start one with `tachograph up`")
    take_prices(chosen)
    with Journal(home.journal, compress=False) as journal:
        last = journal.last_position()
    with progress(last, "rebuilding") as bar:
        rebuild(home.path, lambda position: bar.update(position - bar.pos))
    click.echo(f"rebuilt from {last} journal records", err=True)
