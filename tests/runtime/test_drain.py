"""`Runtime.drain` and `ctx.drain`: one run ends after the current superstep, and its thread stays due (R20)."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from pydantic import BaseModel

from graphrt import START, Context, GraphBuilder, Runtime
from graphrt.events import RunHandedOver
from graphrt.reducers import append

from .support import Face


class State(BaseModel):
    log: Annotated[list[str], append] = []


def said(text: str) -> Any:
    return lambda state: {"log": [text]}


def draining(*, at: str = "b", nodes: str = "abc") -> GraphBuilder[Any, Any]:
    def node(state: State, ctx: Context) -> dict[str, Any]:
        ctx.drain("enough for now")
        return {"log": [at]}

    g = GraphBuilder(State, name="drained")
    for name in nodes:
        g.add_node(name, node if name == at else said(name))
    return g.add_sequence([START, *nodes])


def test_node_ends_its_run_after_the_superstep_and_a_retry_continues(face: Face) -> None:
    with Runtime(draining().compile(), store="memory:") as runtime:
        result = face.run(runtime, {}, thread="t")

        assert (result.status, result.state.log) == ("cancelled", ["a", "b"])
        assert (runtime.state("t").status, runtime.state("t").next) == ("running", ("c",))
        last = list(runtime.entries("t"))[-1].event
        assert isinstance(last, RunHandedOver)
        assert last.reason == "enough for now"
        assert face.retry(runtime, "t").state.log == ["a", "b", "c"]


def test_run_without_remaining_work_completes(face: Face) -> None:
    with Runtime(draining(at="c").compile(), store="memory:") as runtime:
        assert face.run(runtime, {}, thread="t").status == "completed"


def test_nested_graph_continues_after_the_superstep_that_drained(face: Face) -> None:
    g = GraphBuilder(State, name="outer").add_node("inner", draining().compile()).add_node("z", said("z"))
    g.add_sequence([START, "inner", "z"])
    with Runtime(g.compile(), store="memory:") as runtime:
        assert face.run(runtime, {}, thread="t").status == "cancelled"
        assert runtime.state("t").next == ("inner",)

        assert face.retry(runtime, "t").state.log == ["a", "b", "c", "z"]


def test_other_runs_of_the_runtime_continue() -> None:
    async def both() -> tuple[Any, Any]:
        reached, go = asyncio.Event(), asyncio.Event()

        async def waits(state: State) -> dict[str, Any]:
            reached.set()
            await go.wait()
            return {"log": ["a"]}

        g = (
            GraphBuilder(State, name="two")
            .add_node("a", waits)
            .add_node("b", said("b"))
            .add_sequence([START, "a", "b"])
        )
        with Runtime(g.compile(), store="memory:") as runtime:
            one, two = (asyncio.ensure_future(runtime.arun({}, thread=thread)) for thread in ("one", "two"))
            await reached.wait()
            asked = [runtime.drain("one"), await runtime.adrain("nobody")]
            go.set()
            return asked, [(result.status, result.state.log) for result in (await one, await two)]

    asked, results = asyncio.run(both())

    assert asked == [True, False]
    assert results == [("cancelled", ["a"]), ("completed", ["a", "b"])]
