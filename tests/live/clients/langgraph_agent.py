"""LangGraph under OpenInference's LangChain instrumentation, with a fake model: two threads; says what was used."""

import json
from collections.abc import Sequence
from typing import Any

from exporting import exported
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.language_models import GenericFakeChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import Runnable, RunnableConfig
from langchain_core.tools import BaseTool, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from openinference.instrumentation.langchain import LangChainInstrumentor

MODEL = "gpt-4o-mini"


class FakeModel(GenericFakeChatModel):
    """Says what it was given, also when tools are bound to it."""

    model_name: str = MODEL

    def bind_tools(self, tools: Sequence[BaseTool], **_: Any) -> Runnable[LanguageModelInput, AIMessage]:  # type: ignore[override]
        return self


def answer(text: str, used: tuple[int, int, int, int], *cities: str) -> AIMessage:
    """An answer with its usage (input, of which cached; output, of which reasoning) and the tools it asks for."""
    whole, cached, output, reasoning = used
    return AIMessage(
        text,
        tool_calls=[{"id": f"call_{city}", "name": "get_weather", "args": {"city": city}} for city in cities],
        response_metadata={"model_name": MODEL},
        usage_metadata={
            "input_tokens": whole,
            "output_tokens": output,
            "total_tokens": whole + output,
            "input_token_details": {"cache_read": cached},
            "output_token_details": {"reasoning": reasoning},
        },
    )


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    if city == "Atlantis":
        raise ValueError("there is no such city")
    return f"21 in {city}"


def agent(*answers: AIMessage) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A graph that loops between its model and its tools."""
    model = FakeModel(messages=iter(answers)).bind_tools([get_weather])
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([get_weather], handle_tool_errors=True))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=InMemorySaver(), name="weather_agent")


def told(thread: str, graph: CompiledStateGraph[Any, Any, Any, Any], *prompts: str) -> dict[str, object]:
    """Work on prompts in one thread; what the framework says of it: its usage callback and its messages."""
    counted = UsageMetadataCallbackHandler()
    config: RunnableConfig = {"configurable": {"thread_id": thread}, "callbacks": [counted]}
    for prompt in prompts:
        state = graph.invoke({"messages": [("user", prompt)]}, config)
    said = [message for message in state["messages"] if isinstance(message, AIMessage)]
    results = [message for message in state["messages"] if isinstance(message, ToolMessage)]
    return {
        "session": thread,
        "calls": [
            {
                "model": message.response_metadata["model_name"],
                "status": "completed",
                "input": message.usage_metadata["input_tokens"],
                "cache_read": message.usage_metadata["input_token_details"]["cache_read"],
                "output": message.usage_metadata["output_tokens"],
                "reasoning": message.usage_metadata["output_token_details"]["reasoning"],
            }
            for message in said
            if message.usage_metadata
        ],
        "totals": {
            "input": counted.usage_metadata[MODEL]["input_tokens"],
            "output": counted.usage_metadata[MODEL]["output_tokens"],
        },
        "tools": [
            {
                "id": result.tool_call_id,
                "name": result.name,
                "status": {"success": "completed", "error": "failed"}[result.status],
            }
            for result in results
        ],
    }


def main() -> None:
    """Two prompts in one thread and one in another, as two traces and one."""
    with exported():
        LangChainInstrumentor().instrument()
        trip = agent(
            answer("", (120, 0, 31, 8), "Paris", "Atlantis"),
            answer("", (197, 64, 17, 0), "Athens"),
            answer("Paris 21, Athens 21.", (240, 128, 23, 5)),
            answer("Take an umbrella.", (290, 192, 9, 0)),
        )
        other = agent(answer("Hello.", (33, 0, 3, 0)))
        found = [
            told("langgraph-trip", trip, "Paris and Atlantis?", "And then?"),
            told("langgraph-other", other, "Hello?"),
        ]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
