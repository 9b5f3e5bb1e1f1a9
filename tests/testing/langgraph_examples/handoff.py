"""Handoff: two advisers hand a traveller over to each other by Commands, and wait for the traveller in between."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel
from tests.testing.langgraph_examples.example import Example

from graphrt import END, START, Command, Context, GraphBuilder
from graphrt.graph import CompiledGraph
from graphrt.harness import Agent, FunctionModel
from graphrt.reducers import append


class Advice(BaseModel):
    text: str
    to: Literal["stay", "travel", "hotel"] = "stay"


travel_agent = Agent("test/model", name="travel-adviser", output=Advice)
hotel_agent = Agent("test/model", name="hotel-adviser", output=Advice)


class State(BaseModel):
    messages: Annotated[list[str], append]
    active: Literal["travel", "hotel"] = "travel"
    handoffs: int = 0


async def advise(name: Literal["travel", "hotel"], agent: Agent[Any], state: State, ctx: Context) -> Command[Any]:
    advice = (await ctx.bind(agent).run(state.messages[-1])).output
    passed_on = advice.to not in ("stay", name) and state.handoffs < 3
    update = {"messages": [f"{name}: {advice.text}"], "active": name, "handoffs": state.handoffs + passed_on}
    return Command(update=update, goto=advice.to if passed_on else "traveller")


async def travel(state: State, ctx: Context) -> Command[Any]:
    return await advise("travel", travel_agent, state, ctx)


async def hotel(state: State, ctx: Context) -> Command[Any]:
    return await advise("hotel", hotel_agent, state, ctx)


def traveller(state: State, ctx: Context) -> Command[Any]:
    said = ctx.interrupt(state.messages[-1], answer_type=str)
    if said == "bye":
        return Command(goto=END)
    return Command(update={"messages": [f"traveller: {said}"], "handoffs": 0}, goto=state.active)


def graph() -> CompiledGraph[State, Any]:
    g = GraphBuilder(State, name="handoff")
    g.add_node("travel", travel, goto=["hotel", "traveller"])
    g.add_node("hotel", hotel, goto=["travel", "traveller"])
    g.add_node("traveller", traveller, goto=["travel", "hotel", END])
    g.add_edge(START, "travel")
    return g.compile()


def options() -> dict[str, Any]:
    def travels(request: Any) -> dict[str, Any]:
        return {"text": "Ask the hotel.", "to": "hotel"} if "room" in request.text else {"text": "Go to Lisbon."}

    return {
        "models": {
            "travel-adviser": FunctionModel(travels),
            "hotel-adviser": FunctionModel(lambda _: {"text": "Take the Inn."}),
        }
    }


EXAMPLE = Example(
    name="handoff",
    graph=graph,
    input={"messages": ["somewhere warm"]},
    options=options,
    answers=("a room too", "bye"),
    replies={
        "travel-adviser": [{"text": "Lisbon."}, {"text": "Ask the hotel.", "to": "hotel"}],
        "hotel-adviser": [{"text": "The Inn."}, {"text": "Ask about travel.", "to": "travel"}],
    },
    possible=("and then?", "bye"),
)
