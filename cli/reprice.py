"""`tachograph reprice`: price what is recorded again, by another table or a price file of your own."""

from collections.abc import Callable
from dataclasses import asdict

import click
import httpx
import orjson

import store
from cli.output import json_line, progress
from cli.settings import settings
from collector.home import Home
from collector.prices import Prices
from ingest.pricing import costs
from models.errors import Locked, Unreachable
from models.pricing import PriceTable
from store import Layout
from store.reader import answers
from store.repricing import Outcome, Repricing, Totals

LINE_SECONDS = 60.0
"""A running index says how far it is many times a second; after so long without a word it is not believed any more."""


@click.command("reprice")
@click.option(
    "--table", "tables", multiple=True, metavar="FILE|VERSION",
    help="Prices to go by: a price file of your own, a data.json of genai-prices, a version that --list shows, or "
    "`installed`. Twice for a table and a file of your own. [default: the installed table, and your own file]",
)  # fmt: skip
@click.option("--list", "listing", is_flag=True, help="Only show which prices this home goes by and knows.")
@click.option("--json", "as_json", is_flag=True, help="Tell the outcome as one JSON object.")
@click.pass_context
def command(ctx: click.Context, tables: tuple[str, ...], *, listing: bool, as_json: bool) -> None:
    """Price what is recorded again; no record changes, and no cost that a source reported.

    The prices stay chosen: what comes in later, and a rebuild, go by them too. A price file of your own adds models or
    overrides those of the table (docs/prices.md); TACHOGRAPH_PRICE_FILE sets it for good. Works while the collector
    runs; interrupted, it goes on at the next start. Doing it again changes nothing.
    """
    chosen = settings(ctx)
    prices = Prices(chosen.home)
    if listing:
        _list(prices)
        return
    Home(chosen.home).make()
    table = prices.choose(tables, chosen.price_file)
    if not Layout(chosen.home).database.exists():
        click.echo(f"nothing is recorded yet; calls will be priced by {table.version}", err=True)
        return
    outcome = _repriced(Home(chosen.home), prices, table)
    if as_json:
        json_line({"schema": "tachograph.reprice", "schema_version": 1, **asdict(outcome)})
    else:
        _tell(outcome)


def _repriced(home: Home, prices: Prices, table: PriceTable) -> Outcome:
    with progress(1, "pricing") as bar:

        def shown(done: int, rows: int) -> None:
            bar.length = max(rows, 1)
            bar.update(done - bar.pos)

        try:
            index = store.Store.open(home.path)
        except Locked:
            if not answers(Layout(home.path).socket):
                raise
            return _by_the_index(home, shown)
        with index:
            work = Repricing(index, table.version, lambda calls: costs(calls, table))
            while work.step():
                shown(work.done, work.rows)
    assert work.outcome is not None
    if work.outcome.version_before != work.outcome.version:
        prices.note(work.outcome)
    return work.outcome


def _by_the_index(home: Home, shown: Callable[[int, int], None]) -> Outcome:
    """Have the running index do it, which owns the file; it reads the choice from the home folder."""
    socket = Layout(home.path).socket
    transport = httpx.HTTPTransport(uds=str(socket))
    try:
        with (
            httpx.Client(transport=transport, timeout=LINE_SECONDS) as client,
            client.stream("POST", "http://index/v1/reprice") as answer,
        ):
            if answer.status_code != httpx.codes.OK:
                raise Unreachable("the index", answer.read().decode(errors="replace")[:500])
            for line in answer.iter_lines():
                told = orjson.loads(line)
                if "outcome" in told:
                    return _outcome(told["outcome"])
                if "error" in told:
                    raise Unreachable("the index", told["error"], next_step="it tries again by itself")
                shown(told["done"], told["rows"])
    except httpx.TransportError as error:
        raise Unreachable(str(socket), str(error) or type(error).__name__, next_step="run it again") from error
    raise Unreachable(str(socket), "it ended without an answer", next_step="run it again")


def _outcome(told: dict[str, object]) -> Outcome:
    sums = {name: Totals(**told[name]) for name in ("before", "after")}  # type: ignore[arg-type] # from our own index
    return Outcome(**(told | sums))  # type: ignore[arg-type] # from our own index


def _tell(outcome: Outcome) -> None:
    click.echo(f"prices     {outcome.version}")
    if outcome.version_before not in (None, outcome.version):
        click.echo(f"before     {outcome.version_before}")
    click.echo(f"calls      {outcome.before.calls}, of which {outcome.changed} cost something else now")
    click.echo(f"total      ${outcome.before.cost_usd:.6f} before, ${outcome.after.cost_usd:.6f} now")
    click.echo(f"unpriced   {_unpriced(outcome.before)} before, {_unpriced(outcome.after)} now")


def _unpriced(totals: Totals) -> str:
    share = totals.unpriced / max(totals.unpriced + totals.priced, 1)
    return f"{totals.unpriced} calls ({share:.1%})"


def _list(prices: Prices) -> None:
    click.echo(f"goes by    {prices.table().version}")
    for one in prices.kept():
        click.echo(f"knows      {one.version}")
