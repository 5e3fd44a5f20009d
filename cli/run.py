"""`tachograph run`: a terminal agent on the runtime of this home folder."""

import logging
import sys
import time
from pathlib import Path
from typing import Any

import click

from cli.settings import settings
from cli.terminal import Terminal
from models.errors import TachographError, UsageError
from models.event import Event
from models.payloads.action import ActionRequired

ENDS = ("turn.completed", "turn.failed")
PATIENCE_S = 2.0
"""A second Ctrl-C within this time ends the program at once."""


@click.command("run")
@click.argument("prompt", required=False)
@click.option("--model", help="The model, as provider/model or just the model; else the router chooses.")
@click.option("--session", "session_id", help="Go on with a session; without a prompt, with what it left unfinished.")
@click.option(
    "--workspace",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    default=".",
    show_default="this folder",
    help="The folder that the agent reads and, with your consent, writes.",
)
@click.option("--deny-writes", is_flag=True, help="Refuse whatever wants to write, without asking.")
@click.option(
    "--script", type=click.Path(path_type=Path, exists=True), help="The YAML script of the scripted provider."
)
@click.option("--quiet", is_flag=True, help="Only the answer.")
@click.pass_context
def command(
    ctx: click.Context,
    prompt: str | None,
    model: str | None,
    session_id: str | None,
    workspace: Path,
    deny_writes: bool,
    script: Path | None,
    quiet: bool,
) -> None:
    """Work on PROMPT (`-` reads it from stdin) until it is done, asking before anything is written.

    The session is on record as it runs: see it with `tachograph tail` or in the dashboard. Ctrl-C interrupts the turn.
    Models and their keys: see docs/runtime.md.
    """
    from cli.runtime_thread import options_for, runtime_client

    logging.getLogger("tachograph").setLevel(logging.ERROR)  # what waits for a collector is told at the end
    if prompt == "-":
        prompt = sys.stdin.read()
    if prompt is None and session_id is None:
        raise UsageError("what is to be done?", next_step='tachograph run "PROMPT"')
    found = settings(ctx)
    interactive = sys.stdin.isatty()
    asked: dict[str, Any] = {
        "session_id": session_id,
        "options": {
            "model": model or (_scripted(script) if script else None),
            "interactive": interactive,
            "approval_policy": "deny" if deny_writes or not interactive else "ask",
        },
        "source": "cli",
    }
    options = options_for(found, workspace, script)
    with runtime_client(found.home / "runtime", options) as (client, own):
        if not own and not quiet:
            click.secho(f"joins the runtime at {client.address}", dim=True, err=True)
        turn = _begin(client, asked, prompt, session_id)
        code = _follow(client, turn, Terminal(turn["turn_id"], quiet=quiet))
    sys.exit(code)


def _scripted(script: Path) -> str:
    return f"scripted/{script.stem}"


def _begin(client: Any, asked: dict[str, Any], prompt: str | None, session_id: str | None) -> dict[str, Any]:
    """Submit the prompt, or find the turn that a session left unfinished."""
    if prompt is not None:
        first_line = prompt.strip().splitlines()[0][:80] if prompt.strip() else ""
        told: dict[str, Any] = client.call(
            "submit_turn", {**asked, "input": [{"text": prompt}], "title": first_line or None}
        )
        return told
    models = client.call("get_read_models", {"session_id": session_id, "window": 1})
    for thread in models.get("threads", ()):
        if thread.get("active_turn_id"):
            return {"session_id": session_id, "turn_id": thread["active_turn_id"], "thread_id": thread["thread_id"]}
        if thread.get("queued_turns"):
            resumed = client.call("resume_thread", {"session_id": session_id, "thread_id": thread["thread_id"]})
            return {"session_id": session_id, "turn_id": resumed["turn_id"], "thread_id": thread["thread_id"]}
    raise UsageError(f"session {session_id} has nothing unfinished", next_step="give it a prompt")


def _follow(client: Any, turn: dict[str, Any], terminal: Terminal) -> int:
    """Show the turn until it ends; Ctrl-C interrupts it, a second one leaves it."""
    after, last_interrupt = 0, 0.0
    while True:
        try:
            for event in client.events(turn["session_id"], after):
                after = event.sequence or after
                if event.turn_id != turn["turn_id"]:
                    continue
                terminal.show(event)
                if event.type in ENDS:
                    return terminal.end(event, turn["session_id"])
                if isinstance(event.payload, ActionRequired):
                    _decide(client, turn["session_id"], event, terminal)
        except (KeyboardInterrupt, click.Abort):  # click makes Ctrl-C, and the end of input, at a question the latter
            if time.monotonic() - last_interrupt < PATIENCE_S:
                raise
            last_interrupt = time.monotonic()
            client.call("interrupt_turn", {"session_id": turn["session_id"], "turn_id": turn["turn_id"]})


def _decide(client: Any, session_id: str, event: Event, terminal: Terminal) -> None:
    """Ask the person, unless the decision was made elsewhere."""
    assert isinstance(event.payload, ActionRequired)
    session = client.call("get_thread_read", {"session_id": session_id, "thread_id": event.thread_id})
    if event.action_id not in {request.get("action_id") for request in session.get("pending_requests", ())}:
        return
    decision, payload = terminal.ask(event.payload)
    try:
        client.call(
            "respond_action",
            {"session_id": session_id, "action_id": event.action_id, "decision": decision, "payload": payload},
        )
    except TachographError as refused:
        click.secho(refused.message, dim=True, err=True)  # decided in the dashboard meanwhile, or too late
