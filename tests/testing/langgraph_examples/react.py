"""ReAct: a model calls tools and reads their results until it answers; after four turns it has to stop."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from tests.testing.langgraph_examples.example import Example

from graphrt import END, START, Context, GraphBuilder
from graphrt.graph import CompiledGraph
from graphrt.harness import MockHarness
from graphrt.reducers import append


class Message(TypedDict):
    role: Literal["user", "assistant", "tool"]
    text: str


class State(TypedDict):
    messages: Annotated[list[Message], append]


def run_tool(text: str) -> str:
    """Execute a text such as `add 1 2` or `look up tea`."""
    name, _, rest = text.partition(" ")
    if name == "add":
        return str(sum(int(number) for number in rest.split()))
    return f"nothing is known about {rest}"


async def agent(state: State, ctx: Context) -> dict[str, Any]:
    reply = await ctx.harness.run("\n".join(f"{item['role']}: {item['text']}" for item in state["messages"]))
    return {"messages": [{"role": "assistant", "text": reply.text}]}


def tools(state: State) -> dict[str, Any]:
    return {"messages": [{"role": "tool", "text": run_tool(state["messages"][-1]["text"].removeprefix("call "))}]}


def give_up(_state: State) -> dict[str, Any]:
    return {"messages": [{"role": "assistant", "text": "I could not find out."}]}


def wants(state: State) -> Literal["tools", "done"]:
    return "tools" if state["messages"][-1]["text"].startswith("call ") else "done"


def graph() -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="react")
    g.add_node("agent", agent, max_visits=4, on_fatigue="give_up")
    g.add_node("tools", tools)
    g.add_node("give_up", give_up)
    g.add_edge(START, "agent")
    g.add_conditional_edges("agent", wants, {"tools": "tools", "done": END})
    g.add_edge("tools", "agent")
    g.add_edge("give_up", END)
    return g.compile()


def options() -> dict[str, Any]:
    def answer(request: Any) -> str:
        return f"It is {request.text.rpartition(': ')[2]}." if "tool: " in request.text else "call add 1 2"

    return {"harness": MockHarness({lambda _request: True: answer})}


EXAMPLE = Example(
    name="react",
    graph=graph,
    input={"messages": [{"role": "user", "text": "What is 1 + 2?"}]},
    options=options,
    alternatives={
        "agent": [{"messages": [{"role": "assistant", "text": text}]} for text in ("It is 3.", "call add 1 2")]
    },
)
