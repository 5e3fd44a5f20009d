"""`tachograph explain routing DECISION_OR_TURN`: why a model was chosen, from the recorded facts alone."""

from typing import Any

import click

from cli import output
from cli.settings import settings
from models.errors import UsageError
from store import Reader
from store import open as open_store
from views.explanation import TYPES, explain
from views.routing_decisions import OUTCOMES

ENDINGS = {
    "selected": "chosen",
    "single_candidate": "the only one",
    "not_possible": "no model",
    "fallback": "fallback",
}


@click.group("explain")
def command() -> None:
    """Explain a recorded decision."""


@command.command("routing")
@click.argument("decision_or_turn")
@click.option("--json", "as_json", is_flag=True, help="One JSON object for scripts: every choice with all its facts.")
@click.pass_context
def routing(ctx: click.Context, decision_or_turn: str, as_json: bool) -> None:
    """Tell how a model was chosen: who could be, who could not and why, what followed, what each would have cost.

    DECISION_OR_TURN is the id of a routing event or of a turn. Any unique beginning of it will do.
    """
    with open_store(settings(ctx).home) as reader:
        session_id, turn_id, named = _found(reader, decision_or_turn)
        events = reader.events(session_id, types=TYPES).collect()
    if turn_id is not None:
        events = events.filter(turn_id=turn_id)
    choices = explain(events, named)
    if as_json:
        ids = {"session_id": session_id, "turn_id": turn_id}
        output.json_line({"schema": "tachograph.routing", "version": 1, **ids, "choices": choices})
        return
    click.echo(f"session {output.clean(session_id)}, turn {output.clean(turn_id) or 'not told'}")
    for choice in choices:
        _print(choice)


def _found(reader: Reader, name: str) -> tuple[str, str | None, str]:
    """The session, the turn, and the whole id of what was asked for."""
    types = ", ".join(f"'{one}'" for one in OUTCOMES)
    rows = reader.sql(
        "select distinct session_id, turn_id, "  # noqa: S608
        "case when starts_with(turn_id, $1) then turn_id else event_id end as named "
        f"from session_events where type in ({types}) and (starts_with(turn_id, $1) or starts_with(event_id, $1)) "
        "order by named = $1 desc, named limit 5",
        [name],
    ).to_pylist()
    if not rows:
        raise UsageError(
            f"no turn or decision with a recorded choice of model begins with {name!r}",
            next_step="`tachograph sql \"select turn_id from events where type like 'routing.%'\"` shows them",
        )
    if len(rows) > 1 and rows[0]["named"] != name:
        names = ", ".join(row["named"] for row in rows)
        raise UsageError(f"several begin with {name!r}: {names}", next_step="write more of the id")
    return rows[0]["session_id"], rows[0]["turn_id"], rows[0]["named"]


def _print(choice: dict[str, Any]) -> None:
    click.echo()
    _profile(choice["profile"])
    for decision in (choice["decision"], *choice["fallbacks"]):
        _decision(decision)
    click.echo()
    _models(choice["models"], used=bool(choice["recorded"]))
    _limits(choice["limits_then"] or [], choice["limit_facts"])
    _recorded(choice["recorded"])


def _profile(profile: dict[str, Any] | None) -> None:
    if profile is None:
        click.echo("profile       not recorded")
        return
    needs = ", ".join(profile.get("required_capabilities") or ()) or "nothing in particular"
    told = [f"{profile.get('kind')}, from the {profile.get('source')}", f"needs {needs}"]
    for name, word in (
        ("budget_class", "cost class at most"),
        ("latency_target", "latency"),
        ("fallback_policy", "fallback"),
        ("routing_mode", "routing"),
    ):
        if profile.get(name) is not None:
            told.append(f"{word} {profile[name]}")
    click.echo(output.clean(f"profile       {'; '.join(told)}"))


def _decision(decision: dict[str, Any]) -> None:
    count = decision["candidate_count"]
    of = "candidates not told" if count is None else f"of {count} candidate{'' if count == 1 else 's'}"
    model = (
        f"{_name(decision['selected_provider'], decision['selected_model'])}, " if decision["selected_model"] else ""
    )
    by = f", by {decision['decision_source']}" if decision["decision_source"] else ""
    reason = decision["reason"] or "the reason was not recorded"
    click.echo(output.clean(f"{ENDINGS[decision['outcome']]:<14}{model}{of}{by}: {reason}"))


def _name(provider: str | None, model: str | None) -> str:
    return f"{provider}/{model}" if provider else str(model)


def _models(models: list[dict[str, Any]], *, used: bool) -> None:
    if not models:
        click.echo("models considered: not recorded")
        return
    output.table(
        ("model", "role", "in $/M", "out $/M", "would have cost", "recorded", "why not"),
        [
            (
                _name(row["provider"], row["model"]),
                row["role"],
                _rate(row["input_usd_per_mtok"]),
                _rate(row["output_usd_per_mtok"]),
                _usd(row["would_have_cost_usd"], used),
                _usd(row["recorded_cost_usd"], row["recorded_calls"] > 0),
                row["reason"],
            )
            for row in models
        ],
        right=("in $/M", "out $/M", "would have cost", "recorded"),
    )


def _usd(amount: float | None, used: bool) -> str:
    """An amount with all the digits that tell two models apart; nothing was used, or nobody knows."""
    if amount is None:
        return "unknown" if used else "-"
    return f"${amount:.6f}"


def _rate(usd: float | None) -> str:
    return "unknown" if usd is None else f"{usd:g}"


def _limits(then: list[dict[str, Any]], facts: list[dict[str, Any]]) -> None:
    if then:
        click.echo("\nlimits at the decision")
        output.table(
            ("limit", "status", "used", "of", "unit", "binds", "resets"),
            [
                (
                    row["name"],
                    row["status"],
                    row["used"],
                    row["maximum"],
                    row["unit"],
                    _name(row["provider_name"], row["model_name"] or "*") if row["provider_name"] else row["scope"],
                    row["resets_at"],
                )
                for row in then
            ],
            right=("used", "of"),
        )
    if facts:
        click.echo("\nlimits since")
        output.table(
            ("at", "fact", "limit", "status", "told"),
            [
                (
                    row["timestamp"],
                    row["type"],
                    row["payload"].get("name"),
                    row["payload"].get("status"),
                    _why(row["payload"]),
                )
                for row in facts
            ],
        )


def _why(payload: dict[str, Any]) -> str:
    told = [str(payload[name]) for name in ("message", "reason") if payload.get(name)]
    if payload.get("http_status") is not None:
        told.append(f"HTTP {payload['http_status']}")
    if payload.get("retry_after_ms") is not None:
        told.append(f"try again after {output.duration(payload['retry_after_ms'])}")
    return ", ".join(told)


def _recorded(rows: list[dict[str, Any]]) -> None:
    if not rows:
        click.echo("\nrecorded: no call")
        return
    click.echo("\nrecorded")
    output.table(
        ("at", "model", "input", "cached", "output", "cost", "known how", "price"),
        [
            (
                row["timestamp"],
                _name(row["provider"], row["model"]),
                row["uncached_input_tokens"],
                row["cache_read_tokens"],
                row["output_tokens"],
                _usd(row["cost_usd"], True),
                row["cost_state"],
                " of ".join(part for part in (row["price_entry"], row["price_version"]) if part),
            )
            for row in rows
        ],
        right=("input", "cached", "output", "cost"),
    )
