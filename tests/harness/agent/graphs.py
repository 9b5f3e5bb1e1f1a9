"""Graphs that host agents, sync and async, on any store: shared parts of the tests of hosted agents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import BaseModel

from graphrt import Context, GraphBuilder, Runtime
from graphrt.reducers import append


class State(BaseModel):
    said: Annotated[list[Any], append] = []


class Way:
    """How a graph is run: sync or async nodes and verbs, and its store."""

    def __init__(self, *, nodes: str, verbs: str, store: str) -> None:
        self.nodes = nodes
        self.verbs = verbs
        self.store = store

    def node(self, body: Callable[[State, Context], Any]) -> Any:
        """A node of an async *body*: unchanged, or called from a sync one."""
        if self.nodes == "async":

            async def anode(state: State, ctx: Context) -> Any:
                return await body(state, ctx)

            return anode

        def node(state: State, ctx: Context) -> Any:
            return ctx.call(body, state, ctx)

        return node

    def graph(self, *bodies: Callable[[State, Context], Any], **policy: Any) -> Any:
        """A graph whose nodes run one after another, each with *policy*."""
        builder = GraphBuilder(State, name="hosts")
        names = [f"n{number}" for number in range(len(bodies))]
        for name, body in zip(names, bodies, strict=True):
            builder.add_node(name, self.node(body), **policy)
        builder.add_sequence(names) if len(names) > 1 else builder.set_finish(names[0])
        builder.set_entry(names[0])
        if len(names) > 1:
            builder.set_finish(names[-1])
        return builder.compile()

    def runtime(self, graph: Any, **options: Any) -> Runtime[Any]:
        return Runtime(graph, **{"store": self.store, **options})

    def __call__(self, runtime: Runtime[Any], verb: str, *given: Any, **options: Any) -> Any:
        if self.verbs == "sync":
            return getattr(runtime, verb)(*given, **options)

        async def go() -> Any:
            return await getattr(runtime, f"a{verb}")(*given, **options)

        return asyncio.run(go())

    def __repr__(self) -> str:
        return f"{self.nodes}-{self.verbs}"


def effects(runtime: Runtime[Any], thread: str = "t") -> list[str]:
    """Keys of the effects in the journal of a thread."""
    from graphrt.events import EffectRecorded

    return [one.event.key for one in runtime.entries(thread) if isinstance(one.event, EffectRecorded)]


def replies(runtime: Runtime[Any], thread: str = "t") -> list[Any]:
    """Replies of models in the journal of a thread, as events."""
    from graphrt.events import ModelReplied

    return [one.event for one in runtime.entries(thread) if isinstance(one.event, ModelReplied)]


WAYS = [("sync", "sync"), ("async", "sync"), ("sync", "async"), ("async", "async")]
every_way = pytest.mark.parametrize("way", WAYS, indirect=True, ids="-".join)


def ask(prompt: str = "go", **options: Any) -> Any:
    """The body of a node that asks the run's harness."""

    async def body(state: Any, ctx: Any) -> Any:
        return {"said": [(await ctx.harness.run(prompt, **options)).text]}

    return body
