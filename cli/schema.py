"""`tachograph schema`: the shape of events, for other people's programs."""

import click
import orjson

from models.errors import UsageError
from models.json_schema import schema_for, schemas
from models.payload import Payload


@click.command("schema")
@click.argument("event_type", required=False)
@click.option(
    "--camel", is_flag=True, help="Field names in camelCase, as the published Agent Runtime schemas have them."
)
@click.option("--list", "listing", is_flag=True, help="Only the names of the event types.")
def command(event_type: str | None, camel: bool, listing: bool) -> None:
    """Print the JSON Schema of EVENT_TYPE, or of every event type in one object."""
    if listing:
        click.echo("\n".join(sorted(Payload.registry)))
        return
    if event_type is not None and event_type not in Payload.registry:
        import difflib

        near = difflib.get_close_matches(event_type, Payload.registry, n=1)
        raise UsageError(
            f"there is no event type {event_type!r}",
            next_step=f"did you mean {near[0]}?" if near else "`tachograph schema --list` names them all",
        )
    found = schemas(camel=camel) if event_type is None else schema_for(event_type, camel=camel)
    click.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
