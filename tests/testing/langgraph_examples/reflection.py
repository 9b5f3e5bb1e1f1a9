"""Reflection: a writer and a critic alternate until the critic is satisfied or the third draft exists."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel
from tests.testing.langgraph_examples.example import Example

from graphrt import END, START, Context, GraphBuilder
from graphrt.graph import CompiledGraph
from graphrt.harness import Agent, FunctionModel
from graphrt.reducers import append

writer = Agent("test/model", name="writer")
critic = Agent("test/model", name="critic")
MOST = 3


class State(BaseModel):
    task: str
    drafts: Annotated[list[str], append] = []
    critique: str = ""


async def write(state: State, ctx: Context) -> dict[str, Any]:
    return {"drafts": [(await ctx.bind(writer).run(f"{state.task} {state.critique}")).text]}


async def criticise(state: State, ctx: Context) -> dict[str, Any]:
    return {"critique": (await ctx.bind(critic).run(state.drafts[-1])).text}


def enough(state: State) -> Literal["criticise", "done"]:
    return "done" if len(state.drafts) >= MOST else "criticise"


def content(state: State) -> Literal["again", "done"]:
    return "done" if state.critique == "good" else "again"


def graph() -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="reflection")
    g.add_node("write", write)
    g.add_node("criticise", criticise)
    g.add_edge(START, "write")
    g.add_conditional_edges("write", enough, {"criticise": "criticise", "done": END})
    g.add_conditional_edges("criticise", content, {"again": "write", "done": END})
    return g.compile()


def options() -> dict[str, Any]:
    return {
        "models": {
            "writer": FunctionModel(lambda request: f"About {request.text}."),
            "critic": FunctionModel(lambda request: "good" if "shorter" in request.text else "shorter"),
        }
    }


EXAMPLE = Example(
    name="reflection",
    graph=graph,
    input={"task": "tea"},
    options=options,
    replies={"writer": ["A draft."], "critic": ["good", "shorter"]},
)
