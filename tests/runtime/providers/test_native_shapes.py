"""The same answer over three native APIs is the same normalized stream; requests are what each API asks for."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.payload import Payload
from models.values import Usage
from runtime.providers import (
    Chunk,
    FinishChunk,
    Message,
    ReasoningChunk,
    ReasoningSummaryChunk,
    SealedPart,
    TextChunk,
    TextPart,
    ToolArgsChunk,
    ToolCallChunk,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
)
from runtime.providers.facts import completed, fact
from tests.model_server import Call, ModelServer, Said, Tokens
from tests.runtime.providers.conversations import SHAPES, Heard, ask, request, user

PLAIN = Said(text=("Grüße, ", "Welt ", "🛞\n"))
THINKING = Said(
    reasoning=("first ", "then"),
    text=("I will ", "look."),
    calls=(Call("call_1", "read", ('{"path":', '"a b"}')), Call("call_2", "list")),
    tokens=Tokens(whole_input=1000, cache_read=600, output=80, reasoning=30),
)
ANSWERS = {
    "text": PLAIN,
    "reasoning and tool calls": THINKING,
    "tool calls alone": Said(calls=(Call("call_9", "glob", ('{"pattern":"*"}',)),)),
    "cut by the token limit": Said(text=("and then",), stop="length"),
}


def shared_view(heard: Heard) -> list[Chunk]:
    """The chunks without what only some providers tell: their own word for the end, their own sum, their seals."""
    finish = heard.finish
    usage = finish.usage.model_copy(update={"total_tokens": None})
    return [*heard.chunks[:-1], replace(finish, native_stop_reason=None, usage=usage, sealed=())]


def recorded(chunks: list[Chunk]) -> list[Payload]:
    """The facts of a stream."""
    found = [fact(chunk, index) for index, chunk in enumerate(chunks)]
    end = chunks[-1]
    assert isinstance(end, FinishChunk)
    told = completed(end, provider="p", model="model-x", duration_ms=1, first_token_ms=None)
    return [*(one for one in found if one is not None), told]


@pytest.mark.req("AR-231")
@pytest.mark.parametrize("said", ANSWERS.values(), ids=ANSWERS.keys())
def test_the_same_answer_gives_equal_chunks_and_events_over_every_native_shape(server: ModelServer, said: Said) -> None:
    views = {}
    for shape in SHAPES:
        server.gives(said)
        views[shape] = shared_view(ask(shape, server))
    assert [received.path for received in server.received] == [shape.path for shape in SHAPES.values()]
    assert views["chat"] == views["responses"] == views["messages"]
    facts = [recorded(view) for view in views.values()]
    assert facts[0] == facts[1] == facts[2]
    assert not [problem for payload in facts[0] for problem in payload.emission_problems()]


def test_a_stream_is_normalized_piece_by_piece(server: ModelServer) -> None:
    server.gives(THINKING)
    assert shared_view(ask("messages", server)) == [
        ReasoningChunk("first "),
        ReasoningChunk("then"),
        TextChunk("I will ", 0),
        TextChunk("look.", 0),
        ToolCallChunk(0, "call_1", "read"),
        ToolArgsChunk(0, '{"path":'),
        ToolArgsChunk(0, '"a b"}'),
        ToolCallChunk(1, "call_2", "list"),
        ToolArgsChunk(1, "{}"),
        FinishChunk(
            "tool_call",
            Usage(
                uncached_input_tokens=400,
                cache_read_tokens=600,
                cache_write_tokens=0,
                output_tokens=80,
                reasoning_tokens=30,
            ),
            "model-x-2026",
            "answer_1",
            (
                ToolCallPart(call_id="call_1", name="read", arguments='{"path":"a b"}'),
                ToolCallPart(call_id="call_2", name="list", arguments="{}"),
            ),
        ),
    ]


pieces = st.lists(st.text(min_size=1, max_size=12), max_size=4).map(tuple)
calls = st.lists(
    st.builds(Call, st.uuids().map(str), st.sampled_from(["read", "write"]), pieces),
    max_size=3,
    unique_by=lambda c: c.id,
).map(tuple)


@pytest.mark.req("AR-231")
@settings(max_examples=20, deadline=None)
@given(text=pieces, reasoning=pieces, calls=calls, cache_read=st.integers(0, 500), output=st.integers(0, 500))
def test_any_answer_gives_equal_chunks_over_every_native_shape(
    text: tuple[str, ...], reasoning: tuple[str, ...], calls: tuple[Call, ...], cache_read: int, output: int
) -> None:
    said = Said(text, reasoning, calls=calls, tokens=Tokens(cache_read + 7, cache_read, output=output))
    with ModelServer() as server:
        views = []
        for shape in SHAPES:
            server.gives(said)
            views.append(shared_view(ask(shape, server)))
    assert views[0] == views[1] == views[2]


@pytest.mark.req("AR-231")
@pytest.mark.parametrize("shape", ["responses", "messages"])
def test_withheld_reasoning_is_told_and_empty(server: ModelServer, shape: str) -> None:
    server.gives(Said(text=("done",), withheld=True))
    assert ask(shape, server).chunks[:2] == [ReasoningChunk("", redacted=True), TextChunk("done", 0)]


def test_a_reasoning_summary_is_one_whole_chunk(server: ModelServer) -> None:
    server.gives(Said(text=("done",), summary="weighed two ways"))
    heard = ask("responses", server)
    assert heard.chunks[:2] == [ReasoningSummaryChunk("weighed two ways"), TextChunk("done", 0)]


@pytest.mark.parametrize(
    ("shape", "native", "total"),
    [("chat", "stop", 120), ("responses", "completed", 120), ("messages", "end_turn", None)],
)
def test_a_providers_own_word_and_sum_are_kept_as_told(
    server: ModelServer, shape: str, native: str, total: int | None
) -> None:
    server.gives(PLAIN)
    finish = ask(shape, server).finish
    assert (finish.stop_reason, finish.native_stop_reason, finish.usage.total_tokens) == ("stop", native, total)


@pytest.mark.parametrize("shape", SHAPES)
def test_input_counts_do_not_overlap_and_output_contains_reasoning(server: ModelServer, shape: str) -> None:
    server.gives(replace(PLAIN, tokens=Tokens(1000, cache_read=600, cache_write=250, output=90, reasoning=40)))
    usage = ask(shape, server).finish.usage
    assert (usage.uncached_input_tokens, usage.cache_read_tokens, usage.cache_write_tokens) == (150, 600, 250)
    assert (usage.output_tokens, usage.reasoning_tokens) == (90, 40)


def test_cache_writes_are_split_by_lifetime_where_the_provider_tells(server: ModelServer) -> None:
    server.gives(replace(PLAIN, tokens=Tokens(1000, cache_write=250, cache_write_1h=50)))
    usage = ask("messages", server).finish.usage
    assert (usage.cache_write_5m_tokens, usage.cache_write_1h_tokens) == (200, 50)


def test_input_parts_larger_than_the_whole_leave_the_rest_unknown(server: ModelServer) -> None:
    server.gives(replace(PLAIN, tokens=Tokens(100, cache_read=90, cache_write=20)))
    assert ask("chat", server).finish.usage.uncached_input_tokens is None


TALK = (
    Message(role="system", parts=(TextPart(text="Be brief."),)),
    user("look at a"),
    Message(
        role="assistant",
        parts=(
            TextPart(text="Looking."),
            ToolCallPart(call_id="c1", name="read", arguments='{"path":"a"}'),
            ToolCallPart(call_id="c2", name="read", arguments="{broken"),
        ),
    ),
    Message(role="tool", parts=(ToolResultPart(call_id="c1", text="AAA"),)),
    Message(role="tool", parts=(ToolResultPart(call_id="c2", text="not JSON", is_error=True),)),
)
TOOL = ToolSpec(name="read", description="Read a file.", input_schema={"type": "object"})


def sent(server: ModelServer, shape: str, **other: Any) -> dict[str, Any]:
    server.gives(PLAIN)
    asked = request(*TALK, tools=(TOOL,), max_output_tokens=55, **other)
    assert ask(shape, server, asked).failure is None
    return server.received[-1].body


def test_chat_gets_a_conversation_with_tools_in_its_form(server: ModelServer) -> None:
    body = sent(server, "chat", parameters={"temperature": 0.5, "made_up": 1})

    def call(call_id: str, arguments: str) -> dict[str, Any]:
        return {"id": call_id, "type": "function", "function": {"name": "read", "arguments": arguments}}

    assert body == {
        "model": "model-x",
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 55,
        "temperature": 0.5,
        "made_up": 1,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "look at a"},
            {
                "role": "assistant",
                "content": "Looking.",
                "tool_calls": [call("c1", '{"path":"a"}'), call("c2", "{broken")],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "AAA"},
            {"role": "tool", "tool_call_id": "c2", "content": "not JSON"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "read", "description": "Read a file.", "parameters": {"type": "object"}},
            }
        ],
    }


def test_responses_gets_a_conversation_with_tools_in_its_form_and_keeps_nothing(server: ModelServer) -> None:
    body = sent(server, "responses")
    assert body["store"] is False
    assert body["max_output_tokens"] == 55
    assert body["tools"][0] == {
        "type": "function",
        "name": "read",
        "description": "Read a file.",
        "parameters": {"type": "object"},
        "strict": False,
    }
    assert body["input"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "look at a"},
        {"role": "assistant", "content": "Looking."},
        {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path":"a"}'},
        {"type": "function_call", "call_id": "c2", "name": "read", "arguments": "{broken"},
        {"type": "function_call_output", "call_id": "c1", "output": "AAA"},
        {"type": "function_call_output", "call_id": "c2", "output": "not JSON"},
    ]


def test_messages_gets_a_conversation_with_tools_in_its_form(server: ModelServer) -> None:
    body = sent(server, "messages")
    assert body["system"] == [{"type": "text", "text": "Be brief."}]
    assert body["max_tokens"] == 55
    assert body["tools"] == [{"name": "read", "description": "Read a file.", "input_schema": {"type": "object"}}]
    assert body["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "look at a"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
                {"type": "tool_use", "id": "c2", "name": "read", "input": {"unparsed_arguments": "{broken"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "AAA"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "not JSON", "is_error": True},
            ],
        },
    ]


@pytest.mark.parametrize("shape", SHAPES)
def test_parameters_cannot_replace_what_the_runtime_sends(server: ModelServer, shape: str) -> None:
    failure = ask(shape, server, request(parameters={"model": "other", "stream": False})).failure
    assert failure is not None
    assert (failure.category, failure.retryable) == ("invalid_request", False)
    assert "model, stream" in failure.message
    assert not server.received


SEAL = SealedPart(provider="anthropic", block={"type": "thinking", "thinking": "private", "signature": "sig-1"})
THINKS = {"thinking": {"type": "enabled", "budget_tokens": 2000}}


def tool_loop(*, sealed: bool) -> tuple[Message, ...]:
    call = ToolCallPart(call_id="c1", name="read", arguments="{}")
    parts = (SEAL, call) if sealed else (call,)
    return (
        user("look"),
        Message(role="assistant", parts=parts),
        Message(role="tool", parts=(ToolResultPart(call_id="c1", text="AAA"),)),
    )


def test_reasoning_is_sealed_only_where_tool_calls_follow_it(server: ModelServer) -> None:
    server.gives(replace(THINKING, withheld=True))
    assert [part.block for part in ask("messages", server).finish.sealed] == [
        {"type": "thinking", "thinking": "first then", "signature": "sig-1"},
        {"type": "redacted_thinking", "data": "sealed-1"},
    ]
    server.gives(replace(THINKING, calls=()))
    assert ask("messages", server).finish.sealed == ()


def test_a_seal_goes_back_to_its_provider_within_the_tool_loop(server: ModelServer) -> None:
    server.gives(PLAIN)
    ask("messages", server, request(*tool_loop(sealed=True), parameters=THINKS))
    body = server.received[-1].body
    assert body["messages"][1]["content"][0] == SEAL.block
    assert body["thinking"] == THINKS["thinking"]


def test_private_reasoning_is_not_replayed_once_the_user_has_spoken_again(server: ModelServer) -> None:
    for shape in SHAPES:
        server.gives(PLAIN)
        assert ask(shape, server, request(*tool_loop(sealed=True), user("go on"))).failure is None
        assert "private" not in str(server.received[-1].body)


@pytest.mark.parametrize("shape", ["chat", "responses"])
def test_a_seal_is_not_shown_to_another_provider(server: ModelServer, shape: str) -> None:
    server.gives(PLAIN)
    assert ask(shape, server, request(*tool_loop(sealed=True))).failure is None
    assert "private" not in str(server.received[-1].body)


def test_a_tool_loop_begun_without_thinking_goes_on_without_it(server: ModelServer) -> None:
    server.gives(PLAIN)
    ask("messages", server, request(*tool_loop(sealed=False), parameters=THINKS | {"temperature": 1}))
    body = server.received[-1].body
    assert "thinking" not in body
    assert body["temperature"] == 1


def test_a_message_holds_only_parts_of_its_role() -> None:
    with pytest.raises(ValueError, match="a user message holds no tool_result part"):
        Message(role="user", parts=(ToolResultPart(call_id="c", text="x"),))


def test_messages_survive_being_stored_as_json() -> None:
    for message in (*TALK, *tool_loop(sealed=True)):
        assert Message.model_validate_json(message.model_dump_json()) == message
