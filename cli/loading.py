"""Bringing the journal into the index from the command line, whoever holds the index."""

import time

import click

import store
from cli.output import progress
from collector.home import Home
from collector.loader import Loader
from collector.prices import Prices
from collector.repricing import Repricer
from journal import Journal
from models.errors import Locked, TachographError

WAIT_SECONDS = 60.0


def load(home: Home) -> None:
    """Load what the journal holds; if an index process runs, it does, and we wait for it."""
    with Journal(home.journal, compress=False) as journal:
        last = journal.last_position()
        try:
            index = store.Store.open(home.path)
        except Locked:
            _wait(home, last)
            return
        with index, progress(last, "loading") as bar:
            bar.update(index.position())
            prices = Prices(home.path)
            loader = Loader(journal, index, Repricer(index, prices.table(), prices.note))
            try:
                loader.catch_up(lambda position: bar.update(position - bar.pos))
            finally:
                loader.close()
            index.checkpoint()


def _wait(home: Home, position: int) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            with store.open(home.path) as reader:
                if reader.status().position >= position:
                    return
        except TachographError:
            pass  # it is starting
        time.sleep(0.1)
    click.echo("the running index has not caught up yet; `tachograph status` tells how far it is", err=True)
