"""What a person at a terminal sees of a turn as it happens, and how they are asked."""

import sys
from typing import Any

import click

from models.event import Event
from models.payloads.action import ActionRequired
from models.payloads.cost import CostRecorded, QuotaBlocked, QuotaLow, RateLimitHit
from models.payloads.model import ModelDelta, ModelFailed
from models.payloads.reasoning import ReasoningDelta
from models.payloads.routing import RoutingDecided, RoutingFallbackApplied, RoutingNotPossible, RoutingSingleCandidate
from models.payloads.tool import ToolArgs, ToolFailed, ToolProgress, ToolResult
from models.payloads.turn import TurnCompleted, TurnFailed

PREVIEW_CHARS = 100


class Terminal:
    """Prints the answer on stdout and everything about it on stderr."""

    def __init__(self, turn_id: str, *, quiet: bool) -> None:
        self.turn_id = turn_id
        self._quiet = quiet
        self._streaming: str | None = None
        self._arguments: dict[str, str] = {}
        self.cost_usd = 0.0
        self.unpriced = 0
        self.tokens_in = self.tokens_out = 0

    def show(self, event: Event) -> None:
        """One fact of the turn."""
        payload = event.payload
        if isinstance(payload, ModelDelta) and payload.kind in (None, "text") and payload.text:
            self._switch("answer")
            click.echo(payload.text, nl=False)
            sys.stdout.flush()
        elif isinstance(payload, ReasoningDelta) and payload.text and not self._quiet:
            self._switch("reasoning")
            click.secho(payload.text, nl=False, dim=True, err=True)
        elif isinstance(payload, CostRecorded):
            self._count(payload)
        elif (line := self._line(event)) is not None and not self._quiet:
            self._switch(None)
            click.secho(line, dim=True, err=True)

    def _line(self, event: Event) -> str | None:
        """A line on what happens besides the answer."""
        payload = event.payload
        match payload:
            case RoutingDecided() | RoutingSingleCandidate():
                return f"· {payload.selected_provider}/{payload.selected_model}"
            case RoutingFallbackApplied():
                return f"· now {payload.selected_model} instead of {payload.from_model}: {payload.decision_reason}"
            case RoutingNotPossible():
                return f"· no model: {payload.reason}"
            case ToolArgs():
                self._arguments[str(event.tool_call_id)] = payload.preview or ""
            case ToolProgress():
                return f"· {payload.tool_name}: {payload.message}"
            case ToolResult():
                return f"✓ {_short(self._arguments.get(str(event.tool_call_id)) or str(payload.tool_name))}"
            case ToolFailed():
                return f"✗ {payload.tool_name}: {payload.message}"
            case ModelFailed():
                return f"✗ model call failed ({payload.failure_category}): {payload.message}"
            case RateLimitHit():
                return f"· rate limit: waits {(payload.retry_after_ms or 0) / 1000:g} s"
            case QuotaLow() | QuotaBlocked():
                return f"· {payload.name}: {payload.used} of {payload.maximum} {payload.unit} used"
        return None

    def _count(self, cost: CostRecorded) -> None:
        if cost.scope not in (None, "model_call"):
            return
        if cost.cost_usd is None:
            self.unpriced += 1
        self.cost_usd += cost.cost_usd or 0.0
        if cost.usage is not None:
            counts = (cost.usage.uncached_input_tokens, cost.usage.cache_read_tokens, cost.usage.cache_write_tokens)
            self.tokens_in += sum(count or 0 for count in counts)
            self.tokens_out += cost.usage.output_tokens or 0

    def _cost(self) -> str:
        if not self.unpriced:
            return f"${self.cost_usd:.4f}"
        return f"${self.cost_usd:.4f} + {self.unpriced} calls of unknown cost" if self.cost_usd else "cost unknown"

    def ask(self, action: ActionRequired) -> tuple[str, Any]:
        """Put an open decision to the person; gives the decision and a structured answer, if one was asked for."""
        self._switch(None)
        click.secho(action.prompt or f"{action.action_type}?", bold=True, err=True)
        if action.action_type == "question":
            return "answer", click.prompt(">", err=True, prompt_suffix=" ")
        decisions = list(action.decisions or ("allow", "deny"))
        keys = {decision[0]: decision for decision in decisions}
        shown = " / ".join(f"({decision[0]}){decision[1:]}" for decision in decisions)
        while True:
            given = click.prompt(shown, err=True).strip().lower()
            chosen = keys.get(given, given)
            if chosen in decisions:
                return chosen, None
            click.echo(f"answer with one of: {', '.join(decisions)}", err=True)

    def end(self, event: Event, session_id: str) -> int:
        """The last word on the turn; gives the exit code."""
        self._switch(None)
        payload = event.payload
        cost = self._cost()
        if isinstance(payload, TurnCompleted):
            took = f"{(payload.duration_ms or 0) / 1000:.1f} s"
            summary = f"{took} · {self.tokens_in} tokens in, {self.tokens_out} out · {cost} · session {session_id}"
            click.secho(summary, dim=True, err=True)
            return 0
        assert isinstance(payload, TurnFailed)
        what = "interrupted" if payload.interrupted else f"failed ({payload.failure_category})"
        click.secho(f"turn {what}: {payload.message}", fg=None if payload.interrupted else "red", err=True)
        click.secho(f"{cost} · session {session_id}", dim=True, err=True)
        return 130 if payload.interrupted else 1

    def _switch(self, stream: str | None) -> None:
        """End the line of what was streamed before, if something else follows."""
        if self._streaming not in (None, stream):
            click.echo(err=self._streaming == "reasoning")
        self._streaming = stream


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= PREVIEW_CHARS else f"{line[:PREVIEW_CHARS]}…"
