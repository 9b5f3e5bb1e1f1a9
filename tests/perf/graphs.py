"""The graphs whose cost is counted: two nodes with a way back, a chain, a fan-out; nodes that do almost nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypedDict

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Limits, Send
from graphrt.reducers import add, append

Run = Callable[[], Any]


class Dict(TypedDict):
    count: Annotated[int, add]
    last: str


class Model(BaseModel):
    count: Annotated[int, add] = 0
    last: str = ""


class Talk(TypedDict):
    count: Annotated[int, add]
    messages: Annotated[list[str], append]


class Fan(TypedDict):
    results: Annotated[list[int], append]


def two_nodes(schema: Any, first: Any, second: Any, more: Callable[[Any], bool], steps: int) -> Any:
    builder = GraphBuilder(schema, name="loop")
    builder.add_node("first", first)
    builder.add_node("second", second)
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    builder.add_conditional_edges("second", more, {True: "first", False: END})
    return builder.compile(limits=Limits(max_steps=steps, max_visits=None))


def ping(state: Any) -> Any:
    return {"count": 1, "last": "ping"}


async def aping(state: Any) -> Any:
    return {"count": 1, "last": "ping"}


def dict_loop(n: int) -> Run:
    graph = two_nodes(Dict, ping, ping, lambda state: state["count"] < n, n)
    return lambda: graph.run({"count": 0, "last": ""})


def model_loop(n: int) -> Run:
    graph = two_nodes(Model, ping, ping, lambda state: state.count < n, n)
    return lambda: graph.run(Model())


def async_dict_loop(n: int) -> Run:
    graph = two_nodes(Dict, aping, aping, lambda state: state["count"] < n, n)
    return lambda: asyncio.run(graph.arun({"count": 0, "last": ""}))


def async_model_loop(n: int) -> Run:
    graph = two_nodes(Model, aping, aping, lambda state: state.count < n, n)
    return lambda: asyncio.run(graph.arun(Model()))


def say(state: Talk) -> Any:
    return {"messages": ["hello"], "count": 1}


def talk(n: int, *, held: int = 0, node: Callable[[Any], Any] = say) -> Run:
    """A loop that appends n messages to the *held* ones."""
    graph = talk_graph(n, node=node)
    return lambda: graph.run({"count": 0, "messages": ["hello"] * held})


def talk_graph(n: int, *, node: Callable[[Any], Any] = say) -> Any:
    return two_nodes(Talk, node, node, lambda state: state["count"] < n, n)


def chain(nodes: Mapping[str, Any]) -> Any:
    builder, names = GraphBuilder(Dict, name="chain"), list(nodes)
    for name, node in nodes.items():
        builder.add_node(name, node)
    builder.add_edge(START, names[0])
    for source, target in zip(names, [*names[1:], END], strict=True):
        builder.add_edge(source, target)
    return builder.compile(limits=Limits(max_steps=len(names)))


def chain_run(n: int) -> Run:
    graph = chain({f"n{i}": ping for i in range(n)})
    return lambda: graph.run({"count": 0, "last": ""})


def chain_compile(n: int) -> Run:
    nodes = {f"n{i}": ping for i in range(n)}
    return lambda: chain(nodes)


def work(state: Fan, ctx: Context) -> Any:
    return {"results": [ctx.arg]}


async def awork(state: Fan, ctx: Context) -> Any:
    return {"results": [ctx.arg]}


def fan_graph(n: int, node: Any) -> Any:
    builder = GraphBuilder(Fan, name="fan")
    builder.add_node("plan", lambda state: None)
    builder.add_node("work", node)
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", lambda state: [Send("work", item) for item in range(n)], ["work"])
    builder.add_edge("work", END)
    return builder.compile()


def fan_out(n: int) -> Run:
    graph = fan_graph(n, work)
    return lambda: graph.run({"results": []})


def async_fan_out(n: int) -> Run:
    graph = fan_graph(n, awork)
    return lambda: asyncio.run(graph.arun({"results": []}))
