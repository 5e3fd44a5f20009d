"""`tachograph index`: the index process alone; `up` starts it."""

import os
import sys

import click
import uvloop

from cli.settings import log_to_stderr, settings
from collector.indexing import serve


@click.command("index")
@click.pass_context
def command(ctx: click.Context) -> None:
    """Load the journal and answer questions until stopped; `tachograph up` starts this by itself.

    Prints the line `ready` when questions are answered. SIGTERM or Ctrl-C: finishes the batch, exits 0.
    """
    chosen = settings(ctx)
    log_to_stderr()

    def ready() -> None:
        click.echo("ready")
        sys.stdout.flush()

    uvloop.run(serve(chosen, ready))
    # Everything is written and closed; DuckDB's module would fill the log with complaints of its own on the way out.
    sys.stdout.flush()
    os._exit(0)
