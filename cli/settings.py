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
