"""Rate-limit headers become limit states, on answers and on refusals."""

from datetime import UTC, datetime, timedelta

import pytest

from models.values import LimitState
from runtime.providers import LimitChunk
from runtime.providers.rate_limits import limits_in
from tests.model_server import ModelServer, Refusal, Said
from tests.runtime.providers.conversations import NOW, ask

OPENAI = {
    "x-ratelimit-limit-requests": "60",
    "x-ratelimit-remaining-requests": "59",
    "x-ratelimit-reset-requests": "1s",
    "x-ratelimit-limit-tokens": "150000",
    "x-ratelimit-remaining-tokens": "3000",
    "x-ratelimit-reset-tokens": "6m0.5s",
}
ANTHROPIC = {
    "anthropic-ratelimit-requests-limit": "60",
    "anthropic-ratelimit-requests-remaining": "59",
    "anthropic-ratelimit-requests-reset": "2026-11-01T12:00:01Z",
    "anthropic-ratelimit-input-tokens-limit": "150000",
    "anthropic-ratelimit-input-tokens-remaining": "0",
    "anthropic-ratelimit-input-tokens-reset": "2026-11-01T14:00:00+01:00",
}


def state(name: str, status: str, maximum: float, remaining: float, after_s: float, scope: str) -> LimitState:
    return LimitState(
        kind="rate_limit",
        name=name,
        scope=scope,
        status=status,
        unit="requests" if name == "requests" else "tokens",
        used=maximum - remaining,
        maximum=maximum,
        remaining=remaining,
        resets_at=NOW + timedelta(seconds=after_s),
    )


OF_OPENAI = (
    state("requests", "ok", 60, 59, 1, "openai"),
    state("tokens", "low", 150_000, 3000, 360.5, "openai"),
)
OF_ANTHROPIC = (
    state("input_tokens", "hit", 150_000, 0, 3600, "anthropic"),
    state("requests", "ok", 60, 59, 1, "anthropic"),
)
CASES = [("chat", OPENAI, OF_OPENAI), ("responses", OPENAI, OF_OPENAI), ("messages", ANTHROPIC, OF_ANTHROPIC)]


@pytest.mark.parametrize(("shape", "headers", "expected"), CASES)
def test_an_answer_begins_with_the_limits_its_headers_tell(
    server: ModelServer, shape: str, headers: dict[str, str], expected: tuple[LimitState, ...]
) -> None:
    server.gives(Said(text=("hi",)), headers=headers)
    assert ask(shape, server).chunks[0] == LimitChunk(expected)


@pytest.mark.parametrize(("shape", "headers", "expected"), CASES)
def test_a_refusal_carries_the_limits_its_headers_tell(
    server: ModelServer, shape: str, headers: dict[str, str], expected: tuple[LimitState, ...]
) -> None:
    server.gives(Refusal(429, "rate_limit_error"), headers=headers)
    failure = ask(shape, server).failure
    assert failure is not None
    assert failure.limits == expected


def test_an_answer_without_such_headers_tells_no_limits(server: ModelServer) -> None:
    server.gives(Said(text=("hi",)))
    assert not [chunk for chunk in ask("chat", server).chunks if isinstance(chunk, LimitChunk)]


@pytest.mark.parametrize(
    ("told", "after"),
    [
        ("1s", timedelta(seconds=1)),
        ("120ms", timedelta(milliseconds=120)),
        ("1h2m3s", timedelta(hours=1, minutes=2, seconds=3)),
        ("30", timedelta(seconds=30)),
        ("99999999d", None),
        ("later", None),
        ("", None),
        ("2026-11-01T12:00:05", None),
    ],
)
def test_a_reset_is_a_span_or_a_moment_or_unknown(told: str, after: timedelta | None) -> None:
    headers = {"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": told}
    (found,) = limits_in(headers, provider="p", now=NOW)
    assert found.resets_at == (NOW + after if after is not None else None)


@pytest.mark.parametrize("number", ["nan", "inf", "1e9", "-1", "٣", "", "9" * 30])
def test_numbers_that_are_none_are_left_out(number: str) -> None:
    headers = {"x-ratelimit-limit-requests": number, "x-ratelimit-remaining-requests": number}
    assert limits_in(headers, provider="p", now=datetime(2026, 1, 1, tzinfo=UTC)) == ()


def test_a_limit_without_a_remainder_is_unknown() -> None:
    (found,) = limits_in({"X-RateLimit-Limit-Tokens": "10"}, provider="p", now=NOW)
    assert (found.status, found.maximum, found.remaining, found.used) == ("unknown", 10, None, None)
