"""An agent that speaks before it asks, in parallel with a node and a nested graph that speak; models answer by rules.

As a program, it drives a thread in a separate process, until the thread waits or ends. No tests.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, TypedDict

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.graph import CompiledGraph
from graphrt.harness import Agent, FunctionModel, Message, ModelRequest, ToolCall, UserMessage, tool
from graphrt.harness.protocol import AgentReply
from graphrt.reducers import append

GIVEN: dict[str, Any] = {"messages": [UserMessage(text="Tea and milk, please.")]}
WORDS = ("I look. ", "I order tea. ", "And milk. ", "Done.")
"""The messages of the clerk; after the second and the third it asks for an approval."""


class Chat(TypedDict):
    messages: Annotated[list[Message], append]


@tool(approval=True, effect="idempotent")
def order(item: str) -> str:
    """Order something."""
    return f"ordered {item}"


@tool
def look(item: str) -> str:
    """Look whether there is something."""
    return f"there is {item}"


def call(id: str, name: str, item: str) -> ToolCall:
    return ToolCall(id=id, name=name, arguments={"item": item})


def clerk(request: ModelRequest) -> AgentReply:
    """Say the next words, depending on how often it has spoken."""
    calls = (
        (call("1", "look", "tea"),),
        (call("2", "order", "tea"), call("3", "look", "milk")),
        (call("4", "order", "milk"),),
        (),
    )
    said = sum(one.role == "assistant" for one in request.messages)
    return AgentReply(text=WORDS[said], thinking="hm" if said == 0 else "", tool_calls=calls[said])


def baker(request: ModelRequest) -> AgentReply:
    """Ask whether to order a cake."""
    if request.messages[-1].role == "tool":
        return AgentReply(text="A cake comes.")
    return AgentReply(text="A cake, too? ", tool_calls=(call("1", "order", "cake"),))


MODELS: dict[str, Any] = {
    "clerk": FunctionModel(clerk),
    "guest": FunctionModel(lambda _: "I watch."),
    "waiter": FunctionModel(lambda _: "Welcome."),
    "baker": FunctionModel(baker),
}


def says(name: str, *tools: Any) -> Any:
    """A node that is an agent."""

    async def node(state: Chat, ctx: Context) -> Chat:
        reply = await ctx.bind(Agent("none", name=name, tools=tools)).run(state["messages"])
        return {"messages": list(reply.new_messages)}

    return node


def alone(queue: str | None = None) -> CompiledGraph[Any, Any, Any]:
    """Only the agent."""
    g = GraphBuilder(Chat, name="asking")
    g.add_node("clerk", says("clerk", order, look), queue=queue)
    g.add_sequence([START, "clerk", END])
    return g.compile()


def beside() -> CompiledGraph[Any, Any, Any]:
    """The agent, a node that speaks, and a nested graph that speaks twice and asks."""
    inner = GraphBuilder(Chat, name="inner")
    inner.add_node("waiter", says("waiter")).add_node("baker", says("baker", order))
    inner.add_sequence([START, "waiter", "baker", END])
    g = GraphBuilder(Chat, name="asking")
    g.add_node("clerk", says("clerk", order, look)).add_node("guest", says("guest")).add_node("nest", inner.compile())
    for name in ("clerk", "guest", "nest"):
        g.add_edge(START, name).add_edge(name, END)
    return g.compile()


if __name__ == "__main__":
    url, thread, *approved = sys.argv[1:]
    with Runtime(beside(), store=url, models=MODELS) as runtime:
        if approved:
            runtime.resume(thread, dict.fromkeys(approved, True))
        else:
            runtime.run(GIVEN, thread=thread)
