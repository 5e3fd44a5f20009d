"""What every verb begins with: its settings (options over environment over defaults) and where its log goes."""

import logging
import os
import sys

import click

from models.settings import Settings


def settings(ctx: click.Context, **given: object) -> Settings:
    """Read them, once, at the edge."""
    return Settings.load(os.environ, home=ctx.obj["home"], **given)


def log_to_stderr() -> None:
    """Warnings and worse, one line each."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )


def take_prices(chosen: Settings) -> None:
    """Let the home go by the price file that is set, if one is; raises MalformedInput, which names line and field."""
    if chosen.price_file is None:
        return
    from collector.home import Home  # loads the database and the price table, which most verbs start without
    from collector.prices import Prices

    Home(chosen.home).make()
    Prices(chosen.home).take_own(chosen.price_file)
