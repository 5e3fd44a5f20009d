"""The scripted provider answers from the conversation alone, the same before and after a restart."""

import asyncio
import time

import pytest

from models.values import LimitState, Usage
from runtime.providers import (
    Chunk,
    FinishChunk,
    LimitChunk,
    Message,
    ModelRequest,
    ProviderFailed,
    ReasoningChunk,
    ReasoningSummaryChunk,
    TextChunk,
    TextPart,
    ToolArgsChunk,
    ToolCallChunk,
    ToolResultPart,
    open_provider,
)
from tests.runtime.providers.conversations import Heard, hear, request, user

SCRIPT = """
model: script-1
turns:
  - steps:
      - reasoning: [let me, " see"]
        reasoning_withheld: true
        reasoning_summary: looked
        text: [I will, " look"]
        tool_calls:
          - {name: read, arguments: {path: a.py}}
          - {name: list, arguments: "{broken", id: mine}
        usage: {uncached_input_tokens: 10, cache_read_tokens: 5, output_tokens: 3}
        limits: [{kind: rate_limit, name: tokens, status: low, remaining: 5}]
      - {text: It is fine.}
  - when: {contains: weather}
    steps: [{text: Sunny.}]
  - when: {matches: "^sum(marise)? "}
    steps: [{text: In short., usage: counted}]
  - steps: [{text: Second.}]
"""


def play(script: str, asked: ModelRequest) -> Heard:
    """Ask a provider that was opened just now, as after a restart."""
    return asyncio.run(hear(open_provider("scripted", settings={"text": script}), asked))


def said(heard: Heard) -> str:
    return "".join(chunk.text for chunk in heard.chunks if isinstance(chunk, TextChunk))


def answered(heard: Heard) -> tuple[Message, ...]:
    """The messages an agent loop adds after an answer."""
    finish = heard.finish
    results = tuple(ToolResultPart(call_id=call.call_id, text="ok") for call in finish.tool_calls)
    text = (TextPart(text=said(heard)),)
    messages = (Message(role="assistant", parts=(*text, *finish.tool_calls)),)
    return (*messages, Message(role="tool", parts=results)) if results else messages


def test_a_step_streams_everything_it_is_told_to() -> None:
    heard = play(SCRIPT, request(user("look")))
    finish = heard.finish
    first, second = finish.tool_calls
    expected: list[Chunk] = [
        LimitChunk((LimitState(kind="rate_limit", name="tokens", status="low", remaining=5),)),
        ReasoningChunk("let me"),
        ReasoningChunk(" see"),
        ReasoningChunk("", redacted=True),
        ReasoningSummaryChunk("looked"),
        TextChunk("I will", 0),
        TextChunk(" look", 0),
        ToolCallChunk(0, first.call_id, "read"),
        ToolArgsChunk(0, '{"path":"a.py"}'),
        ToolCallChunk(1, "mine", "list"),
        ToolArgsChunk(1, "{broken"),
    ]
    assert heard.chunks[:-1] == expected
    assert (second.call_id, second.arguments) == ("mine", "{broken")
    assert (finish.stop_reason, finish.response_model) == ("tool_call", "script-1")
    assert finish.usage == Usage(uncached_input_tokens=10, cache_read_tokens=5, output_tokens=3)


def test_a_conversation_is_played_in_order_by_providers_that_remember_nothing() -> None:
    talk: tuple[Message, ...] = (user("look"),)
    heard = [play(SCRIPT, request(*talk))]
    for more in ((), (user("how is the weather?"),), (user("and now?"),)):
        talk = (*talk, *answered(heard[-1]), *more)
        heard.append(play(SCRIPT, request(*talk)))
        assert play(SCRIPT, request(*talk)) == heard[-1]  # the same request again, as after a crash
    assert [said(one) for one in heard] == ["I will look", "It is fine.", "Sunny.", "Second."]
    assert len({one.finish.response_id for one in heard}) == 4


def test_one_provider_and_many_give_the_same_answers() -> None:
    talk: tuple[Message, ...] = (user("look"),)

    async def run() -> None:
        nonlocal talk
        lasting = open_provider("scripted", settings={"text": SCRIPT})
        for _ in range(2):
            heard = await hear(lasting, request(*talk))
            fresh = await hear(open_provider("scripted", settings={"text": SCRIPT}), request(*talk))
            assert heard == fresh
            talk = (*talk, *answered(heard))

    asyncio.run(run())


def test_a_turn_is_found_by_pattern_and_tokens_are_counted() -> None:
    heard = play(SCRIPT, request(user("sum it up")))
    assert said(heard) == "In short."
    assert heard.finish.usage == Usage(uncached_input_tokens=3, output_tokens=3, reasoning_tokens=0)


def test_a_script_that_is_over_says_so_or_begins_again() -> None:
    script = "turns: [{steps: [{text: one}]}, {steps: [{text: two}]}]"
    talk = (user("a"), user("b"), user("c"))
    failure = play(script, request(*talk)).failure
    assert failure is not None
    assert (failure.category, failure.retryable) == ("invalid_request", False)
    assert failure.message == "scripted: the script has no turn for user message 3"
    again = f"after_end: repeat\n{script}"
    assert [said(play(again, request(*talk[:count]))) for count in (1, 2, 3)] == ["one", "two", "one"]


def test_a_step_that_is_not_there_is_named() -> None:
    script = "turns: [{steps: [{text: one}]}]"
    talk = (user("a"), Message(role="assistant", parts=(TextPart(text="one"),)))
    failure = play(script, request(*talk)).failure
    assert failure is not None
    assert failure.message == "scripted: turn 1 of the script has 1 steps, step 2 is asked for"


ERROR = """
turns:
  - steps:
      - text: [a, b, c]
        error: {category: rate_limited, status: 429, retry_after_ms: 1500, attempts: 2, models: [model-x],
                limits: [{kind: rate_limit, status: hit}], usage: {output_tokens: 1}}
"""


def test_a_scripted_error_ends_after_its_attempts_and_spares_other_models() -> None:
    for attempt in (1, 2):
        heard = play(ERROR, request(attempt_index=attempt))
        assert heard.chunks == []
        failure = heard.failure
        assert isinstance(failure, ProviderFailed)
        assert (failure.category, failure.http_status, failure.retry_after_ms) == ("rate_limited", 429, 1500)
        assert failure.retryable
        assert failure.usage == Usage(output_tokens=1)
        assert failure.limits == (LimitState(kind="rate_limit", status="hit"),)
    assert said(play(ERROR, request(attempt_index=3))) == "abc"
    other = ModelRequest(model="other", messages=(user("hi"),))
    assert said(play(ERROR, other)) == "abc"


def test_a_scripted_stream_breaks_after_so_many_pieces() -> None:
    script = "turns: [{steps: [{text: [a, b, c], error: {category: disconnected, after_pieces: 2}}]}]"
    heard = play(script, request())
    assert heard.chunks == [TextChunk("a", 0), TextChunk("b", 0)]
    assert heard.failure is not None
    assert (heard.failure.category, heard.failure.retryable) == ("disconnected", True)


def test_whole_texts_are_cut_into_pieces_and_waited_for() -> None:
    script = "piece_chars: 4\nturns: [{steps: [{text: abcdefghij, delay_ms: 20}]}]"
    began = time.monotonic()
    heard = play(script, request())
    assert [chunk.text for chunk in heard.chunks if isinstance(chunk, TextChunk)] == ["abcd", "efgh", "ij"]
    assert time.monotonic() - began >= 0.06


@pytest.mark.parametrize("stop", ["stop", "length", "pause"])
def test_a_step_may_tell_why_it_stops(stop: str) -> None:
    finish = play(f"turns: [{{steps: [{{text: a, stop_reason: {stop}}}]}}]", request()).finish
    assert isinstance(finish, FinishChunk)
    assert finish.stop_reason == stop


def test_call_ids_differ_between_turns_that_repeat() -> None:
    script = "after_end: repeat\nturns:\n- steps: [{tool_calls: [{name: read}, {name: read}]}]\n"
    ids = [call.call_id for count in (1, 2) for call in play(script, request(*[user("go")] * count)).finish.tool_calls]
    assert len(set(ids)) == 4
