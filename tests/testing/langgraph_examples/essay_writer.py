"""Essay writer: plan, research, write, criticise, research and write again, with two revisions at most."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel
from tests.testing.langgraph_examples.example import Example

from graphrt import END, START, Context, GraphBuilder
from graphrt.graph import CompiledGraph
from graphrt.harness import MockHarness
from graphrt.reducers import append, union


class State(BaseModel):
    task: str
    plan: str = ""
    sources: Annotated[list[str], union] = []
    drafts: Annotated[list[str], append] = []
    critique: str = ""
    revisions: int = 2


async def plan(state: State, ctx: Context) -> dict[str, Any]:
    return {"plan": (await ctx.harness.run(f"Plan: {state.task}")).text}


async def research(state: State, ctx: Context) -> dict[str, Any]:
    return {"sources": [(await ctx.harness.run(f"Research: {state.critique or state.plan}")).text]}


async def write(state: State, ctx: Context) -> dict[str, Any]:
    return {"drafts": [(await ctx.harness.run(f"Write: {state.plan} {state.sources} {state.critique}")).text]}


async def criticise(state: State, ctx: Context) -> dict[str, Any]:
    return {"critique": (await ctx.harness.run(f"Criticise: {state.drafts[-1]}")).text}


def enough(state: State) -> Literal["done", "criticise"]:
    return "done" if len(state.drafts) > state.revisions else "criticise"


def graph() -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="essay-writer")
    for node in (plan, research, write, criticise):
        g.add_node(node.__name__, node)
    g.add_sequence([START, "plan", "research", "write"])
    g.add_conditional_edges("write", enough, {"done": END, "criticise": "criticise"})
    g.add_edge("criticise", "research")
    return g.compile()


def options() -> dict[str, Any]:
    kinds = ("Plan", "Research", "Write", "Criticise")
    rules = {f"{kind}: ": (lambda request, kind=kind: f"{kind} {len(request.text)}") for kind in kinds}
    return {"harness": MockHarness(rules)}


EXAMPLE = Example(
    name="essay-writer",
    graph=graph,
    input={"task": "tea"},
    options=options,
    alternatives={
        "plan": [{"plan": "long"}, {"plan": "short"}],
        "research": [{"sources": ["a book"]}, {}],
        "write": [{"drafts": ["An essay."]}],
        "criticise": [{"critique": "good"}, {"critique": "more depth"}],
    },
)
