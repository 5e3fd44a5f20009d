"""How verbs print tables: drawn on a terminal, tab-separated for a script."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click
import orjson
from click._termui_impl import ProgressBar
from rich.console import Console
from rich.table import Table
from rich.text import Text

CONTROL = {code: None for code in range(32) if code not in (9, 10)} | {127: None}
"""Recorded text must not move the cursor or change colours of the terminal it is shown on."""


def clean(value: Any) -> str:
    """A recorded value as one line of plain text."""
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value).translate(CONTROL).replace("\n", "⏎").replace("\t", " ")


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Iterable[str] = ()) -> None:
    """Print rows; columns named in `right` are aligned there."""
    if not sys.stdout.isatty():
        click.echo("\t".join(columns))
        for row in rows:
            click.echo("\t".join(clean(value) for value in row))
        return
    drawn = Table(box=None, header_style="bold", pad_edge=False)
    for at, column in enumerate(columns):
        # The first column names the row: cut it rather than fold it, any beginning of an id will do.
        drawn.add_column(
            column, justify="right" if column in set(right) else "left", overflow="ellipsis" if at == 0 else "fold",
            no_wrap=at == 0,
        )  # fmt: skip
    for row in rows:
        drawn.add_row(*(Text(clean(value)) for value in row))
    Console().print(drawn)


def jsonable(value: Any) -> Any:
    """What orjson cannot write by itself."""
    if isinstance(value, bytes):
        return value.hex()
    return str(value)


def json_line(document: Any) -> None:
    """Print one JSON document; times are RFC 3339 in UTC."""
    options = orjson.OPT_NAIVE_UTC | orjson.OPT_UTC_Z | (orjson.OPT_INDENT_2 if sys.stdout.isatty() else 0)
    click.echo(orjson.dumps(document, default=jsonable, option=options).decode())


def duration(ms: float | None) -> str:
    """A duration for people."""
    if ms is None:
        return "-"
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 120_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms / 60_000:.1f} min"


def money(usd: float | None, state: str | None) -> str:
    """A cost for people; what is not known is said so."""
    if usd is None:
        return "unknown" if state == "unknown" else "-"
    text = "< $0.0001" if 0 < usd < 0.0001 else f"${usd:.4f}" if usd < 0.01 else f"${usd:.2f}"
    return f"≥ {text}" if state == "partial" else text


def cost(row: Mapping[str, Any]) -> str:
    """What a session, or several, cost, and how many calls are not in it."""
    told = money(row["cost_usd"], row["cost_state"])
    return f"{told} ({row['costs_unknown']} unpriced)" if row["costs_unknown"] else told


def ago(moment: datetime | None) -> str:
    """How long ago, for people."""
    if moment is None:
        return "-"
    seconds = (datetime.now(UTC).replace(tzinfo=None) - moment).total_seconds()
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return "just now"


def progress(length: int, label: str) -> "ProgressBar[int]":
    """A bar on stderr for work that may take over a second; nothing where nobody watches."""
    return click.progressbar(length=length, label=label, file=sys.stderr, hidden=not sys.stderr.isatty(), show_pos=True)
