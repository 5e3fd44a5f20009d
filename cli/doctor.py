"""`tachograph doctor`: is everything in order, and if not, what mends it."""

import click
import orjson

from cli.settings import settings
from collector.diagnosis import diagnose
from models.errors import CheckFailed


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="JSON for scripts.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """Check this machine and the home folder, and say how to mend what is wrong. Exit code 3 if anything is."""
    checks = []
    for check in diagnose(settings(ctx)):
        checks.append(check)
        if not as_json:
            click.echo(f"{'ok  ' if check.ok else 'FAIL'}  {check.name:<14} {check.detail}")
            if not check.ok and check.fix:
                click.echo(f"      fix: {check.fix}")
    if as_json:
        click.echo(orjson.dumps({"schema": "tachograph.doctor", "version": 1, "checks": checks}).decode())
    failed = [check.name for check in checks if not check.ok]
    if failed:
        raise CheckFailed(f"{len(failed)} of {len(checks)} checks failed: {', '.join(failed)}")
