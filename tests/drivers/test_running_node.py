"""`_ambient` identifies the running node, however a driver calls it, and is empty outside nodes."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import pytest
import typing_extensions as te

from graphrt import END, START, Context, GraphBuilder
from graphrt._ambient import running, running_context
from graphrt.reducers import append


class State(te.TypedDict, total=False):
    seen: Annotated[list[tuple[str | None, str | None]], append]


def here() -> tuple[str | None, str | None]:
    """The running node by name, and the node of the running Context."""
    found, context = running(), running_context()
    return (None if found is None else found[0].node.name, None if context is None else context.node)


def plain(state: State) -> Any:
    return {"seen": [here()]}


async def plain_async(state: State) -> Any:
    await asyncio.sleep(0)
    return {"seen": [await asyncio.create_task(later())]}


async def later() -> tuple[str | None, str | None]:
    return here()


def with_context(state: State, ctx: Context) -> Any:
    return {"seen": [here(), ctx.call(later)]}


def graph_of(*nodes: Any, inline: bool = False, parallel: bool = False) -> Any:
    builder = GraphBuilder(State, name="g", inline=inline)
    for node in nodes:
        builder.add_node(node.__name__, node)
    if parallel:
        for node in nodes:
            builder.add_edge(START, node.__name__).add_edge(node.__name__, END)
        return builder.compile()
    return builder.add_sequence([START, *(node.__name__ for node in nodes), END]).compile()


EXPECTED = [("plain", None), ("plain_async", None), ("with_context", "with_context"), ("with_context", "with_context")]


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("inline", [False, True])
def test_running_node_is_known_in_every_kind_of_node(inline: bool, parallel: bool) -> None:
    graph = graph_of(plain, plain_async, with_context, inline=inline, parallel=parallel)
    stepped = [step.after["seen"] for step in graph.steps({})]

    assert graph.run({}).state["seen"] == EXPECTED
    assert asyncio.run(graph.arun({})).state["seen"] == EXPECTED
    assert stepped[-1] == EXPECTED
    assert here() == (None, None)


def test_no_node_is_running_in_a_router_and_after_a_failure() -> None:
    asked = []

    def route(state: State) -> str:
        asked.append(here())
        return "end"

    def fails(state: State) -> Any:
        raise ValueError

    builder = GraphBuilder(State, name="g").add_node("plain", plain).add_edge(START, "plain")
    builder.add_conditional_edges("plain", route, {"end": END}).compile().run({})
    with pytest.raises(Exception, match="fails"):
        graph_of(fails).run({})

    assert asked == [(None, None)]
    assert here() == (None, None)


def test_node_of_an_inner_run_hides_that_of_the_outer_one() -> None:
    inner = graph_of(plain)

    def outer(state: State, ctx: Context) -> Any:
        return {"seen": [*inner.run({}).state["seen"], here()]}

    assert graph_of(outer).run({}).state["seen"] == [("plain", None), ("outer", "outer")]


def test_context_is_gone_for_a_background_task_of_an_ended_node() -> None:
    tasks = []

    async def leaves(state: State, ctx: Context) -> Any:
        async def late() -> tuple[str | None, str | None]:
            await asyncio.sleep(0.01)
            return here()

        tasks.append(asyncio.create_task(late()))

    async def main() -> Any:
        await graph_of(leaves).arun({})
        return await tasks[0]

    assert asyncio.run(main()) == (None, None)
