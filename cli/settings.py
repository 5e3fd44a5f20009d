"""The settings a verb runs with: options over environment over defaults."""

import os

import click

from models.settings import Settings


def settings(ctx: click.Context, **given: object) -> Settings:
    """Read them, once, at the edge."""
    return Settings.load(os.environ, home=ctx.obj["home"], **given)
