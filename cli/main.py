"""`tachograph VERB`: finds the verb's module, loads it when called, and turns failures into one line and a code."""

import importlib
import os
import sys
from pathlib import Path
from typing import NoReturn

import click

from models.errors import TachographError

VERBS = {
    "up": ("cli.up", "Receive telemetry until stopped."),
    "demo": ("cli.demo", "Fill a home with recorded sessions and show them."),
    "import": ("cli.import_", "Add recorded files to the record."),
    "sessions": ("cli.sessions", "The sessions on record, newest first."),
    "show": ("cli.show", "One session, step by step."),
    "sql": ("cli.sql", "Ask anything of the index."),
    "tail": ("cli.tail", "Follow events as they arrive."),
    "run": ("cli.run", "Work on a prompt in this folder, with the runtime of this home."),
    "control": ("cli.control", "Send a command to the runtime."),
    "explain": ("cli.explain", "Why the runtime chose as it did, from the record."),
    "status": ("cli.status", "What was received, refused and stored."),
    "doctor": ("cli.doctor", "Check this machine and the home folder, and say how to mend what is wrong."),
    "token": ("cli.token", "Make, list and revoke access tokens."),
    "schema": ("cli.schema", "Print the JSON Schema of event types."),
    "journal": ("cli.journal_", "Look after the journal."),
    "rebuild": ("cli.rebuild", "Make the index again from the journal."),
    "reprice": ("cli.reprice", "Price what is recorded again, by another table or your own price file."),
    "receiver": ("cli.receiver", ""),
    "index": ("cli.index", ""),
}
"""Each verb's module and its line in the overview, so that the overview loads none of them; parts of `up` have none."""

EXIT_CODES = """\b
Exit codes:
  0 ok                        6 data newer than this program
  1 unexpected                7 malformed input
  2 usage                     8 limit hit (time, memory, rows)
  3 a check failed            9 service unreachable
  4 not authorised          130 interrupted
  5 locked by another       143 terminated
"""


class Verbs(click.Group):
    """The verbs, each loaded from its own module when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of a first visit."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The verb's command, loaded now."""
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(VERBS[cmd_name][0])
        command = module.command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The overview, without loading the verbs."""
        with formatter.section("Verbs"):
            formatter.write_dl([(name, line) for name, (_, line) in VERBS.items() if line])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb asked for; a misspelt one brings the nearest."""
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], VERBS, n=1)
            hint = f" Did you mean `{near[0]}`?" if near else ""
            ctx.fail(f"There is no verb `{args[0]}`.{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=Verbs, epilog=EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="TACHOGRAPH_HOME",
    help="Folder of journal, index, tokens and keys.  [env: TACHOGRAPH_HOME; default: in the user's data folder]",
)
@click.option("--debug", is_flag=True, help="Show the traceback of a failure.")
@click.version_option(package_name="tachograph", prog_name="tachograph")
@click.pass_context
def cli(ctx: click.Context, home: Path | None, debug: bool) -> None:
    """A flight recorder for AI agents: receive what they emit, keep it, and answer questions about it."""
    ctx.obj = {"home": home, "debug": debug}


def main() -> NoReturn:
    """Run the program; every expected failure ends as one line on stderr and its exit code."""
    try:
        cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("interrupted", err=True)
        sys.exit(130)
    except click.exceptions.Exit as done:
        sys.exit(done.exit_code)
    except click.ClickException as problem:
        problem.show()
        sys.exit(problem.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader of our output has gone
        sys.exit(0)
    except TachographError as problem:
        if "--debug" in sys.argv:
            raise
        sys.exit(_report(problem))
    sys.exit(0)


def _report(problem: TachographError) -> int:
    click.echo(f"error: {problem.message}", err=True)
    for finding in getattr(problem, "findings", ()):
        click.echo(f"  {finding}", err=True)
    if problem.next_step:
        click.echo(f"hint: {problem.next_step}", err=True)
    return problem.exit_code


if __name__ == "__main__":
    main()
