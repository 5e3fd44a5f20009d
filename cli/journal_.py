"""`tachograph journal`: looking after the journal."""

import click
import orjson

from cli.output import progress
from cli.settings import settings
from collector.home import Home
from journal import Journal
from journal.segment import listing as segment_files
from models.errors import CheckFailed


@click.group("journal")
def command() -> None:
    """Look after the journal."""


@command.command("verify")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of words.")
@click.pass_context
def verify(ctx: click.Context, as_json: bool) -> None:
    """Check every record against its hash and the one before it.

    Names each changed or missing record; exit code 3 if there is any. The other records are still served.
    """
    home = Home(settings(ctx).home)
    if not home.journal.is_dir():
        raise CheckFailed(f"there is no journal in {home.path}", next_step="start one with `tachograph up`")
    files = segment_files(home.journal)
    with (
        Journal(home.journal, compress=False) as journal,
        progress(len(files), "verifying segments") as bar,
    ):
        findings = journal.verify(lambda _: bar.update(1))
        records = journal.last_position()
    if as_json:
        click.echo(orjson.dumps({"records": records, "segments": len(files), "findings": findings}).decode())
    elif not findings:
        click.echo(f"whole: {records} records in {len(files)} segments")
    if findings:
        lost = sum(finding.records for finding in findings)
        raise CheckFailed(
            f"the journal is damaged: {lost} of {records} records",
            [str(finding) for finding in findings],
            next_step="all other records are still served; restore the segment from a backup to get these back",
        )
