"""Map-reduce: a model names subjects, one task for each writes a joke, and the best one is chosen."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel
from tests.testing.langgraph_examples.example import Example

from graphrt import END, START, Context, GraphBuilder, Send
from graphrt.graph import CompiledGraph
from graphrt.harness import Agent, FunctionModel
from graphrt.reducers import append

lister = Agent("test/model", name="lister", output=list[str])
joker = Agent("test/model", name="joker")


class State(BaseModel):
    topic: str
    subjects: list[str] = []
    jokes: Annotated[list[str], append] = []
    best: str = ""


async def list_subjects(state: State, ctx: Context) -> dict[str, Any]:
    return {"subjects": (await ctx.bind(lister).run(state.topic)).output}


async def joke(_state: State, ctx: Context) -> dict[str, Any]:
    return {"jokes": [(await ctx.bind(joker).run(ctx.arg)).text]}


def choose(state: State) -> dict[str, Any]:
    return {"best": max(state.jokes, key=len, default="no joke")}


def each(state: State) -> list[Send]:
    return [Send("joke", subject) for subject in state.subjects]


def graph() -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="jokes")
    g.add_node("list_subjects", list_subjects)
    g.add_node("joke", joke)
    g.add_node("choose", choose)
    g.add_edge(START, "list_subjects")
    g.add_conditional_edges("list_subjects", each, ["joke"])
    g.add_join(["joke"], "choose", starved="run")  # no subject means no joke, and still an end
    g.add_edge("choose", END)
    return g.compile()


def options() -> dict[str, Any]:
    return {
        "models": {
            "lister": FunctionModel(lambda request: [f"{request.text} {n}" for n in range(2)]),
            "joker": FunctionModel(lambda request: f"A {request.text} walks into a bar."),
        }
    }


EXAMPLE = Example(
    name="map-reduce",
    graph=graph,
    input={"topic": "animals"},
    options=options,
    replies={"lister": [[], ["cats"], ["cats", "dogs"]], "joker": ["Ha.", "Ha, ha."]},
)
