"""pydantic-graph: `GraphBuilder` with steps that change one shared state object, `map` and `join` for fan-out.

Async only, so the sync workloads are absent. Its steps report no diffs, so the step streams only count steps.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel
from pydantic_graph import EndMarker, GraphBuilder, StepContext, TypeExpression, reduce_list_append

from benchmarks.catalogue import fan_rounds
from benchmarks.work.common import SLEEP_S, Run, drive, message

More = Literal["more", "done"]


@dataclass
class State:
    goal: str
    count: int = 0
    last: str = ""


class Model(BaseModel):
    goal: str
    count: int = 0
    last: str = ""


@dataclass
class Talk:
    count: int = 0
    messages: list[dict[str, str]] = field(default_factory=list)


@dataclass
class Fan:
    rounds: int = 0
    results: list[int] = field(default_factory=list)


@dataclass
class Count:
    count: int = 0


# chain


def chain_step(g: GraphBuilder[Any, Any, Any, Any], name: str) -> Any:
    async def step(ctx: StepContext[Any, None, None]) -> None:
        ctx.state.count += 1
        ctx.state.last = name

    return g.step(step, node_id=name)


def chain_graph(names: list[str], state: type = State, make: Any = chain_step) -> Any:
    g = GraphBuilder(state_type=state)
    steps = [make(g, name) for name in names]
    for source, target in zip([g.start_node, *steps], [*steps, g.end_node], strict=True):
        g.add_edge(source, target)
    return g.build()


def chain_async(n: int) -> Run:
    graph = chain_graph([f"n{i}" for i in range(n)])

    def once() -> State:
        state = State(goal="chain")
        drive(graph.run(state=state))
        return state

    return once


def build(n: int) -> Run:
    names = [f"n{i}" for i in range(n)]
    return lambda: {"nodes": len(chain_graph(names).nodes) - 2}


# loop


def loop_graph(state: type, n: int, body: Any) -> Any:
    g = GraphBuilder(state_type=state)

    @g.step
    async def ping(ctx: StepContext[Any, None, Any]) -> None:
        body(ctx.state, "ping")

    @g.step
    async def pong(ctx: StepContext[Any, None, Any]) -> More:
        body(ctx.state, "pong")
        return "more" if ctx.state.count < n else "done"

    g.add(
        g.edge_from(g.start_node).to(ping),
        g.edge_from(ping).to(pong),
        g.edge_from(pong).to(
            g.decision()
            .branch(g.match(TypeExpression[Literal["more"]]).to(ping))
            .branch(g.match(TypeExpression[Literal["done"]]).to(g.end_node))
        ),
    )
    return g.build()


def note(state: Any, name: str) -> None:
    state.count += 1
    state.last = name


def speak(state: Talk, name: str) -> None:
    state.messages.append(message(state.count))
    state.count += 1


def loop(n: int, kind: Any, body: Any, **fields: Any) -> Run:
    graph = loop_graph(kind, n, body)

    def once() -> Any:
        state = kind(**fields)
        drive(graph.run(state=state))
        return state

    return once


def loop_dict_async(n: int) -> Run:
    return loop(n, State, note, goal="loop")


def loop_model_async(n: int) -> Run:
    return loop(n, Model, note, goal="loop")


memory = loop_dict_async


def grow(n: int) -> Run:
    return loop(n, Talk, speak)


# streams of steps


async def read(graph: Any, state: Any) -> dict[str, int | None]:
    count = 0
    async with graph.iter(state=state) as run:
        async for event in run:
            if not isinstance(event, EndMarker):
                count += sum(task.node_id in ("ping", "pong") for task in event)
    return {"steps": count, "changes": None}


def stream_flat(n: int) -> Run:
    graph = loop_graph(State, n, note)
    return lambda: drive(read(graph, State(goal="loop")))


def stream_grow(n: int) -> Run:
    graph = loop_graph(Talk, n, speak)
    return lambda: drive(read(graph, Talk()))


# fan-out


def fan(n: int, rounds: int, work: Any) -> Run:
    g = GraphBuilder(state_type=Fan)

    @g.step
    async def plan(ctx: StepContext[Fan, None, Any]) -> list[int]:
        return list(range(n))

    @g.step
    async def gather(ctx: StepContext[Fan, None, list[int]]) -> More:
        ctx.state.results.extend(ctx.inputs)
        ctx.state.rounds += 1
        return "more" if ctx.state.rounds < rounds else "done"

    task, collect = g.step(work, node_id="work"), g.join(reduce_list_append, initial_factory=list[int])
    g.add(
        g.edge_from(g.start_node).to(plan),
        g.edge_from(plan).map().to(task),
        g.edge_from(task).to(collect),
        g.edge_from(collect).to(gather),
        g.edge_from(gather).to(
            g.decision()
            .branch(g.match(TypeExpression[Literal["more"]]).to(plan))
            .branch(g.match(TypeExpression[Literal["done"]]).to(g.end_node))
        ),
    )
    graph = g.build()

    def once() -> Fan:
        state = Fan()
        drive(graph.run(state=state))
        return state

    return once


async def square(ctx: StepContext[Fan, None, int]) -> int:
    return ctx.inputs * ctx.inputs


async def doze(ctx: StepContext[Fan, None, int]) -> int:
    await asyncio.sleep(SLEEP_S)
    return ctx.inputs


def fan_async(n: int) -> Run:
    return fan(n, fan_rounds(n), square)


def sleeps_async(n: int) -> Run:
    return fan(n, 1, doze)


# many runs at once


def pause_step(g: GraphBuilder[Any, Any, Any, Any], name: str) -> Any:
    async def step(ctx: StepContext[Any, None, None]) -> None:
        await asyncio.sleep(0)
        ctx.state.count += 1

    return g.step(step, node_id=name)


def concurrent(n: int) -> Run:
    graph = chain_graph([f"n{i}" for i in range(5)], Count, pause_step)

    async def many() -> dict[str, int]:
        states = [Count() for _ in range(n)]
        await asyncio.gather(*[graph.run(state=state) for state in states])
        return {"runs": len(states), "count": sum(state.count for state in states)}

    return lambda: drive(many())
