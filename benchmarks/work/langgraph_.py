"""LangGraph: `StateGraph` with `Annotated` reducers, `Send` for fan-out, no checkpointer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from operator import add
from time import sleep
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from pydantic import BaseModel

from benchmarks.catalogue import fan_rounds
from benchmarks.work.common import SLEEP_S, Run, drive, message


class State(TypedDict):
    goal: str
    count: Annotated[int, add]
    last: str


class Model(BaseModel):
    goal: str
    count: Annotated[int, add] = 0
    last: str = ""


class Talk(TypedDict):
    count: Annotated[int, add]
    messages: Annotated[list[dict[str, str]], add]


class Fan(TypedDict):
    rounds: Annotated[int, add]
    results: Annotated[list[int], add]


class Item(TypedDict):
    item: int


class Count(TypedDict):
    count: Annotated[int, add]


def config(steps: int) -> Any:
    return {"recursion_limit": steps + 10}


def start(goal: str) -> Any:
    return {"goal": goal, "count": 0, "last": ""}


# chain


def chain_node(name: str) -> Callable[[State], Any]:
    def node(state: State) -> Any:
        return {"count": 1, "last": name}

    return node


def chain_anode(name: str) -> Callable[[State], Any]:
    async def node(state: State) -> Any:
        return {"count": 1, "last": name}

    return node


def chain_graph(nodes: dict[str, Any], schema: type = State) -> Any:
    builder, names = StateGraph(schema), list(nodes)
    for name, node in nodes.items():
        builder.add_node(name, node)
    for source, target in zip([START, *names], [*names, END], strict=True):
        builder.add_edge(source, target)
    return builder.compile()


def chain_sync(n: int) -> Run:
    graph = chain_graph({f"n{i}": chain_node(f"n{i}") for i in range(n)})
    return lambda: graph.invoke(start("chain"), config(n))


def chain_async(n: int) -> Run:
    graph = chain_graph({f"n{i}": chain_anode(f"n{i}") for i in range(n)})
    return lambda: drive(graph.ainvoke(start("chain"), config(n)))


def chain_threads(n: int) -> Run:
    graph = chain_graph({f"n{i}": chain_node(f"n{i}") for i in range(n)})
    return lambda: drive(graph.ainvoke(start("chain"), config(n)))


def build(n: int) -> Run:
    nodes = {f"n{i}": chain_node(f"n{i}") for i in range(n)}
    return lambda: {"nodes": len(chain_graph(nodes).builder.nodes)}


# loop


def ping(state: Any) -> Any:
    return {"count": 1, "last": "ping"}


def pong(state: Any) -> Any:
    return {"count": 1, "last": "pong"}


async def aping(state: Any) -> Any:
    return {"count": 1, "last": "ping"}


async def apong(state: Any) -> Any:
    return {"count": 1, "last": "pong"}


def loop_graph(schema: type, first: Any, second: Any, router: Callable[[Any], str]) -> Any:
    builder = StateGraph(schema)
    builder.add_node("first", first)
    builder.add_node("second", second)
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    builder.add_conditional_edges("second", router, {"more": "first", "done": END})
    return builder.compile()


def router(n: int) -> Callable[[Any], str]:
    return lambda state: "more" if state["count"] < n else "done"


def model_router(n: int) -> Callable[[Any], str]:
    return lambda state: "more" if state.count < n else "done"


def loop_dict_sync(n: int) -> Run:
    graph = loop_graph(State, ping, pong, router(n))
    return lambda: graph.invoke(start("loop"), config(n))


def loop_dict_async(n: int) -> Run:
    graph = loop_graph(State, aping, apong, router(n))
    return lambda: drive(graph.ainvoke(start("loop"), config(n)))


def loop_model_sync(n: int) -> Run:
    graph = loop_graph(Model, ping, pong, model_router(n))
    return lambda: graph.invoke(Model(goal="loop"), config(n))


def loop_model_async(n: int) -> Run:
    graph = loop_graph(Model, aping, apong, model_router(n))
    return lambda: drive(graph.ainvoke(Model(goal="loop"), config(n)))


memory = loop_dict_sync


# growing list, streams of steps


def speak(state: Talk) -> Any:
    return {"messages": [message(state["count"])], "count": 1}


def grow(n: int) -> Run:
    graph = loop_graph(Talk, speak, speak, router(n))
    return lambda: graph.invoke({"count": 0, "messages": []}, config(n))


def read(graph: Any, state: Any, n: int) -> dict[str, int]:
    count = changes = 0
    for chunk in graph.stream(state, config(n), stream_mode="updates"):
        for update in chunk.values():
            count += 1
            changes += len(update)
    return {"steps": count, "changes": changes}


def stream_flat(n: int) -> Run:
    graph = loop_graph(State, ping, pong, router(n))
    return lambda: read(graph, start("loop"), n)


def stream_grow(n: int) -> Run:
    graph = loop_graph(Talk, speak, speak, router(n))
    return lambda: read(graph, {"count": 0, "messages": []}, n)


# fan-out


def work(task: Item) -> Any:
    return {"results": [task["item"] * task["item"]]}


async def awork(task: Item) -> Any:
    return {"results": [task["item"] * task["item"]]}


def doze(task: Item) -> Any:
    sleep(SLEEP_S)
    return {"results": [task["item"]]}


async def adoze(task: Item) -> Any:
    await asyncio.sleep(SLEEP_S)
    return {"results": [task["item"]]}


def plan(state: Fan) -> Any:
    return {}


def gather(state: Fan) -> Any:
    return {"rounds": 1}


async def aplan(state: Fan) -> Any:
    return plan(state)


async def agather(state: Fan) -> Any:
    return gather(state)


def fan_graph(n: int, rounds: int, node: Any, first: Any = plan, last: Any = gather) -> Any:
    builder = StateGraph(Fan)
    builder.add_node("plan", first)
    builder.add_node("work", node)
    builder.add_node("gather", last)
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", lambda state: [Send("work", {"item": i}) for i in range(n)], ["work"])
    builder.add_edge("work", "gather")
    builder.add_conditional_edges(
        "gather", lambda state: "more" if state["rounds"] < rounds else "done", {"more": "plan", "done": END}
    )
    return builder.compile()


def fan(n: int, rounds: int, node: Any) -> Run:
    graph = fan_graph(n, rounds, node)
    return lambda: graph.invoke({"rounds": 0, "results": []}, config(3 * rounds))


def afan(n: int, rounds: int, node: Any) -> Run:
    graph = fan_graph(n, rounds, node, aplan, agather)
    return lambda: drive(graph.ainvoke({"rounds": 0, "results": []}, config(3 * rounds)))


def fan_sync(n: int) -> Run:
    return fan(n, fan_rounds(n), work)


def fan_async(n: int) -> Run:
    return afan(n, fan_rounds(n), awork)


def sleeps_async(n: int) -> Run:
    return afan(n, 1, adoze)


def sleeps_sync(n: int) -> Run:
    return fan(n, 1, doze)


# many runs at once


async def pause(state: Count) -> Any:
    await asyncio.sleep(0)
    return {"count": 1}


def concurrent(n: int) -> Run:
    graph = chain_graph({f"n{i}": pause for i in range(5)}, Count)

    async def many() -> dict[str, int]:
        done = await asyncio.gather(*[graph.ainvoke({"count": 0}) for _ in range(n)])
        return {"runs": len(done), "count": sum(state["count"] for state in done)}

    return lambda: drive(many())
