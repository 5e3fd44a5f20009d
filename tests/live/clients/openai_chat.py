"""The openai SDK under the instrumentations named on the command line: a loop with tools; says what it used."""

import json
import sys
from typing import Any

from exporting import exported
from openai import APIStatusError, OpenAI
from opentelemetry import trace
from opentelemetry.instrumentation.openai import OpenAIInstrumentor as OpenLLMetry
from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor as Official

INSTRUMENTATIONS = {"openai_v2": Official, "openllmetry": OpenLLMetry}
MODEL = "gpt-4o-mini"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL: Any = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}


def used(answer: Any) -> dict[str, object]:
    """What the SDK says one call used."""
    usage = answer.usage
    return {
        "id": answer.id,
        "model": answer.model,
        "status": "completed",
        "input": usage.prompt_tokens,
        "cache_read": usage.prompt_tokens_details.cached_tokens,
        "output": usage.completion_tokens,
        "reasoning": usage.completion_tokens_details.reasoning_tokens,
    }


def conversation(client: OpenAI) -> tuple[list[dict[str, object]], list[str]]:
    """Ask, run the tools that are asked for, and ask again until the model ends; the calls and the ids of the tools."""
    messages: list[Any] = [{"role": "user", "content": "Paris and Athens?"}]
    calls: list[dict[str, object]] = []
    tools: list[str] = []
    while True:
        answer = client.chat.completions.create(model=MODEL, messages=messages, tools=[TOOL])
        calls.append(used(answer))
        message = answer.choices[0].message
        if not message.tool_calls:
            return calls, tools
        messages.append(message.model_dump(exclude_none=True))
        for call in message.tool_calls:
            tools.append(call.id)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": "21"})


def streamed(client: OpenAI) -> dict[str, object]:
    """One call whose answer comes in pieces; the last one has the usage."""
    options: Any = {"include_usage": True}
    messages: Any = [{"role": "user", "content": "And then?"}]
    pieces = list(client.chat.completions.create(model=MODEL, messages=messages, stream=True, stream_options=options))
    return used(pieces[-1]) | {"streamed": True}


def refused(client: OpenAI) -> dict[str, object]:
    """One call that the provider refuses."""
    messages: Any = [{"role": "user", "content": "Hello?"}]
    try:
        client.chat.completions.create(model=MODEL, messages=messages)
    except APIStatusError:
        return {"model": MODEL, "status": "failed"}
    raise AssertionError("the provider was to refuse")


def main() -> None:
    """All of it in one trace of the program's own, which is all that holds it together."""
    with exported():
        for name in sys.argv[1:]:
            INSTRUMENTATIONS[name]().instrument()
        client = OpenAI(max_retries=0)
        with trace.get_tracer("demo.app").start_as_current_span("handle_request") as span:
            calls, tools = conversation(client)
            calls += [streamed(client), refused(client)]
        session = f"trace:{span.get_span_context().trace_id:032x}"
    asked = [{"id": tool, "name": "get_weather", "status": "unknown"} for tool in tools]
    print(json.dumps([{"session": session, "calls": calls, "tools": asked}]))


if __name__ == "__main__":
    main()
