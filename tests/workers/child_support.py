"""The graphs of the tests of child threads: children that compute, fail, ask and wait, and their parents. No tests."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.graph import CompiledGraph
from graphrt.reducers import append

from .mail_support import Node


class Work(BaseModel):
    n: int = 0
    out: int = 0


class Plan(BaseModel):
    most: int = 1
    child: str = ""
    got: Annotated[list[Any], append] = []


def work_graph(node: Node, name: str = "child") -> CompiledGraph[Work, Any]:
    g = GraphBuilder(Work, name=name)
    g.add_sequence([START, g.node(node), END])
    return g.compile()


def plan_graph(*nodes: Node, name: str = "parent") -> CompiledGraph[Plan, Any]:
    g = GraphBuilder(Plan, name=name)
    g.add_sequence([START, *(g.node(node) for node in nodes), END])
    return g.compile()


def double(state: Work) -> dict[str, Any]:
    return {"out": state.n * 2}


def ask(state: Work, ctx: Context) -> dict[str, Any]:
    return {"out": ctx.interrupt("how much?")}


class Broken:
    """A child that fails until it is repaired."""

    def __init__(self) -> None:
        self.mended = False

    def work(self, state: Work) -> dict[str, Any]:
        if not self.mended:
            raise ValueError("broken")
        return {"out": state.n + 1}


def child_of(child: CompiledGraph[Work, Any], *, detached: bool = False) -> CompiledGraph[Plan, Any]:
    """Start as many children as the input says, then wait for each of them."""

    def go(state: Plan, ctx: Context) -> dict[str, Any]:
        children = [ctx.start(child, {"n": n}, detached=detached) for n in range(state.most)]
        return {"got": [ctx.wait(one).out for one in children]}

    return plan_graph(go)


def started(runtime: Runtime[Any], thread: str = "p") -> list[str]:
    """The threads that *thread* has started, and their own children, in order of creation."""
    return [info.thread for info in runtime.threads() if info.thread.startswith(f"{thread}.")]
