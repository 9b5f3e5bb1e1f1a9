"""Burr: `ApplicationBuilder` with function actions on its immutable `State`, `MapStates` for fan-out, no tracker.

An `Application` holds the state of its run, so every run creates one from a prebuilt graph.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator
from itertools import pairwise
from time import sleep
from typing import Any

from burr.core import ApplicationBuilder, ApplicationContext, Condition, GraphBuilder, State, action, default
from burr.core.parallelism import MapStates
from burr.integrations.pydantic import PydanticTypingSystem
from pydantic import BaseModel

from benchmarks.catalogue import fan_rounds
from benchmarks.work.common import SLEEP_S, Run, drive, message

logging.getLogger("burr").setLevel(logging.ERROR)


class Model(BaseModel):
    goal: str
    count: int = 0
    last: str = ""


def application(graph: Any, entry: str, **fields: Any) -> Any:
    return ApplicationBuilder().with_graph(graph).with_entrypoint(entry).with_state(State(fields)).build()


def finish(app: Any, last: str) -> dict[str, Any]:
    return public(app.run(halt_after=[last])[2])


async def afinish(app: Any, last: str) -> dict[str, Any]:
    return public((await app.arun(halt_after=[last]))[2])


def public(state: Any) -> dict[str, Any]:
    return {key: value for key, value in state.get_all().items() if not key.startswith("__")}


# chain


def chain_action(name: str) -> Any:
    @action(reads=["count"], writes=["count", "last"])
    def node(state: State) -> State:
        return state.update(count=state["count"] + 1, last=name)

    return node


def chain_aaction(name: str) -> Any:
    @action(reads=["count"], writes=["count", "last"])
    async def node(state: State) -> State:
        return state.update(count=state["count"] + 1, last=name)

    return node


def chain_graph(nodes: dict[str, Any]) -> Any:
    names = list(nodes)
    builder = GraphBuilder().with_actions(**nodes)
    return builder.with_transitions(*pairwise(names)).build()


def chain_sync(n: int) -> Run:
    graph = chain_graph({f"n{i}": chain_action(f"n{i}") for i in range(n)})
    return lambda: finish(application(graph, "n0", goal="chain", count=0, last=""), f"n{n - 1}")


def chain_async(n: int) -> Run:
    graph = chain_graph({f"n{i}": chain_aaction(f"n{i}") for i in range(n)})
    return lambda: drive(afinish(application(graph, "n0", goal="chain", count=0, last=""), f"n{n - 1}"))


def build(n: int) -> Run:
    nodes = {f"n{i}": chain_action(f"n{i}") for i in range(n)}
    return lambda: {"nodes": len(application(chain_graph(nodes), "n0").graph.actions)}


# loop


@action(reads=["count"], writes=["count", "last"])
def ping(state: State) -> State:
    return state.update(count=state["count"] + 1, last="ping")


@action(reads=["count"], writes=["count", "last"])
def pong(state: State) -> State:
    return state.update(count=state["count"] + 1, last="pong")


@action(reads=["count"], writes=["count", "last"])
async def aping(state: State) -> State:
    return state.update(count=state["count"] + 1, last="ping")


@action(reads=["count"], writes=["count", "last"])
async def apong(state: State) -> State:
    return state.update(count=state["count"] + 1, last="pong")


@action.pydantic(reads=["count", "last"], writes=["count", "last"])
def model_ping(state: Model) -> Model:
    state.count, state.last = state.count + 1, "ping"
    return state


@action.pydantic(reads=["count", "last"], writes=["count", "last"])
def model_pong(state: Model) -> Model:
    state.count, state.last = state.count + 1, "pong"
    return state


@action.pydantic(reads=["count", "last"], writes=["count", "last"])
async def model_aping(state: Model) -> Model:
    state.count, state.last = state.count + 1, "ping"
    return state


@action.pydantic(reads=["count", "last"], writes=["count", "last"])
async def model_apong(state: Model) -> Model:
    state.count, state.last = state.count + 1, "pong"
    return state


@action(reads=[], writes=[])
def done(state: State) -> State:
    return state


def loop_graph(n: int, first: Any, second: Any) -> Any:
    """Two actions in a loop. Burr halts after an action, so `done` is an extra step per run."""
    more = Condition.lmda(lambda state: state["count"] < n, ["count"])
    builder = GraphBuilder().with_actions(first=first, second=second, done=done)
    return builder.with_transitions(("first", "second"), ("second", "first", more), ("second", "done", default)).build()


def loop_dict_sync(n: int) -> Run:
    graph = loop_graph(n, ping, pong)
    return lambda: finish(application(graph, "first", goal="loop", count=0, last=""), "done")


def loop_dict_async(n: int) -> Run:
    graph = loop_graph(n, aping, apong)
    return lambda: drive(afinish(application(graph, "first", goal="loop", count=0, last=""), "done"))


def model_application(graph: Any) -> Any:
    builder = ApplicationBuilder().with_graph(graph).with_entrypoint("first")
    return builder.with_typing(PydanticTypingSystem(Model)).with_state(Model(goal="loop")).build()


def loop_model_sync(n: int) -> Run:
    graph = loop_graph(n, model_ping, model_pong)
    return lambda: finish(model_application(graph), "done")


def loop_model_async(n: int) -> Run:
    graph = loop_graph(n, model_aping, model_apong)
    return lambda: drive(afinish(model_application(graph), "done"))


memory = loop_dict_sync


# growing list, streams of steps


@action(reads=["count", "messages"], writes=["count", "messages"])
def speak(state: State) -> State:
    return state.append(messages=message(state["count"])).update(count=state["count"] + 1)


def grow(n: int) -> Run:
    graph = loop_graph(n, speak, speak)
    return lambda: finish(application(graph, "first", count=0, messages=[]), "done")


def read(app: Any, before: dict[str, Any]) -> dict[str, int]:
    """Burr yields states instead of diffs, so they are compared as a user would compare them."""
    count = changes = 0
    for node, _, state in app.iterate(halt_after=["done"]):
        after = public(state)
        if node.name != "done":
            count += 1
            changes += len({key: value for key, value in after.items() if before.get(key) != value})
        before = after
    return {"steps": count, "changes": changes}


def stream_flat(n: int) -> Run:
    graph, state = loop_graph(n, ping, pong), {"goal": "loop", "count": 0, "last": ""}
    return lambda: read(application(graph, "first", **state), state)


def stream_grow(n: int) -> Run:
    graph = loop_graph(n, speak, speak)
    return lambda: read(application(graph, "first", count=0, messages=[]), {"count": 0, "messages": []})


# fan-out


@action(reads=["item"], writes=["result"])
def work(state: State) -> State:
    return state.update(result=state["item"] * state["item"])


@action(reads=["item"], writes=["result"])
async def awork(state: State) -> State:
    return state.update(result=state["item"] * state["item"])


@action(reads=["item"], writes=["result"])
def doze(state: State) -> State:
    sleep(SLEEP_S)
    return state.update(result=state["item"])


@action(reads=["item"], writes=["result"])
async def adoze(state: State) -> State:
    await asyncio.sleep(SLEEP_S)
    return state.update(result=state["item"])


class Spread(MapStates):
    """One round: `work` on every item, then the results are collected."""

    def __init__(self, n: int, node: Any) -> None:
        super().__init__()
        self.n, self.node = n, node

    def action(self, state: State, inputs: dict[str, Any]) -> Any:
        return self.node.with_name("work") if hasattr(self.node, "with_name") else self.node

    def states(self, state: State, context: ApplicationContext, inputs: dict[str, Any]) -> Any:
        for item in range(self.n):
            yield State({"item": item})

    def reduce(self, state: State, states: Generator[State, None, None]) -> Any:
        return state.extend(results=[each["result"] for each in states]).update(rounds=state["rounds"] + 1)

    @property
    def reads(self) -> list[str]:
        return ["results", "rounds"]

    @property
    def writes(self) -> list[str]:
        return ["results", "rounds"]


class AsyncSpread(Spread):
    async def states(self, state: State, context: ApplicationContext, inputs: dict[str, Any]) -> Any:
        for item in range(self.n):
            yield State({"item": item})

    async def reduce(self, state: State, states: AsyncGenerator[State, None]) -> Any:
        results = [each["result"] async for each in states]
        return state.extend(results=results).update(rounds=state["rounds"] + 1)

    def is_async(self) -> bool:
        return True


def fan_graph(rounds: int, spread: Spread) -> Any:
    more = Condition.lmda(lambda state: state["rounds"] < rounds, ["rounds"])
    builder = GraphBuilder().with_actions(spread=spread, done=done)
    return builder.with_transitions(("spread", "spread", more), ("spread", "done", default)).build()


def fan_sync(n: int) -> Run:
    graph = fan_graph(fan_rounds(n), Spread(n, work))
    return lambda: finish(application(graph, "spread", rounds=0, results=[]), "done")


def fan_async(n: int) -> Run:
    graph = fan_graph(fan_rounds(n), AsyncSpread(n, awork))
    return lambda: drive(afinish(application(graph, "spread", rounds=0, results=[]), "done"))


def sleeps_async(n: int) -> Run:
    graph = fan_graph(1, AsyncSpread(n, adoze))
    return lambda: drive(afinish(application(graph, "spread", rounds=0, results=[]), "done"))


def sleeps_sync(n: int) -> Run:
    graph = fan_graph(1, Spread(n, doze))
    return lambda: finish(application(graph, "spread", rounds=0, results=[]), "done")


# many runs at once


@action(reads=["count"], writes=["count"])
async def pause(state: State) -> State:
    await asyncio.sleep(0)
    return state.update(count=state["count"] + 1)


def concurrent(n: int) -> Run:
    graph = chain_graph({f"n{i}": pause for i in range(5)})

    async def many() -> dict[str, int]:
        done = await asyncio.gather(*[afinish(application(graph, "n0", count=0), "n4") for _ in range(n)])
        return {"runs": len(done), "count": sum(state["count"] for state in done)}

    return lambda: drive(many())
