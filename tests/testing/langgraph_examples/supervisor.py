"""Supervisor: an agent chooses the next worker by a Command, until all work is done."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel
from tests.testing.langgraph_examples.example import Example

from graphrt import END, START, Command, Context, GraphBuilder
from graphrt.graph import CompiledGraph
from graphrt.harness import Agent, FunctionModel
from graphrt.reducers import append


class Choice(BaseModel):
    next: Literal["researcher", "coder", "finish"]


boss = Agent("test/model", name="boss", output=Choice)


class State(BaseModel):
    task: str
    done: Annotated[list[str], append] = []
    gave_up: bool = False


async def supervise(state: State, ctx: Context) -> Command[Any]:
    choice = (await ctx.bind(boss).run(f"{state.task}: {state.done}")).output.next
    return Command(goto=END if choice == "finish" else choice)


def worker(name: str) -> Any:
    return lambda _state: {"done": [name]}


def graph() -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="supervisor")
    targets = ["researcher", "coder", END]
    g.add_node("supervise", supervise, goto=targets, max_visits=4, on_fatigue="stop")
    g.add_node("researcher", worker("researcher"))
    g.add_node("coder", worker("coder"))
    g.add_node("stop", lambda _state: {"gave_up": True})
    g.add_edge(START, "supervise")
    g.add_edge("researcher", "supervise")
    g.add_edge("coder", "supervise")
    g.add_edge("stop", END)
    return g.compile()


def options() -> dict[str, Any]:
    def choose(request: Any) -> dict[str, Any]:
        done = [name for name in ("researcher", "coder") if name in request.text]
        return {"next": ["researcher", "coder", "finish"][len(done)]}

    return {"models": {"boss": FunctionModel(choose)}}


EXAMPLE = Example(
    name="supervisor",
    graph=graph,
    input={"task": "count words"},
    options=options,
    replies={"boss": [{"next": "researcher"}, {"next": "coder"}, {"next": "finish"}]},
)
