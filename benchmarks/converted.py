"""The LangGraph graphs of `work/langgraph_.py`, converted by `graphrt.compat.langgraph`: same functions, no store."""

from __future__ import annotations

import asyncio
from typing import Any

from benchmarks.catalogue import fan_rounds
from benchmarks.work import langgraph_ as theirs
from benchmarks.work.common import Run, drive
from graphrt import Limits, Runtime
from graphrt.compat.langgraph import convert


def converted(graph: Any) -> Any:
    return convert(graph)[0]


def limits(steps: int) -> Limits:
    return Limits(max_steps=steps + 10)


def runs(graph: Any, given: Any, steps: int) -> Run:
    made = converted(graph)
    return lambda: made.run(given, limits=limits(steps)).state


def aruns(graph: Any, given: Any, steps: int) -> Run:
    made = converted(graph)
    return lambda: drive(made.arun(given, limits=limits(steps))).state


def named(n: int, make: Any) -> dict[str, Any]:
    """Names that sort in the order of the chain, because nodes are added by name."""
    return {f"n{i}": make(f"n{i}") for i in range(n)}


def chain_sync(n: int) -> Run:
    return runs(theirs.chain_graph(named(n, theirs.chain_node)), theirs.start("chain"), n)


def chain_async(n: int) -> Run:
    return aruns(theirs.chain_graph(named(n, theirs.chain_anode)), theirs.start("chain"), n)


def chain_threads(n: int) -> Run:
    return aruns(theirs.chain_graph(named(n, theirs.chain_node)), theirs.start("chain"), n)


def loop_dict_sync(n: int) -> Run:
    graph = theirs.loop_graph(theirs.State, theirs.ping, theirs.pong, theirs.router(n))
    return runs(graph, theirs.start("loop"), n)


def loop_dict_async(n: int) -> Run:
    graph = theirs.loop_graph(theirs.State, theirs.aping, theirs.apong, theirs.router(n))
    return aruns(graph, theirs.start("loop"), n)


def loop_model_sync(n: int) -> Run:
    graph = theirs.loop_graph(theirs.Model, theirs.ping, theirs.pong, theirs.model_router(n))
    return runs(graph, theirs.start("loop"), n)


def loop_model_async(n: int) -> Run:
    graph = theirs.loop_graph(theirs.Model, theirs.aping, theirs.apong, theirs.model_router(n))
    return aruns(graph, theirs.start("loop"), n)


memory = loop_dict_sync


def talk(n: int) -> Any:
    return theirs.loop_graph(theirs.Talk, theirs.speak, theirs.speak, theirs.router(n))


def grow(n: int) -> Run:
    return runs(talk(n), {"count": 0, "messages": []}, n)


def read(graph: Any, state: Any, n: int) -> dict[str, int]:
    count = changes = 0
    for step in Runtime(graph, limits=limits(n)).steps(state):
        count += 1
        changes += len(step.diff.changed)
    return {"steps": count, "changes": changes}


def stream_flat(n: int) -> Run:
    graph = converted(theirs.loop_graph(theirs.State, theirs.ping, theirs.pong, theirs.router(n)))
    return lambda: read(graph, theirs.start("loop"), n)


def stream_grow(n: int) -> Run:
    graph = converted(talk(n))
    return lambda: read(graph, {"count": 0, "messages": []}, n)


def fan_sync(n: int) -> Run:
    rounds = fan_rounds(n)
    return runs(theirs.fan_graph(n, rounds, theirs.work), {"rounds": 0, "results": []}, 3 * rounds)


def fan_async(n: int) -> Run:
    rounds = fan_rounds(n)
    return aruns(
        theirs.fan_graph(n, rounds, theirs.awork, theirs.aplan, theirs.agather),
        {"rounds": 0, "results": []},
        3 * rounds,
    )


def sleeps_async(n: int) -> Run:
    return aruns(theirs.fan_graph(n, 1, theirs.adoze, theirs.aplan, theirs.agather), {"rounds": 0, "results": []}, 3)


def sleeps_sync(n: int) -> Run:
    return runs(theirs.fan_graph(n, 1, theirs.doze), {"rounds": 0, "results": []}, 3)


def concurrent(n: int) -> Run:
    graph = converted(theirs.chain_graph({f"n{i}": theirs.pause for i in range(5)}, theirs.Count))

    async def many() -> dict[str, int]:
        done = await asyncio.gather(*[graph.arun({"count": 0}) for _ in range(n)])
        return {"runs": len(done), "count": sum(result.state["count"] for result in done)}

    return lambda: drive(many())
