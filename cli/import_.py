"""`tachograph import`: add recorded files to the record."""

from pathlib import Path

import click

from cli.loading import load
from cli.output import progress
from cli.settings import settings
from collector.home import Home
from collector.importing import files_in, import_files
from models.errors import CheckFailed

SHOWN_PROBLEMS = 20


@click.command("import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.pass_context
def command(ctx: click.Context, paths: tuple[Path, ...]) -> None:
    """Add recorded files to the record: OTLP as protobuf, JSON or JSON lines, and event lines; .gz and .zst too.

    In a folder, files of other kinds are passed over. Importing again adds nothing. One bad line costs that line and is
    reported with its number; exit code 7 if there was any.
    """
    home = Home(settings(ctx).home)
    files = files_in(paths)
    with progress(len(files), "importing") as bar:
        done = import_files(home, files, strict=all(path.is_file() for path in paths), told=lambda _: bar.update(1))
    load(home)
    click.echo(f"{done.items} records from {done.files} files; {done.redactions} secrets masked", err=True)
    if done.problems:
        raise CheckFailed(
            f"{len(done.problems)} parts could not be read; everything else is in",
            [str(problem) for problem in done.problems[:SHOWN_PROBLEMS]]
            + ([f"and {len(done.problems) - SHOWN_PROBLEMS} more"] if len(done.problems) > SHOWN_PROBLEMS else []),
        )
    if not done.files:
        click.echo("no file was recognised", err=True)
