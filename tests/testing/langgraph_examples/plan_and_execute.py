"""Plan and execute: a plan of steps, an executor that takes the first one, and a replanner that answers or continues."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel
from tests.testing.langgraph_examples.example import Example

from graphrt import END, START, Context, GraphBuilder
from graphrt.graph import CompiledGraph
from graphrt.harness import Agent, FunctionModel
from graphrt.reducers import append


class Plan(BaseModel):
    steps: list[str] = []
    answer: str = ""


planner = Agent("test/model", name="planner", output=Plan)
executor = Agent("test/model", name="executor")
replanner = Agent("test/model", name="replanner", output=Plan)


class State(BaseModel):
    goal: str
    plan: list[str] = []
    past: Annotated[list[str], append] = []
    answer: str = ""


async def plan(state: State, ctx: Context) -> dict[str, Any]:
    return {"plan": (await ctx.bind(planner).run(state.goal)).output.steps}


async def execute(state: State, ctx: Context) -> dict[str, Any]:
    return {"past": [(await ctx.bind(executor).run(state.plan[0])).text], "plan": state.plan[1:]}


async def replan(state: State, ctx: Context) -> dict[str, Any]:
    found = (await ctx.bind(replanner).run(f"{state.goal}: {state.past}, left {state.plan}")).output
    return {"plan": found.steps, "answer": found.answer}


def give_up(state: State) -> dict[str, Any]:
    return {"answer": f"Not finished: {', '.join(state.past)}"}


def planned(state: State) -> Literal["execute", "nothing"]:
    return "execute" if state.plan else "nothing"


def finished(state: State) -> Literal["execute", "answered", "nothing"]:
    if state.answer:
        return "answered"
    return "execute" if state.plan else "nothing"


def graph() -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="plan-and-execute")
    g.add_node("plan", plan)
    g.add_node("execute", execute, max_visits=4, on_fatigue="give_up")
    g.add_node("replan", replan)
    g.add_node("give_up", give_up)
    g.add_edge(START, "plan")
    g.add_conditional_edges("plan", planned, {"execute": "execute", "nothing": "give_up"})
    g.add_edge("execute", "replan")
    g.add_conditional_edges("replan", finished, {"execute": "execute", "answered": END, "nothing": "give_up"})
    g.add_edge("give_up", END)
    return g.compile()


def options() -> dict[str, Any]:
    def replans(request: Any) -> dict[str, Any]:
        return {"steps": ["look"]} if "left ['look']" in request.text else {"answer": "Done."}

    return {
        "models": {
            "planner": FunctionModel(lambda _: {"steps": ["search", "look"]}),
            "executor": FunctionModel(lambda request: f"{request.text}: done"),
            "replanner": FunctionModel(replans),
        }
    }


EXAMPLE = Example(
    name="plan-and-execute",
    graph=graph,
    input={"goal": "find it"},
    options=options,
    replies={
        "planner": [{"steps": []}, {"steps": ["a"]}, {"steps": ["a", "b"]}],
        "executor": ["done"],
        "replanner": [{"answer": "Done."}, {"steps": ["b"]}, {}],
    },
)
