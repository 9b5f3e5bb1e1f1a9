"""The yardstick: what a developer would write without a library, with the same nodes.

A loop over a table of nodes, a table of edges (a name, or a function of the state) and a table of reducers; updates
are merged in place. It is generic in nodes and fields, and neither clever nor naive: no validation, limits, snapshots
or checks. It imports only pydantic, for the state of two workloads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from operator import add
from time import sleep
from typing import Any

from pydantic import BaseModel

from benchmarks.catalogue import fan_rounds
from benchmarks.work.common import SLEEP_S, Run, drive, message

State = dict[str, Any]
Node = Callable[[Any], Any]
Table = dict[str, Any]
END = None


def append(current: list[Any], incoming: list[Any]) -> list[Any]:
    current.extend(incoming)
    return current


REDUCERS: dict[str, Callable[[Any, Any], Any]] = {"count": add, "rounds": add, "messages": append, "results": append}


def merge(state: State, update: State, reducers: Table) -> None:
    for key, value in update.items():
        reducer = reducers.get(key)
        state[key] = value if reducer is None else reducer(state[key], value)


def merge_model(state: BaseModel, update: State, reducers: Table) -> None:
    for key, value in update.items():
        reducer = reducers.get(key)
        setattr(state, key, value if reducer is None else reducer(getattr(state, key), value))


def run(state: Any, nodes: Table, edges: Table, name: str | None, merge: Callable[..., None] = merge) -> Any:
    while name is not None:
        merge(state, nodes[name](state), REDUCERS)
        edge = edges[name]
        name = edge(state) if callable(edge) else edge
    return state


async def arun(state: Any, nodes: Table, edges: Table, name: str | None, merge: Callable[..., None] = merge) -> Any:
    while name is not None:
        merge(state, await nodes[name](state), REDUCERS)
        edge = edges[name]
        name = edge(state) if callable(edge) else edge
    return state


def steps(state: Any, nodes: Table, edges: Table, name: str | None) -> Iterator[tuple[str, State]]:
    """The same loop as a generator of (node, changes)."""
    while name is not None:
        update = nodes[name](state)
        merge(state, update, REDUCERS)
        yield name, update
        edge = edges[name]
        name = edge(state) if callable(edge) else edge


# chain


def chain_node(name: str) -> Node:
    def node(state: State) -> State:
        return {"count": 1, "last": name}

    return node


def chain_anode(name: str) -> Node:
    async def node(state: State) -> State:
        return {"count": 1, "last": name}

    return node


def chain_tables(n: int, make: Callable[[str], Node]) -> tuple[Table, Table]:
    names = [f"n{i}" for i in range(n)]
    return {name: make(name) for name in names}, dict(zip(names, [*names[1:], END], strict=True))


def chain_sync(n: int) -> Run:
    nodes, edges = chain_tables(n, chain_node)
    return lambda: run({"goal": "chain", "count": 0, "last": ""}, nodes, edges, "n0")


def chain_async(n: int) -> Run:
    nodes, edges = chain_tables(n, chain_anode)
    return lambda: drive(arun({"goal": "chain", "count": 0, "last": ""}, nodes, edges, "n0"))


def on_thread(node: Node) -> Node:
    return lambda state: asyncio.to_thread(node, state)


def chain_threads(n: int) -> Run:
    nodes, edges = chain_tables(n, lambda name: on_thread(chain_node(name)))
    return lambda: drive(arun({"goal": "chain", "count": 0, "last": ""}, nodes, edges, "n0"))


# loop


class Model(BaseModel):
    goal: str
    count: int = 0
    last: str = ""


def ping(state: Any) -> State:
    return {"count": 1, "last": "ping"}


def pong(state: Any) -> State:
    return {"count": 1, "last": "pong"}


async def aping(state: Any) -> State:
    return {"count": 1, "last": "ping"}


async def apong(state: Any) -> State:
    return {"count": 1, "last": "pong"}


SYNC, ASYNC = {"ping": ping, "pong": pong}, {"ping": aping, "pong": apong}


def loop_edges(n: int) -> Table:
    return {"ping": "pong", "pong": lambda state: "ping" if state["count"] < n else END}


def model_edges(n: int) -> Table:
    return {"ping": "pong", "pong": lambda state: "ping" if state.count < n else END}


def loop_dict_sync(n: int) -> Run:
    edges = loop_edges(n)
    return lambda: run({"goal": "loop", "count": 0, "last": ""}, SYNC, edges, "ping")


def loop_dict_async(n: int) -> Run:
    edges = loop_edges(n)
    return lambda: drive(arun({"goal": "loop", "count": 0, "last": ""}, ASYNC, edges, "ping"))


def loop_model_sync(n: int) -> Run:
    edges = model_edges(n)
    return lambda: run(Model(goal="loop"), SYNC, edges, "ping", merge_model)


def loop_model_async(n: int) -> Run:
    edges = model_edges(n)
    return lambda: drive(arun(Model(goal="loop"), ASYNC, edges, "ping", merge_model))


memory = loop_dict_sync


# growing list


def speak(state: State) -> State:
    return {"messages": [message(state["count"])], "count": 1}


TALK = {"ask": speak, "reply": speak}


def talk_edges(n: int) -> Table:
    return {"ask": "reply", "reply": lambda state: "ask" if state["count"] < n else END}


def grow(n: int) -> Run:
    edges = talk_edges(n)
    return lambda: run({"count": 0, "messages": []}, TALK, edges, "ask")


# streams of steps


def read(stream: Iterator[tuple[str, State]]) -> dict[str, int]:
    count = changes = 0
    for _, diff in stream:
        count += 1
        changes += len(diff)
    return {"steps": count, "changes": changes}


def stream_flat(n: int) -> Run:
    edges = loop_edges(n)
    return lambda: read(steps({"goal": "loop", "count": 0, "last": ""}, SYNC, edges, "ping"))


def stream_grow(n: int) -> Run:
    edges = talk_edges(n)
    return lambda: read(steps({"count": 0, "messages": []}, TALK, edges, "ask"))


# fan-out


def work(state: State, item: int) -> State:
    return {"results": [item * item]}


async def awork(state: State, item: int) -> State:
    return {"results": [item * item]}


def doze(state: State, item: int) -> State:
    sleep(SLEEP_S)
    return {"results": [item]}


async def adoze(state: State, item: int) -> State:
    await asyncio.sleep(SLEEP_S)
    return {"results": [item]}


def plan(state: State) -> State:
    return {}


def gather(state: State) -> State:
    return {"rounds": 1}


def fan(n: int, rounds: int, spread: Callable[[State], list[State]]) -> State:
    state: State = {"rounds": 0, "results": []}
    while state["rounds"] < rounds:
        merge(state, plan(state), REDUCERS)
        for update in spread(state):
            merge(state, update, REDUCERS)
        merge(state, gather(state), REDUCERS)
    return state


async def afan(n: int, rounds: int, node: Callable[[State, int], Any]) -> State:
    state: State = {"rounds": 0, "results": []}
    while state["rounds"] < rounds:
        merge(state, plan(state), REDUCERS)
        for update in await asyncio.gather(*[node(state, item) for item in range(n)]):
            merge(state, update, REDUCERS)
        merge(state, gather(state), REDUCERS)
    return state


def fan_sync(n: int) -> Run:
    return lambda: fan(n, fan_rounds(n), lambda state: [work(state, item) for item in range(n)])


def fan_async(n: int) -> Run:
    return lambda: drive(afan(n, fan_rounds(n), awork))


def sleeps_async(n: int) -> Run:
    return lambda: drive(afan(n, 1, adoze))


def sleeps_sync(n: int) -> Run:
    def once() -> State:
        with ThreadPoolExecutor(n) as pool:
            return fan(n, 1, lambda state: list(pool.map(lambda item: doze(state, item), range(n))))

    return once


# build


def build(n: int) -> Run:
    names, nodes = [f"n{i}" for i in range(n)], [chain_node(f"n{i}") for i in range(n)]

    def once() -> dict[str, int]:
        table = dict(zip(names, nodes, strict=True))
        edges: Table = dict(zip(names, [*names[1:], END], strict=True))
        for source, target in edges.items():
            if target is not END and target not in table:
                raise KeyError(f"{source} -> {target}")
        return {"nodes": len(table)}

    return once


# many runs at once


async def pause(state: State) -> State:
    await asyncio.sleep(0)
    return {"count": 1}


def concurrent(n: int) -> Run:
    names = [f"n{i}" for i in range(5)]
    nodes, edges = dict.fromkeys(names, pause), dict(zip(names, [*names[1:], END], strict=True))

    async def many() -> dict[str, int]:
        done = await asyncio.gather(*[arun({"count": 0}, nodes, edges, "n0") for _ in range(n)])
        return {"runs": len(done), "count": sum(state["count"] for state in done)}

    return lambda: drive(many())
