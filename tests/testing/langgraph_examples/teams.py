"""Hierarchical teams: one nested graph researches, another writes, and their parent decides which is next."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel
from tests.testing.langgraph_examples.example import Example

from graphrt import END, START, Context, GraphBuilder
from graphrt.graph import CompiledGraph
from graphrt.harness import Agent, FunctionModel
from graphrt.reducers import append

lead = Agent("test/model", name="lead", output=bool)


class State(BaseModel):
    task: str
    facts: Annotated[list[str], append] = []
    report: str = ""


def search(state: State) -> dict[str, Any]:
    return {"facts": [f"search on {state.task}"]}


def scrape(state: State) -> dict[str, Any]:
    return {"facts": [f"page on {state.task}"]}


def thin(state: State) -> Literal["scrape", "done"]:
    return "scrape" if len(state.facts) % 2 else "done"


def outline(state: State) -> dict[str, Any]:
    return {"report": f"{len(state.facts)} facts"}


def write(state: State) -> dict[str, Any]:
    return {"report": f"{state.report}: {', '.join(state.facts)}"}


def research_team() -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="research-team")
    g.add_node("search", search)
    g.add_node("scrape", scrape)
    g.add_edge(START, "search")
    g.add_conditional_edges("search", thin, {"scrape": "scrape", "done": END})
    g.add_edge("scrape", END)
    return g.compile()


def writing_team() -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="writing-team")
    g.add_node("outline", outline)
    g.add_node("write", write)
    return g.add_sequence([START, "outline", "write", END]).compile()


async def review(state: State, ctx: Context) -> dict[str, Any]:
    content = (await ctx.bind(lead).run(state.report)).output
    return {} if content else {"report": ""}


def finished(state: State) -> Literal["again", "done"]:
    return "done" if state.report or len(state.facts) >= 4 else "again"


def graph() -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="teams")
    g.add_node("research", research_team())
    g.add_node("writing", writing_team())
    g.add_node("review", review)
    g.add_sequence([START, "research", "writing", "review"])
    g.add_conditional_edges("review", finished, {"again": "research", "done": END})
    return g.compile()


def options() -> dict[str, Any]:
    return {"models": {"lead": FunctionModel(lambda request: "4 facts" in request.text)}}


EXAMPLE = Example(name="teams", graph=graph, input={"task": "tea"}, options=options, replies={"lead": [True, False]})
