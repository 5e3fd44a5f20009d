"""Every way a call can break is one typed failure: right category, retryable or not, and never a key in it."""

import asyncio
import logging
import traceback
from contextlib import aclosing
from typing import Any

import pytest

from runtime.providers import ProviderFailed, TextChunk
from runtime.providers.facts import failed
from tests.model_server import CHAT, MESSAGES, RESPONSES, ModelServer, Raw, Refusal, Said, Tokens, event
from tests.runtime.providers.conftest import KEY
from tests.runtime.providers.conversations import SHAPES, ask, hear, opened, request

PLAIN = Said(text=("one ", "two ", "three"), tokens=Tokens(whole_input=50))


def refusal(shape: str, server: ModelServer, answer: Refusal | Said | Raw, **how: Any) -> ProviderFailed:
    server.gives(answer, **how)
    failure = ask(shape, server).failure
    assert failure is not None
    return failure


REFUSALS = [
    (Refusal(400, "invalid_request_error"), "invalid_request", False),
    (Refusal(400, "invalid_request_error", code="context_length_exceeded"), "context_length", False),
    (Refusal(400, "invalid_request_error", "prompt is too long: 250000 tokens > 200000"), "context_length", False),
    (Refusal(413, "request_too_large"), "context_length", False),
    (Refusal(400, "invalid_request_error", "blocked by content filtering policy"), "content_filter", False),
    (Refusal(401, "authentication_error"), "auth", False),
    (Refusal(401, "invalid_request_error"), "auth", False),
    (Refusal(403, "permission_error"), "auth", False),
    (Refusal(402, "billing_error"), "quota", False),
    (Refusal(404, "not_found_error"), "invalid_request", False),
    (Refusal(408, "timeout_error"), "timeout", True),
    (Refusal(409, "conflict_error"), "server_error", True),
    (Refusal(422, "invalid_request_error"), "invalid_request", False),
    (Refusal(429, "rate_limit_error"), "rate_limited", True),
    (Refusal(500, "api_error"), "server_error", True),
    (Refusal(502, "bad_gateway"), "server_error", True),
    (Refusal(503, "service_unavailable"), "overloaded", True),
    (Refusal(504, "timeout_error"), "timeout", True),
    (Refusal(529, "overloaded_error"), "overloaded", True),
]


@pytest.mark.parametrize("shape", SHAPES)
def test_an_error_answer_has_its_category_and_tells_whether_to_try_again(server: ModelServer, shape: str) -> None:
    for answer, category, retryable in REFUSALS:
        if answer.code and SHAPES[shape].path == MESSAGES:
            continue  # Anthropic has no such code; its sentence is the next case
        failure = refusal(shape, server, answer)
        assert (failure.category, failure.retryable, failure.http_status) == (category, retryable, answer.status), (
            answer
        )
        assert str(answer.status) in failure.message
    assert len(server.received) == len(REFUSALS) - (SHAPES[shape].path == MESSAGES)  # nothing was tried twice


@pytest.mark.parametrize("shape", ["chat", "responses"])
def test_a_used_up_quota_is_no_rate_limit(server: ModelServer, shape: str) -> None:
    failure = refusal(shape, server, Refusal(429, "insufficient_quota", code="insufficient_quota"))
    assert (failure.category, failure.retryable, failure.error_code) == ("quota", False, "insufficient_quota")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("headers", "expected_ms"),
    [
        ({"retry-after": "7"}, 7000),
        ({"retry-after-ms": "250", "retry-after": "1"}, 250),
        ({"retry-after": "Sun, 01 Nov 2026 12:00:30 GMT"}, 30_000),
        ({"retry-after": "soon"}, None),
        ({}, None),
    ],
)
def test_a_rate_limit_tells_how_long_to_wait(
    server: ModelServer, shape: str, headers: dict[str, str], expected_ms: float | None
) -> None:
    failure = refusal(shape, server, Refusal(429, "rate_limit_error"), headers=headers)
    assert (failure.category, failure.retry_after_ms) == ("rate_limited", expected_ms)
    assert len(server.received) == 1


@pytest.mark.parametrize("shape", SHAPES)
def test_a_provider_that_says_not_to_try_again_is_believed(server: ModelServer, shape: str) -> None:
    assert not refusal(shape, server, Refusal(500, "api_error"), headers={"x-should-retry": "false"}).retryable


@pytest.mark.parametrize("shape", SHAPES)
def test_a_connection_that_breaks_in_the_midst_of_an_answer_is_told_after_what_came(
    server: ModelServer, shape: str
) -> None:
    whole = PLAIN.frames(SHAPES[shape].path)
    first_text = next(place for place, frame in enumerate(whole) if b"one " in frame)
    server.gives(PLAIN, ending="cut", frames=first_text + 1)
    heard = ask(shape, server)
    assert heard.chunks == [TextChunk("one ", 0)]
    assert heard.failure is not None
    assert (heard.failure.category, heard.failure.retryable) == ("disconnected", True)
    assert len(server.received) == 1


def test_tokens_told_before_a_break_are_kept(server: ModelServer) -> None:
    failure = refusal("messages", server, PLAIN, ending="cut", frames=4)
    assert failure.usage is not None
    assert failure.usage.uncached_input_tokens == 50


@pytest.mark.parametrize("shape", SHAPES)
def test_every_stream_that_ends_too_early_is_a_failure(server: ModelServer, shape: str) -> None:
    frames = PLAIN.frames(SHAPES[shape].path)
    ends = next(i for i, frame in enumerate(frames) if b'"finish_reason": "stop"' in frame or b"end_turn" in frame
                or b"response.completed" in frame)  # fmt: skip
    for count in range(ends + 1):
        failure = refusal(shape, server, PLAIN, frames=count)
        assert (failure.category, failure.retryable) == ("disconnected", True), count


@pytest.mark.parametrize("shape", SHAPES)
def test_an_unreachable_provider_is_a_disconnect(shape: str) -> None:
    with ModelServer(KEY) as gone:
        pass
    failure = ask(shape, gone).failure
    assert failure is not None
    assert (failure.category, failure.retryable) == ("disconnected", True)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("frames", [0, 3])
def test_silence_is_a_timeout(server: ModelServer, shape: str, frames: int) -> None:
    server.gives(PLAIN, ending="silent", frames=frames)
    failure = ask(shape, server, idle_timeout_s=0.2).failure
    assert failure is not None
    assert (failure.category, failure.retryable) == ("timeout", True)


MALFORMED = {
    CHAT: [
        event("{broken"),
        event("42"),
        event({"id": "x"}),
        event({"choices": [{"index": 0, "delta": {"content": {"not": "text"}}}]}),
        event({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}}]}),
        b"data: \xff\xfe\n\n",
    ],
    RESPONSES: [
        event("{broken"),
        event("42"),
        event({"no": "type"}),
        event({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": {"a": 1}}),
        event({"type": "response.function_call_arguments.delta", "output_index": 5, "delta": "{}"}),
        event({"type": "response.completed"}),
        b"data: \xff\xfe\n\n",
    ],
    MESSAGES: [
        event("{broken", "content_block_delta"),
        event("42", "content_block_delta"),
        event({"no": "type"}, "content_block_delta"),
        event(
            {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "x"}},
            "content_block_delta",
        ),
        event(
            {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use"}}, "content_block_start"
        ),
        event({"type": "message_delta", "delta": None}, "message_delta"),
        b"event: message_start\ndata: \xff\xfe\n\n",
    ],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_chunks_that_make_no_sense_are_told_and_not_skipped(server: ModelServer, shape: str) -> None:
    path = SHAPES[shape].path
    whole = PLAIN.frames(path)
    for bad in MALFORMED[path]:
        failure = refusal(shape, server, Raw((*whole[:2], bad, *whole[2:])))
        assert (failure.category, failure.retryable) == ("malformed", True), bad


@pytest.mark.parametrize("shape", SHAPES)
def test_unknown_events_and_fields_are_no_failure(server: ModelServer, shape: str) -> None:
    frames = PLAIN.frames(SHAPES[shape].path)
    new = {CHAT: {"choices": [], "novelty": {"a": 1}}, RESPONSES: {"type": "response.novelty", "x": 1}}
    news = event(new.get(SHAPES[shape].path, {"type": "novelty"}), "novelty")
    server.gives(Raw((*frames[:2], b": a comment\n\n", news, *frames[2:])))
    heard = ask(shape, server)
    assert "".join(chunk.text for chunk in heard.chunks if isinstance(chunk, TextChunk)) == "one two three"
    assert heard.finish.stop_reason == "stop"


STREAM_ERRORS: list[tuple[str, bytes, str, bool]] = [
    ("chat", event({"error": {"message": "m", "type": "server_error", "code": None}}), "server_error", True),
    ("chat", event({"error": {"message": "m", "code": "rate_limit_exceeded"}}), "rate_limited", True),
    ("responses", event({"type": "error", "code": "rate_limit_exceeded", "message": "m"}), "rate_limited", True),
    ("responses", event({"type": "error", "error": {"code": "server_error", "message": "m"}}), "server_error", True),
    (
        "responses",
        event({"type": "response.failed", "response": {"error": {"code": "server_is_overloaded", "message": "m"}}}),
        "overloaded",
        True,
    ),
    (
        "responses",
        event({"type": "response.failed", "response": {"error": {"code": "invalid_prompt", "message": "m"}}}),
        "content_filter",
        False,
    ),
    (
        "messages",
        event({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "error"),
        "overloaded",
        True,
    ),
    (
        "messages",
        event({"type": "error", "error": {"type": "invalid_request_error", "message": "m"}}, "error"),
        "invalid_request",
        False,
    ),
    ("messages", event("not json", "error"), "server_error", True),
]


@pytest.mark.parametrize(("shape", "frame", "category", "retryable"), STREAM_ERRORS)
def test_an_error_sent_inside_a_stream_is_a_failure(
    server: ModelServer, shape: str, frame: bytes, category: str, retryable: bool
) -> None:
    before = PLAIN.frames(SHAPES[shape].path)[:2]
    failure = refusal(shape, server, Raw((*before, frame)))
    assert (failure.category, failure.retryable, failure.http_status) == (category, retryable, None)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_filtered_answer_is_a_failure_that_keeps_its_tokens(server: ModelServer, shape: str) -> None:
    failure = refusal(shape, server, Said(text=("I ",), stop="filter"))
    assert (failure.category, failure.retryable) == ("content_filter", False)
    assert failure.usage is not None
    assert failure.usage.output_tokens == 20


@pytest.mark.parametrize("shape", SHAPES)
def test_closing_a_stream_ends_the_request(server: ModelServer, shape: str) -> None:
    first = next(i for i, frame in enumerate(PLAIN.frames(SHAPES[shape].path)) if b"one " in frame)
    server.gives(PLAIN, ending="endless", frames=first + 1)

    async def run() -> None:
        provider = opened(shape, server)
        stream = provider.stream(request())
        async with aclosing(stream):
            async for _ in stream:
                break
        assert await asyncio.to_thread(server.hung_up.wait, 5)
        await provider.close()

    asyncio.run(run())


ECHOES: list[Refusal | Raw] = [
    Refusal(401, "authentication_error", f"Incorrect API key provided: {KEY}."),
    Refusal(400, KEY, KEY, KEY),
    Refusal(500, "api_error", f"headers were Authorization: Bearer {KEY}"),
    Raw((event({"error": {"message": KEY, "code": KEY, "type": KEY}}),)),
    Raw((event({"type": "error", "error": {"type": KEY, "message": KEY}}, "error"),)),
    Raw((event(f"{{broken {KEY}", "message_start"),)),
    Raw((event({"type": "message_start", "message": KEY, "choices": KEY}, "message_start"),)),
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("echo", ECHOES, ids=range(len(ECHOES)))
def test_a_key_the_provider_repeats_is_nowhere_in_the_failure(
    server: ModelServer, shape: str, echo: Refusal | Raw, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    failure = refusal(shape, server, echo)
    payload = failed(failure, provider="p", model="m", duration_ms=1)
    told = [str(failure), repr(failure), repr(vars(failure)), payload.model_dump_json(), caplog.text]
    told += traceback.format_exception(failure)
    assert not [text for text in told if KEY in text or KEY[8:20] in text]
    assert failure.__cause__ is None
    assert failure.__context__ is None
    assert list(payload.emission_problems()) == []


@pytest.mark.parametrize("shape", SHAPES)
def test_a_key_repeated_in_a_header_is_not_taken_for_a_request_id(server: ModelServer, shape: str) -> None:
    headers = {"x-request-id": f"req_{KEY[8:]}", "request-id": KEY}
    assert KEY[8:] not in refusal(shape, server, Refusal(500, "api_error"), headers=headers).message


@pytest.mark.parametrize("shape", SHAPES)
def test_a_request_id_is_told_for_the_providers_support(server: ModelServer, shape: str) -> None:
    headers = {"x-request-id": "req_0123abcdef", "request-id": "req_0123abcdef"}
    assert "req_0123abcdef" in refusal(shape, server, Refusal(500, "api_error"), headers=headers).message


@pytest.mark.parametrize("shape", SHAPES)
def test_a_key_is_not_in_what_a_provider_shows_of_itself(server: ModelServer, shape: str) -> None:
    async def run() -> None:
        provider = opened(shape, server)
        server.gives(PLAIN)
        heard = await hear(provider, request())
        assert KEY not in repr(provider) + str(provider) + repr(heard)
        await provider.close()

    asyncio.run(run())
