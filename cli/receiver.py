"""`tachograph receiver`: a receiver alone; `up` starts it, and several may run on one home."""

import sys

import click
import uvloop

from cli.settings import log_to_stderr, settings
from collector.receiving import Listening, serve


@click.command("receiver")
@click.option("--otlp-http", metavar="HOST:PORT", help="Address of OTLP/HTTP and health.  [default: 127.0.0.1:4318]")
@click.option("--otlp-grpc", metavar="HOST:PORT", help="Address of OTLP/gRPC.  [default: 127.0.0.1:4317]")
@click.pass_context
def command(ctx: click.Context, otlp_http: str | None, otlp_grpc: str | None) -> None:
    """Receive telemetry until stopped, without loading it; `tachograph up` starts this by itself.

    Prints one line `ready …` when the ports are open. SIGTERM or Ctrl-C: answers what is running, stores it, exits 0.
    """
    chosen = settings(ctx, otlp_http=otlp_http, otlp_grpc=otlp_grpc)
    log_to_stderr()

    def ready(listening: Listening) -> None:
        click.echo(f"ready otlp-http={listening.http} otlp-grpc={listening.grpc} home={chosen.home}")
        sys.stdout.flush()

    uvloop.run(serve(chosen, ready))
