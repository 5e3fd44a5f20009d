"""Rate-limit headers become facts about limits, wherever a sender keeps them."""

import json
from typing import Any

import pytest

from ingest.dialects import translate
from tests.ingest.dialects import captured

AT = {"time_ns": 1_000_000_000, "end_ns": 2_000_000_000, "status": "unset", "name": "POST"}
HTTP = "http.response.header."


def limits(attributes: dict[str, Any], **columns: Any) -> dict[str, dict[str, Any]]:
    """What was told of each limit, by its name."""
    rows = translate(captured.batch([AT | columns | {"attributes": attributes}])).events.to_dicts()
    found = [row for row in rows if row["type"] == "limit.changed"]
    return {payload["name"]: payload | {"row": row} for row in found for payload in [json.loads(row["payload"])]}


def test_captured_headers_of_an_http_call_tell_its_providers_limits() -> None:
    found = limits(
        {
            HTTP + "x-ratelimit-limit-requests": ["5000"],
            HTTP + "x-ratelimit-remaining-requests": ["4999"],
            HTTP + "x-ratelimit-reset-requests": ["6m0s"],
            HTTP + "x_ratelimit_limit_tokens": ["160000"],
            HTTP + "x_ratelimit_remaining_tokens": ["12000"],
            "server.address": "api.openai.com",
        }
    )
    assert set(found) == {"requests", "tokens"}
    requests = found["requests"]
    assert (requests["used"], requests["maximum"], requests["remaining"], requests["unit"]) == (
        1,
        5000,
        4999,
        "requests",
    )
    assert (requests["resets_at"], requests["status"]) == ("1970-01-01T00:06:02.000000Z", "ok")
    assert (requests["row"]["provider"], requests["row"]["dialect"], requests["scope"]) == (
        *("openai", "http_headers"),
        "provider",
    )
    assert (found["tokens"]["status"], "resets_at" in found["tokens"]) == ("low", False)
    assert requests["row"]["event_id"] != found["tokens"]["row"]["event_id"]


def test_anthropics_names_are_understood_and_a_used_up_limit_is_hit() -> None:
    found = limits(
        {
            HTTP + "anthropic-ratelimit-input-tokens-limit": '["2000000"]',
            HTTP + "anthropic-ratelimit-input-tokens-remaining": '["0"]',
            HTTP + "anthropic-ratelimit-input-tokens-reset": '["2026-11-18T06:30:00Z"]',
            "server.address": "gateway.example",
        }
    )
    told = found["input_tokens"]
    assert (told["status"], told["used"], told["resets_at"]) == ("hit", 2_000_000, "2026-11-18T06:30:00Z")
    assert told["row"]["provider"] is None  # the host of a gateway does not say whose limit it is


@pytest.mark.parametrize(
    ("told", "moment"),
    [
        ("120ms", "1970-01-01T00:00:02.120000Z"),
        ("1h2m3.5s", "1970-01-01T01:02:05.500000Z"),
        ("59.7s", "1970-01-01T00:01:01.700000Z"),
        ("30", "1970-01-01T00:00:32.000000Z"),
        ("2d", "1970-01-03T00:00:02.000000Z"),
        ("soon", None),
        ("-5s", None),
        ("9999999999s", None),
    ],
)
def test_a_reset_is_read_as_a_span_from_the_answer_or_not_at_all(told: str, moment: str | None) -> None:
    found = limits({HTTP + "x-ratelimit-remaining-tokens": ["5"], HTTP + "x-ratelimit-reset-tokens": [told]})
    assert found["tokens"].get("resets_at") == moment
    assert "used" not in found["tokens"]  # without the maximum it is not known


def test_litellm_tells_the_limits_of_the_provider_behind_it() -> None:
    headers = {
        "llm_provider-x-ratelimit-limit-tokens": "1000",
        "llm_provider-x-ratelimit-remaining-tokens": "750",
        "x-ratelimit-remaining-requests": 9,
    }
    attributes = {
        "hidden_params": json.dumps({"response_cost": 0.1, "additional_headers": headers}),
        "gen_ai.system": "openai",
        "gen_ai.request.model": "gpt-4o-mini",
        "gen_ai.operation.name": "chat",
    }
    found = limits(attributes, scope_name="litellm")
    assert (found["tokens"]["used"], found["tokens"]["maximum"], found["requests"]["remaining"]) == (250, 1000, 9)
    assert (found["tokens"]["row"]["provider"], found["tokens"]["row"]["model"]) == ("openai", "gpt-4o-mini")


def test_headers_that_cannot_be_read_tell_nothing_and_other_spans_are_left_alone() -> None:
    assert limits({HTTP + "x-ratelimit-remaining-tokens": ["many"]}) == {}
    assert limits({HTTP + "content-type": ["text/plain"]}) == {}
    translated = translate(captured.batch([AT | {"attributes": {HTTP + "content-type": ["text/plain"]}}]))
    assert translated.dialect.to_list() == [None]
