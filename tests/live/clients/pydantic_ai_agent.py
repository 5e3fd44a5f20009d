"""Pydantic AI: two runs of one conversation, a run with the test model, one whose model refuses; says what it used."""

import json
from collections.abc import Iterator

from exporting import exported
from pydantic_ai import Agent, AgentRunResult, ModelRetry
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

MODEL = "gpt-4o-mini"


def answers() -> Iterator[ModelResponse]:
    """What the model says, answer by answer: it asks for two tools, one of which fails, asks again, and ends."""
    asks = [ToolCallPart("get_weather", {"city": "Paris"}), ToolCallPart("get_weather", {"city": "Atlantis"})]
    yield ModelResponse(asks, usage=RequestUsage(input_tokens=120, cache_read_tokens=0, output_tokens=31))
    again = [ToolCallPart("get_weather", {"city": "Athens"})]
    yield ModelResponse(again, usage=RequestUsage(input_tokens=197, cache_read_tokens=64, output_tokens=17))
    done = [TextPart("Paris 21, Athens 30.")]
    yield ModelResponse(done, usage=RequestUsage(input_tokens=240, cache_read_tokens=128, output_tokens=23))
    more = [TextPart("Take an umbrella.")]
    yield ModelResponse(more, usage=RequestUsage(input_tokens=290, cache_read_tokens=192, output_tokens=9))


SAYS = answers()


def says(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """The model of the conversation."""
    return next(SAYS)


def refuses(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """A model whose provider answers with an error."""
    raise ModelHTTPError(429, MODEL, {"message": "slow down"})


def get_weather(city: str) -> str:
    """The weather of a city."""
    if city == "Atlantis":
        raise ModelRetry("there is no such city")
    return f"21 in {city}"


def told(session: str, *runs: AgentRunResult[str]) -> dict[str, object]:
    """What the framework says of the runs of one conversation: its usage objects and its messages."""
    messages = [message for run in runs for message in run.new_messages()]
    parts = [part for message in messages for part in message.parts]
    responses = [message for message in messages if isinstance(message, ModelResponse)]
    calls = [
        {
            "model": response.model_name,
            "status": "completed",
            "input": response.usage.input_tokens,
            "cache_read": response.usage.cache_read_tokens,
            "output": response.usage.output_tokens,
            "cost_usd": price(response),
        }
        for response in responses
    ]
    usages = [run.usage for run in runs]
    totals = {
        "calls": sum(usage.requests for usage in usages),
        "input": sum(usage.input_tokens for usage in usages),
        "cache_read": sum(usage.cache_read_tokens for usage in usages),
        "output": sum(usage.output_tokens for usage in usages),
    }
    returned = [part for part in parts if isinstance(part, ToolReturnPart)]
    tools = [
        {
            "id": part.tool_call_id,
            "name": part.tool_name,
            "status": "failed" if part.retry else "completed",
        }
        for part in returned
    ]
    assert sum(tool["status"] == "completed" for tool in tools) == sum(usage.tool_calls for usage in usages)
    return {"session": session, "calls": calls, "totals": totals, "tools": tools}


def price(response: ModelResponse) -> float | None:
    """What the framework thinks a response cost; None for a model it does not know."""
    try:
        return float(response.cost().total_price)
    except LookupError:
        return None


def main() -> None:
    """Run them all."""
    with exported():
        Agent.instrument_all()
        agent = Agent(FunctionModel(says, model_name=MODEL), name="weather_agent", tools=[get_weather])
        first = agent.run_sync("Paris and Atlantis?", conversation_id="pydantic-ai-trip")
        second = agent.run_sync("And then?", message_history=first.all_messages(), conversation_id="pydantic-ai-trip")
        tester = Agent(TestModel(), name="test_agent", tools=[get_weather])
        third = tester.run_sync("Try the tool.", conversation_id="pydantic-ai-test")
        failing = Agent(FunctionModel(refuses, model_name=MODEL), name="failing_agent")
        try:
            failing.run_sync("Hello?", conversation_id="pydantic-ai-refused")
        except ModelHTTPError as problem:
            failed = {"model": problem.model_name, "status": "failed"}
    refused = {"session": "pydantic-ai-refused", "calls": [failed], "tools": []}
    print(json.dumps([told("pydantic-ai-trip", first, second), told("pydantic-ai-test", third), refused]))


if __name__ == "__main__":
    main()
