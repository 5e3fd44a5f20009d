"""Our own wire form: what a runtime emits is what the table holds."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import ValidationError

from ingest.dialects import translate
from ingest.event_lines import decode_lines
from models.event import Event
from models.payload import Payload
from models.shape import camel
from tests.ingest.dialects import captured

MOMENT = datetime(2026, 5, 4, 3, 2, 1, 123456, tzinfo=UTC)
CANDIDATES: tuple[Any, ...] = ('text "quoted" \n ü', 3, 1.5, True, {"a_b": 1}, ["x"], "2026-05-04T03:02:01.5Z", [])


def sample(kind: type[Payload]) -> Payload:
    """A payload with every field filled with the first sort of value it takes."""
    fields: dict[str, Any] = {}
    for name in kind.model_fields:
        for value in CANDIDATES:
            try:
                kind.model_validate({name: value})
            except ValidationError:
                continue
            fields[name] = value
            break
    return kind.model_validate(fields)


def event(kind: str, number: int = 1, **envelope: Any) -> Event:
    given = {"session_id": "s-1", "sequence": number, "turn_id": "t-1", "refs": {"a": "blob:1"}} | envelope
    payload = sample(Payload.registry[kind])
    return Event(type=kind, event_id=f"e-{number}", timestamp=MOMENT, payload=payload, **given)


def log_of(one: Event, **other: Any) -> dict[str, Any]:
    """The log record our runtime sends for an event."""
    fields = json.loads(one.to_json())
    payload = fields.pop("payload", {})
    attributes = {f"agent_runtime.{name}": value for name, value in fields.items() if name not in ("type", "timestamp")}
    attributes["agent_runtime.refs"] = json.dumps(attributes.get("agent_runtime.refs"))
    return {
        "signal": "log",
        "scope_name": "tachograph.runtime",
        "name": one.type,
        "time_ns": int(MOMENT.timestamp()) * 1_000_000_000 + MOMENT.microsecond * 1000,
        "attributes": attributes,
        "body": json.dumps(json.dumps(payload, ensure_ascii=False)),
    } | other


def event_of(row: dict[str, Any]) -> Event:
    """An event as a reader of the table sees it."""
    columns = {name: row[name] for name in ("type", "event_id", "session_id", "sequence", "turn_id")}
    moment = row["timestamp"].replace(tzinfo=UTC)
    return Event(**columns, timestamp=moment, payload=json.loads(row["payload"]), refs=json.loads(row["refs"]))


def same(seen: Event, emitted: Event) -> bool:
    return bool(json.loads(seen.to_json()) == json.loads(emitted.to_json()))


def test_every_event_type_travels_as_a_log_record_and_comes_back_equal() -> None:
    emitted = [event(kind, number) for number, kind in enumerate(sorted(Payload.registry))]
    translated = translate(captured.batch(log_of(one) for one in emitted))
    assert len(emitted) == 113
    assert translated.events["type"].to_list() == [one.type for one in emitted]
    assert all(same(event_of(row), one) for row, one in zip(translated.events.to_dicts(), emitted, strict=True))
    assert set(translated.session_key) == {"s-1"}


@pytest.mark.parametrize("spelling", ["snake", "camel"])
def test_every_event_type_travels_as_a_json_line_and_comes_back_equal(spelling: str) -> None:
    emitted = [event(kind, number) for number, kind in enumerate(sorted(Payload.registry))]
    lines = [one.model_dump_json(by_alias=spelling == "camel").encode() for one in emitted]
    assert (camel("event_id").encode() in lines[0]) == (spelling == "camel")
    translated = translate(decode_lines(b"\n\n".join(lines), journal_position=7, received=MOMENT))
    assert all(same(event_of(row), one) for row, one in zip(translated.events.to_dicts(), emitted, strict=True))
    assert set(translated.events["journal_position"]) == {7}


def test_the_payload_is_kept_to_the_letter() -> None:
    text = '{"zeta": 1.0, "alpha": {"b": [1, 2, {"c": null}]}, "big": 123456789012345678901234567890}'
    made = log_of(event("tool.result"), body=json.dumps(text))
    assert translate(captured.batch([made])).events["payload"].to_list() == [text]


def test_a_malformed_body_costs_nobody_else_anything() -> None:
    good = log_of(event("tool.result"), body=json.dumps('{"tool_name": "grep", "duration_ms": 4}'))
    bad = [log_of(event("tool.result"), body=json.dumps(text)) for text in ('{"tool_name": "gr', "plain", '{"a": 1} x')]
    mistyped = log_of(event("tool.result"), body=json.dumps('{"tool_name": "sed", "duration_ms": "soon"}'))
    events = translate(captured.batch([good, *bad, mistyped, good])).events
    assert events["tool_name"].to_list() == ["grep", None, None, None, "sed", "grep"]
    assert events["duration_ms"].to_list() == [4.0, None, None, None, None, 4.0]
    assert json.loads(events["payload"][1]) == {"unparsed": '{"tool_name": "gr'}
    assert json.loads(events["payload"][3]) == {"unparsed": '{"a": 1} x'}
    assert events["payload"][4] == '{"tool_name": "sed", "duration_ms": "soon"}'


def test_an_event_type_we_do_not_know_is_an_event_all_the_same() -> None:
    made = log_of(event("tool.result"), name="vendor.surprise", body=json.dumps('{"x": [1]}'))
    events = translate(captured.batch([made])).events
    assert events.select("type", "payload").rows() == [("vendor.surprise", '{"x": [1]}')]


def test_our_spans_are_records_and_no_second_event() -> None:
    convention = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.usage.input_tokens": 5}
    by_attribute = {"attributes": convention | {"agent_runtime.session_id": "s-1"}}
    by_scope = {"attributes": convention, "scope_name": "tachograph.runtime"}
    translated = translate(captured.batch([by_attribute, by_scope, {"attributes": convention}]))
    assert translated.dialect.to_list() == ["agent_runtime", "agent_runtime", "gen_ai"]
    assert translated.events["dialect"].to_list() == ["gen_ai"]


def test_a_reported_cost_stays_and_an_untold_one_is_priced() -> None:
    usage = {"uncached_input_tokens": 1000, "cache_read_tokens": 0, "output_tokens": 10}
    untold = {"provider_name": "openai", "model_name": "gpt-4o-mini", "usage": usage}
    told = untold | {"cost": {"cost_usd": 0.5, "cost_state": "reported"}}
    nobody = untold | {"provider_name": "home", "model_name": "made-up"}
    bodies = [json.dumps(json.dumps(payload)) for payload in (untold, told, nobody)]
    events = translate(captured.batch(log_of(event("model.completed"), body=body) for body in bodies)).events
    assert events["cost_state"].to_list() == ["priced", "reported", "unknown"]
    assert events["price_entry"].to_list() == ["openai/gpt-4o-mini", None, None]
    assert events["cost_usd"].to_list() == [pytest.approx(1000 * 0.15e-6 + 10 * 0.6e-6), 0.5, None]


def test_totals_of_others_are_not_counted_as_tokens() -> None:
    made = log_of(event("cost.recorded"), body=json.dumps('{"usage": {"output_tokens": 9}, "cost_usd": 1.5}'))
    events = translate(captured.batch([made])).events
    assert events.select("output_tokens", "cost_usd").rows() == [(None, 1.5)]
