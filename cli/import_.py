"""`tachograph import`: add recorded files to the record."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import click

from cli.loading import load
from cli.output import progress, table
from cli.settings import settings, take_prices
from collector.home import Home
from collector.import_sources import Source, holding, sources
from collector.importing import Import, Imported, files_in, import_files
from models.errors import CheckFailed

SHOWN_PROBLEMS = 20
AUTO = "auto"
MEGABYTE = 1_000_000


@click.command("import")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…|auto")
@click.option("--yes", is_flag=True, help="With auto: do not ask before importing what was found.")
@click.option("--watch", is_flag=True, help="Go on and follow the files as they grow, until interrupted.")
@click.option(
    "--every", default=2.0, show_default=True, metavar="SECONDS", help="With --watch: how often to look for more."
)
@click.pass_context
def command(ctx: click.Context, paths: tuple[str, ...], *, yes: bool, watch: bool, every: float) -> None:
    """Add recorded files to the record.

    Session files of Claude Code, Codex and Gemini CLI; Inspect logs (.eval, .json); SWE-agent trajectories; Langfuse
    exports; AgentRunner result streams; OTLP as protobuf, JSON or JSON lines; event lines. Compressed ones (.gz, .zst)
    too. `auto` finds the sessions that Claude Code, Codex and Gemini CLI keep on this machine, tells what it found, and
    asks.

    In a folder, files of other kinds are passed over. Importing again adds nothing, and an interrupted import goes on
    where it stopped. One bad line costs that line and is reported with its number; exit code 3 if there was any.
    """
    chosen = settings(ctx)
    take_prices(chosen)
    home = Home(chosen.home)
    named = tuple(Path(path) for path in paths if path != AUTO)
    for path in named:
        if not path.exists():
            raise click.BadParameter(f"there is no file or folder {path}", ctx, param_hint="PATH")
    found = _agreed(yes) if AUTO in paths else []

    def present() -> list[Path]:
        return files_in(named) + [path for source in found for path in source.files()]

    files = present()
    strict = bool(named) and all(path.is_file() for path in named)
    with progress(sum(path.stat().st_size for path in files), "importing") as bar:
        done = import_files(home, files, strict=strict, told=bar.update)
    load(home)
    _tell(done)
    if watch:
        _follow(home, present, every)
    elif done.problems:
        raise CheckFailed(f"{len(done.problems)} parts could not be read; everything else is in", _shown(done))


def _agreed(yes: bool) -> list[Source]:
    """What is on this machine, after asking."""
    holdings = [held for source in sources(os.environ, Path.home()) if (held := holding(source)) is not None]
    if not holdings:
        click.echo("no sessions of Claude Code, Codex or Gemini CLI were found on this machine", err=True)
        return []
    table(
        ("client", "folder", "files", "MB", "first", "last"),
        [
            (h.source.client, h.source.folder, h.files, f"{h.size_bytes / MEGABYTE:.1f}", h.first.date(), h.last.date())
            for h in holdings
        ],
        right=("files", "MB"),
    )
    if not yes and not click.confirm("Import them?", default=True, err=True):
        raise click.Abort
    return [held.source for held in holdings]


def _tell(done: Imported) -> None:
    told = f"{done.items} records from {done.files} files; {done.redactions} secrets masked"
    click.echo(told + (f"; {done.unchanged} files have not changed since" if done.unchanged else ""), err=True)
    for kind, number in done.unknown.most_common():
        click.echo(f"kept, but of a kind we do not know: {kind} ({number} lines)", err=True)
    if not done.files and not done.unchanged:
        click.echo("no file was recognised", err=True)


def _shown(done: Imported) -> list[str]:
    shown = [str(problem) for problem in done.problems[:SHOWN_PROBLEMS]]
    rest = len(done.problems) - SHOWN_PROBLEMS
    return shown + ([f"and {rest} more"] if rest > 0 else [])


def _follow(home: Home, present: Callable[[], list[Path]], every: float) -> None:
    """Look again and again; new files are followed too."""
    click.echo("following; interrupt to stop", err=True)
    try:
        with Import.into(home) as running:
            while True:
                time.sleep(every)
                items, problems = running.done.items, len(running.done.problems)
                grown = [path for path in present() if running.follow(path)]
                for problem in running.done.problems[problems:]:
                    click.echo(str(problem), err=True)
                if grown:
                    running.save()
                    load(home)
                    click.echo(f"{running.done.items - items} more records from {len(grown)} files", err=True)
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
