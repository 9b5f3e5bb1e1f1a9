"""The graph of the research: its library, agents, nodes, the fan-out and the join."""

from __future__ import annotations

from typing import Annotated, TypedDict

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Send
from graphrt.harness import Agent, AgentLimits
from graphrt.reducers import add, append, union

MODEL = "openai/gpt-4o-mini"
LIBRARY = {
    "plants": "All tea is made of the leaves of one plant.",
    "breakfast": "Coffee and tea are drunk in the morning.",
    "beans": "A coffee bean is the seed of a cherry.",
}


class Finding(BaseModel):
    """The result of one question, and the names of its source documents."""

    text: str
    sources: list[str] = []


class State(BaseModel):
    """Reducers fold the writes of parallel tasks, in the order in which the questions were planned."""

    topic: str
    questions: list[str] = []
    findings: Annotated[list[str], append] = []
    sources: Annotated[list[str], union] = []
    words: Annotated[int, add] = 0
    report: str = ""


class Update(TypedDict, total=False):
    """The fields that nodes write."""

    questions: list[str]
    findings: list[str]
    sources: list[str]
    words: int
    report: str


def search(words: str) -> dict[str, str]:
    """All documents about one of the words, by name."""
    return {name: text for name, text in LIBRARY.items() if any(word in text.lower() for word in words.split())}


planner = Agent(MODEL, name="planner", system="Split the topic into at most three questions.", output=list[str])
researcher = Agent(
    MODEL,
    name="researcher",
    system="Search first, then answer in one sentence and name your sources.",
    tools=[search],
    output=Finding,
    limits=AgentLimits(model_calls=8),
)
writer = Agent(MODEL, name="writer", system="Write a report of the findings.")

g = GraphBuilder(State, Update, name="research")


@g.node
async def plan(state: State, ctx: Context) -> Update:
    return {"questions": (await ctx.bind(planner).run(state.topic)).output}


@g.node(retry=2)
async def research(_state: State, ctx: Context) -> Update:
    """Research one question; each has its own task, and they run in parallel."""
    found = (await ctx.bind(researcher).run(ctx.arg)).output
    return {"findings": [f"{ctx.arg} {found.text}"], "sources": found.sources, "words": len(found.text.split())}


@g.node
async def write(state: State, ctx: Context) -> Update:
    return {"report": (await ctx.bind(writer).run("\n".join(state.findings))).text}


def each(state: State) -> list[Send]:
    return [Send(research, question) for question in state.questions]


g.add_sequence([START, plan])
g.add_conditional_edges(plan, each, [research])
g.add_join([research], write, starved="run")  # a plan without questions has a report too
g.add_edge(write, END)
graph = g.compile()
