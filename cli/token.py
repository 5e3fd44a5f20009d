"""`tachograph token`: make, list and revoke access tokens."""

import re
from datetime import UTC, datetime, timedelta

import click
import orjson

from cli.settings import settings
from collector.home import Home
from collector.tokens import Scope, TokenStore
from models.errors import UsageError

UNITS = {"m": "minutes", "h": "hours", "d": "days"}


@click.group("token")
def command() -> None:
    """Make, list and revoke access tokens.

    While none is made, the ports on loopback are open and no other address may be opened.
    """


def _store(ctx: click.Context) -> TokenStore:
    home = Home(settings(ctx).home)
    home.make()
    return TokenStore(home.tokens)


def _moment(text: str | None) -> datetime | None:
    """A time in the future: `90d`, `12h`, `30m`, or RFC 3339."""
    if text is None:
        return None
    if match := re.fullmatch(r"(\d+)([mhd])", text):
        return datetime.now(UTC) + timedelta(**{UNITS[match[2]]: int(match[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no time; write 90d, 12h, 30m or 2027-01-31T00:00:00Z") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@command.command("create")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    required=True,
    type=click.Choice([scope.value for scope in Scope]),
    help="May be repeated.",
)
@click.option("--expires", metavar="WHEN", help="90d, 12h, 30m or an RFC 3339 time.  [default: never]")
@click.option("--note", default="", help="What it is for.")
@click.pass_context
def create(ctx: click.Context, scopes: tuple[str, ...], expires: str | None, note: str) -> None:
    """Make a token. It is printed once, on stdout, and kept only as a hash."""
    text, info = _store(ctx).create(scopes, note, _moment(expires))
    click.echo(text)
    click.echo(f"id {info.id}; send it as `Authorization: Bearer …`; it will not be shown again", err=True)


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="JSON for scripts.")
@click.pass_context
def list_(ctx: click.Context, as_json: bool) -> None:
    """List tokens: id, scopes, expiry, note. Never the token itself."""
    tokens = _store(ctx).list()
    if as_json:
        click.echo(orjson.dumps([token.model_dump(mode="json", exclude={"sha256"}) for token in tokens]).decode())
        return
    for token in tokens:
        state = "revoked" if token.revoked else f"expires {token.expires:%Y-%m-%d %H:%M}" if token.expires else "valid"
        click.echo(f"{token.id}  {','.join(sorted(token.scopes)):<14}  {state:<24}  {token.note}".rstrip())
    if not tokens:
        click.echo("no tokens; the ports on loopback are open to this machine", err=True)


@command.command("revoke")
@click.argument("token_id")
@click.pass_context
def revoke(ctx: click.Context, token_id: str) -> None:
    """End a token at once, by its id."""
    _store(ctx).revoke(token_id)
    click.echo(f"revoked {token_id}", err=True)
