"""graphrt: `GraphBuilder` with `Annotated` reducers, `Send` for fan-out, no store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import sleep
from typing import Annotated, Any, TypedDict

from pydantic import BaseModel

from benchmarks.catalogue import fan_rounds
from benchmarks.work.common import SLEEP_S, Run, drive, message
from graphrt import END, START, Context, GraphBuilder, Limits, Runtime, Send
from graphrt.reducers import add, append


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
    messages: Annotated[list[dict[str, str]], append]


class Fan(TypedDict):
    rounds: Annotated[int, add]
    results: Annotated[list[int], append]


class Count(TypedDict):
    count: Annotated[int, add]


def limits(steps: int) -> Limits:
    return Limits(max_steps=steps + 10, max_visits=None)


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


def chain_graph(nodes: dict[str, Any], schema: Any = State) -> Any:
    builder, names = GraphBuilder(schema, name="chain"), list(nodes)
    for name, node in nodes.items():
        builder.add_node(name, node)
    builder.add_edge(START, names[0])
    for source, target in zip(names, [*names[1:], END], strict=True):
        builder.add_edge(source, target)
    return builder.compile(limits=limits(len(names)))


def chain_sync(n: int) -> Run:
    graph = chain_graph({f"n{i}": chain_node(f"n{i}") for i in range(n)})
    return lambda: graph.run(start("chain")).state


def chain_async(n: int) -> Run:
    graph = chain_graph({f"n{i}": chain_anode(f"n{i}") for i in range(n)})
    return lambda: drive(graph.arun(start("chain"))).state


def chain_threads(n: int) -> Run:
    graph = chain_graph({f"n{i}": chain_node(f"n{i}") for i in range(n)})
    return lambda: drive(graph.arun(start("chain"))).state


def build(n: int) -> Run:
    nodes = {f"n{i}": chain_node(f"n{i}") for i in range(n)}

    def once() -> dict[str, int]:
        chain_graph(nodes)
        return {"nodes": n}

    return once


# loop


def ping(state: Any) -> Any:
    return {"count": 1, "last": "ping"}


def pong(state: Any) -> Any:
    return {"count": 1, "last": "pong"}


async def aping(state: Any) -> Any:
    return {"count": 1, "last": "ping"}


async def apong(state: Any) -> Any:
    return {"count": 1, "last": "pong"}


def loop_graph(schema: Any, n: int, first: Any, second: Any, router: Callable[[Any], str]) -> Any:
    builder = GraphBuilder(schema, name="loop")
    builder.add_node("first", first)
    builder.add_node("second", second)
    builder.add_edge(START, "first")
    builder.add_edge("first", "second")
    builder.add_conditional_edges("second", router, {"more": "first", "done": END})
    return builder.compile(limits=limits(n))


def router(n: int) -> Callable[[Any], str]:
    return lambda state: "more" if state["count"] < n else "done"


def model_router(n: int) -> Callable[[Any], str]:
    return lambda state: "more" if state.count < n else "done"


def loop_dict_sync(n: int) -> Run:
    graph = loop_graph(State, n, ping, pong, router(n))
    return lambda: graph.run(start("loop")).state


def loop_dict_async(n: int) -> Run:
    graph = loop_graph(State, n, aping, apong, router(n))
    return lambda: drive(graph.arun(start("loop"))).state


def loop_model_sync(n: int) -> Run:
    graph = loop_graph(Model, n, ping, pong, model_router(n))
    return lambda: graph.run(Model(goal="loop")).state


def loop_model_async(n: int) -> Run:
    graph = loop_graph(Model, n, aping, apong, model_router(n))
    return lambda: drive(graph.arun(Model(goal="loop"))).state


memory = loop_dict_sync


# growing list, streams of steps


def speak(state: Talk) -> Any:
    return {"messages": [message(state["count"])], "count": 1}


def grow(n: int) -> Run:
    graph = loop_graph(Talk, n, speak, speak, router(n))
    return lambda: graph.run({"count": 0, "messages": []}).state


def read(graph: Any, state: Any) -> dict[str, int]:
    count = changes = 0
    for step in Runtime(graph).steps(state):
        count += 1
        changes += len(step.diff.changed)
    return {"steps": count, "changes": changes}


def stream_flat(n: int) -> Run:
    graph = loop_graph(State, n, ping, pong, router(n))
    return lambda: read(graph, start("loop"))


def stream_grow(n: int) -> Run:
    graph = loop_graph(Talk, n, speak, speak, router(n))
    return lambda: read(graph, {"count": 0, "messages": []})


# fan-out


def work(state: Fan, ctx: Context) -> Any:
    return {"results": [ctx.arg * ctx.arg]}


async def awork(state: Fan, ctx: Context) -> Any:
    return {"results": [ctx.arg * ctx.arg]}


def doze(state: Fan, ctx: Context) -> Any:
    sleep(SLEEP_S)
    return {"results": [ctx.arg]}


async def adoze(state: Fan, ctx: Context) -> Any:
    await asyncio.sleep(SLEEP_S)
    return {"results": [ctx.arg]}


def plan(state: Fan) -> None:
    return None


def gather(state: Fan) -> Any:
    return {"rounds": 1}


async def aplan(state: Fan) -> Any:
    return plan(state)


async def agather(state: Fan) -> Any:
    return gather(state)


def fan_graph(n: int, rounds: int, node: Any, first: Any = plan, last: Any = gather) -> Any:
    builder = GraphBuilder(Fan, name="fan")
    builder.add_node("plan", first)
    builder.add_node("work", node)
    builder.add_node("gather", last)
    builder.add_edge(START, "plan")
    builder.add_conditional_edges("plan", lambda state: [Send("work", item) for item in range(n)], ["work"])
    builder.add_edge("work", "gather")
    builder.add_conditional_edges(
        "gather", lambda state: "more" if state["rounds"] < rounds else "done", {"more": "plan", "done": END}
    )
    return builder.compile(limits=limits(3 * rounds))


def fan(n: int, rounds: int, node: Any) -> Run:
    graph = fan_graph(n, rounds, node)
    return lambda: graph.run({"rounds": 0, "results": []}).state


def afan(n: int, rounds: int, node: Any) -> Run:
    graph = fan_graph(n, rounds, node, aplan, agather)
    return lambda: drive(graph.arun({"rounds": 0, "results": []})).state


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
        done = await asyncio.gather(*[graph.arun({"count": 0}) for _ in range(n)])
        return {"runs": len(done), "count": sum(result.state["count"] for result in done)}

    return lambda: drive(many())
