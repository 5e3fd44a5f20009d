"""`tachograph tail`: follow events as they arrive."""

import sys
import time
from collections.abc import Iterator
from typing import Any

import click
import httpx
import orjson

from cli.output import clean
from cli.settings import settings
from models.errors import Unreachable
from store import Layout

RECONNECT_SECONDS = 1.0
SHOWN_FIELDS = ("status", "model", "tool_name", "agent_name", "error")


@click.command("tail")
@click.option("--session", "sessions", multiple=True, help="Only this session; may be repeated.")
@click.option("--type", "types", multiple=True, help="Only this event type; may be repeated.")
@click.option("--from-start", is_flag=True, help="Everything on record first.")
@click.option("--limit", type=int, help="Stop after so many events.")
@click.option("--jsonl", is_flag=True, help="One JSON object per line, for scripts.")
@click.pass_context
def command(
    ctx: click.Context,
    sessions: tuple[str, ...],
    types: tuple[str, ...],
    from_start: bool,
    limit: int | None,
    jsonl: bool,
) -> None:
    """Follow events as they arrive, until Ctrl-C. Goes on by itself after a restart of the index."""
    layout = Layout(settings(ctx).home)
    filters = {"session": list(sessions), "type": list(types)}
    for shown, event in enumerate(_events(layout, filters, "0.0" if from_start else None), 1):
        click.echo(orjson.dumps(event).decode() if jsonl else _line(event))
        sys.stdout.flush()
        if limit is not None and shown >= limit:
            return


def _line(event: dict[str, Any]) -> str:
    told = " ".join(clean(event[name]) for name in SHOWN_FIELDS if event.get(name))
    when = str(event.get("timestamp") or "")[11:23]
    return f"{when}  {clean(event.get('session_id'))[:24]:<24}  {clean(event.get('type')):<28}  {told}".rstrip()


def _events(layout: Layout, filters: dict[str, list[str]], after: str | None) -> Iterator[dict[str, Any]]:
    """Events without end; a stream that breaks off is taken up where it was."""
    transport = httpx.HTTPTransport(uds=str(layout.socket))
    connected = False
    with httpx.Client(transport=transport, base_url="http://index", timeout=httpx.Timeout(5, read=60)) as client:
        while True:
            try:
                for cursor, event in _stream(client, filters, after):
                    connected, after = True, cursor
                    if event is not None:
                        yield event
            except httpx.TransportError as problem:
                if not connected:
                    raise Unreachable(
                        str(layout.socket), str(problem), next_step="start it with `tachograph up`"
                    ) from None
            time.sleep(RECONNECT_SECONDS)


def _stream(
    client: httpx.Client, filters: dict[str, list[str]], after: str | None
) -> Iterator[tuple[str | None, dict[str, Any] | None]]:
    headers = {"last-event-id": after} if after else {}
    with client.stream("GET", "/v1/stream", params=filters, headers=headers) as answer:
        if answer.status_code != httpx.codes.OK:
            answer.read()
            raise Unreachable("the event stream", answer.text[:300])
        yield after, None
        kind, data = "message", ""
        for line in answer.iter_lines():
            field, _, value = line.partition(": ")
            if field == "id":
                after = value
            elif field == "event":
                kind = value
            elif field == "data":
                data = value
            elif not line and data:
                if kind != "end":
                    yield after, orjson.loads(data)
                kind, data = "message", ""
