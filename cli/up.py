"""`tachograph up`: receive, load, answer and show, until stopped."""

import asyncio
import sys

import click

from cli.settings import log_to_stderr, settings, take_prices
from collector.supervisor import Supervisor
from models.address import Address


@click.command("up")
@click.option(
    "--otlp-http", metavar="HOST:PORT", help="Address of OTLP/HTTP, reads and health.  [default: 127.0.0.1:4318]"
)
@click.option("--otlp-grpc", metavar="HOST:PORT", help="Address of OTLP/gRPC.  [default: 127.0.0.1:4317]")
@click.option("--dashboard", metavar="HOST:PORT", help="Address of the dashboard.  [default: 127.0.0.1:8501]")
@click.option("--no-dashboard", is_flag=True, help="Run without the dashboard.")
@click.option("--price-file", metavar="FILE", help="Price file of your own (docs/prices.md).")
@click.pass_context
def command(
    ctx: click.Context,
    otlp_http: str | None,
    otlp_grpc: str | None,
    dashboard: str | None,
    no_dashboard: bool,
    price_file: str | None,
) -> None:
    """Receive telemetry, load it, answer questions about it and show it, until stopped.

    Prints one line `ready …` when all is up. SIGTERM or Ctrl-C: answers what is running, stores it, exits 0; a second
    one ends at once. What dies is started again; nothing acknowledged is lost.
    """
    chosen = settings(ctx, otlp_http=otlp_http, otlp_grpc=otlp_grpc, dashboard=dashboard, price_file=price_file)
    log_to_stderr()
    take_prices(chosen)

    def ready(line: str) -> None:
        click.echo(line)
        sys.stdout.flush()

    async def run() -> int:
        where = None if no_dashboard else Address.parse(chosen.dashboard)
        return await Supervisor(chosen, where, lambda line: click.echo(line, err=True)).run(ready)

    sys.exit(asyncio.run(run()))
