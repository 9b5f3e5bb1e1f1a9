"""Mistakes that both checkers report. An unneeded ignore means that one of them no longer does."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypedDict

from pydantic import BaseModel

from graphrt import (
    END,
    START,
    UNSET,
    AgentHarness,
    Budget,
    Command,
    CompiledGraph,
    Context,
    GraphBuilder,
    Overwrite,
    Runtime,
    Send,
)
from graphrt.harness import Agent, AgentReply, Cassette, ScriptedModel
from graphrt.reducers import add, append, first, merge, messages, reduced, union
from graphrt.testing import FakeChatServer


class State(BaseModel, frozen=True):
    question: str
    calls: int = 0
    notes: list[str] = []


class Update(TypedDict, total=False):
    calls: int
    question: str
    notes: list[str]


class Other(BaseModel):
    name: str


class OtherUpdate(TypedDict, total=False):
    name: str


class Deps:
    prompt: str


g = GraphBuilder(State, Update)


#  Parameters and return values of nodes


def misspelt(state: State) -> Update:
    return {"cals": 1}  # type: ignore[typeddict-unknown-key]  # pyright: ignore[reportReturnType]


def wrong_value(state: State) -> Update:
    return {"calls": "one"}  # type: ignore[typeddict-item]  # pyright: ignore[reportReturnType]


def wrong_item(state: State) -> Update:
    return {"notes": [state.calls]}  # type: ignore[list-item]  # pyright: ignore[reportReturnType]


def wrong_overwrite(state: State) -> Update:
    return {"notes": Overwrite(1)}  # type: ignore[arg-type]  # pyright: ignore[reportReturnType]


def wrong_attribute(state: State) -> Update:
    return {"question": state.qestion}  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def changes_the_state(state: State) -> Update:
    state.calls = 1  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    return {}


def wrong_dependency(state: State, ctx: Context[Deps]) -> Update:
    return {"question": ctx.deps.promt}  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def misspelt_command(state: State) -> Command[Update]:
    return Command(update={"cals": 1}, goto=END)  # type: ignore[arg-type]  # pyright: ignore[reportReturnType]


def wrong_command_value(state: State) -> Command[Update]:
    return Command(update={"calls": "one"}, goto=END)  # type: ignore[arg-type]  # pyright: ignore[reportReturnType]


def goes_to_the_start(state: State) -> Command[Update]:
    return Command(update={"calls": 1}, goto=START)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportReturnType]


def takes_another_state(state: Other) -> Update:
    return {"question": state.name}


def takes_nothing_at_all() -> Update:
    return {}


def takes_too_much(state: State, ctx: Context, more: int) -> Update:
    return {"calls": more}


def takes_no_context(state: State, number: int) -> Update:
    return {"calls": number}


def returns_a_number(state: State) -> int:
    return state.calls


def returns_another_update(state: State) -> OtherUpdate:
    return {"name": state.question}


def returns_the_state(state: State) -> State:
    return state


def commands_another_update(state: State) -> Command[OtherUpdate]:
    return Command(update={"name": "?"}, goto=END)


async def returns_text(state: State) -> str:
    return state.question


g.add_node("a", takes_another_state)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_node("b", takes_too_much)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_node("c", returns_a_number)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_node("d", returns_text)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_node("e", lambda state: {"calls": state.qestion})  # type: ignore[arg-type, attr-defined, return-value]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
g.add_node("f", lambda state: 42)  # type: ignore[arg-type, return-value]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_node("g", lambda state: {"cals": 1})  # type: ignore[arg-type, return-value]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_node("h", lambda state: Command(update={"cals": 1}))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_node("i", returns_another_update)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_node("j", commands_another_update)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_node("k", returns_the_state)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_node("l", "search")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_node(1, misspelt)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.node(takes_another_state)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.node(takes_nothing_at_all)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.node(takes_too_much)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.node(takes_no_context)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.node(returns_a_number)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.node(returns_text)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.node(returns_another_update)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.node(returns_the_state)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.node(commands_another_update)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.node(name="m")(takes_another_state)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.node(retry=3)(returns_text)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


#  The return value of @g.node


@g.node
def answer(state: State) -> Update:
    return {"calls": 1}


@g.node(retry=2)
async def search(state: State, ctx: Context) -> Update:
    return {"calls": 1}


answer(Other(name="?"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
answer()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
answer(State(question="?"), 1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
text: str = answer(State(question="?"))  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
search(State(question="?"))  # type: ignore[call-arg, unused-coroutine]  # pyright: ignore[reportCallIssue]
result: Update = search(State(question="?"), Context.__new__(Context))  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]


# --- Policies

g.node(retri=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
g.node(retry="often")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
g.node(timeout_s="1 s")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
g.node(on_error=START)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
g.node(goto=[1])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
g.node(key=lambda state: state.qestion)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownLambdaType, reportUnknownMemberType]
g.node(input={"a": "b"})  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
g.add_node("n", answer, retri=3)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
g.add_node("o", answer, max_visits="many")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_node("p", g.compile(), output=3)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


# ------- Targets of edges

g.add_edge("a", START)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
g.add_edge(END, "a")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
g.add_edge(START, START)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
g.add_edge(1, "a")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
g.add_edge("a", 2)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
g.add_edge(answer, takes_nothing_at_all)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
g.add_edge(["a", END], "b")  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
g.add_join(["a", END], "b")  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
g.add_join(["a"], START)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
g.add_join(["a"], "b", when="most")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
g.add_join(["a"], "b", starved="wait")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
g.add_sequence(["a", 1])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
g.add_sequence(START)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
g.set_entry(END)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
g.set_finish(START)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Send(1, "argument")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Send(END, "argument")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Command(goto=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# --- Labels and targets


class Tone(Enum):
    KIND = "kind"
    SHARP = "sharp"


def verdict(state: State) -> Literal["good", "poor"]:
    return "good" if state.calls else "poor"


def verdicts(state: State) -> list[Literal["good", "poor"]]:
    return [verdict(state)]


def tone(state: State) -> Tone:
    return Tone.KIND


def takes_nothing() -> str:
    return "good"


def of_another_state(state: Other) -> str:
    return state.name


def returns_a_float(state: State) -> float:
    return 0.5


async def too_late(state: State) -> str:
    return "good"


g.branch("a", verdict).to({"good": "a", "por": END})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
g.branch("a", verdict).to({"good": "a", "poor": START})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
g.branch("a", verdict).to({"good": "a", "poor": 1})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
g.branch("a", verdict).to({"good": "a"}, default=START)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
g.branch("a", verdicts).to({"good": "a", "por": END})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
g.branch("a", tone).to({"kind": "a"})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
g.branch("a", of_another_state)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.branch(END, verdict)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_conditional_edges("a", takes_nothing, {"good": "a"})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_conditional_edges("a", of_another_state, {"good": "a"})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_conditional_edges("a", returns_a_float, {"good": "a"})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_conditional_edges("a", too_late, {"good": "a"})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_conditional_edges("a", verdict, {"good": START})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_conditional_edges("a", verdict, ["a", START])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.add_conditional_edges("a", lambda state: state.qestion, ["a"])  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownLambdaType, reportUnknownMemberType]
g.add_conditional_edges(END, verdict, {"good": "a"})  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
g.set_conditional_entry(of_another_state, {"good": "a"})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]


#  Parameters and results of runs

graph = g.compile()
graph.run(Other(name="?"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
graph.run("why?")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
graph.run(["why?"])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
graph.run({"question": "why?"}, deb=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
graph.run({"question": "why?"}, limits=3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
graph.stream({"question": "why?"}, modes="valeus")  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
Runtime(graph).stream({"question": "why?"}, thread="t", answer=1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
Runtime(graph).steps(answers={"id": 1})  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
Runtime(graph).asteps()  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
number: int = graph.run(State(question="why?")).state  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
graph.run(State(question="why?")).state.qestion  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
graph.run(State(question="why?")).stat  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
graph.run(State(question="why?")).status == "complete"  # type: ignore[comparison-overlap]  # pyright: ignore[reportUnnecessaryComparison, reportUnusedExpression]
graph.route(END, State(question="why?"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
graph.route("a", Other(name="?"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
graph.with_nodes({"a": takes_another_state})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
graph.with_nodes({"a": takes_too_much})  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
graph.name = "other"  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
runtime = Runtime(graph, stoer="memory:")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
Runtime(g)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Runtime(graph).run(Other(name="?"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Runtime(graph).state("t").values.qestion  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
for step in graph.steps({}):
    step.before.qestion  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    step.aftr  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


# --- Other kinds of states and updates


@dataclass(frozen=True)
class Point:
    x: int
    trail: list[str] = reduced(append, default_factory=dict)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    steps: str = reduced(append, default_factory=list)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    numbers: list[int] = reduced(append, default_factory=list[str])  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    tags: set[str] = reduced(append, default_factory=set)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportAssignmentType]
    text: str = reduced(append, default="")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue, reportUnknownVariableType]
    words: set[str] = reduced(union, default_factory=list)  # type: ignore[arg-type]  # pyright: ignore[reportAssignmentType]
    count: int = reduced(add, default_factory=str)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    best: int = reduced(first, default=None)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    scores: dict[str, int] = reduced(merge, default_factory=list)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    chat: list[str] = reduced(messages, default_factory=set)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@dataclass
class Move:
    x: int = UNSET


def moves(point: Point) -> Move:
    return Move(y=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def half_a_point(point: Point) -> dict[str, Any]:
    return {"x": 1}


whole = GraphBuilder.overwrite(Point)
whole.node(half_a_point)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
whole.node(moves)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
whole.add_node("a", half_a_point)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]
loose = GraphBuilder(Point)
loose.node(returns_a_number)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
loose.add_node("a", lambda point: point.y)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownLambdaType, reportUnknownMemberType]
loose.add_node("b", lambda point: 1)  # type: ignore[arg-type, return-value]  # pyright: ignore[reportArgumentType, reportCallIssue]
GraphBuilder({"x": int})  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
GraphBuilder(State, Update, "name")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
GraphBuilder(State, Update, nam="graph")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


# -------- Requests to a harness


async def ask(harness: AgentHarness, agent: Agent) -> None:
    await harness.run("why?", temprature=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    await harness.run("why?", max_tokens="many")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await harness.run(1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    await agent.run("why?", temprature=1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


Cassette("x").harness(Agent)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Cassette("x").harness(ScriptedModel(["x"]))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Cassette("x").harness("openai/x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Cassette("x").model("openai/x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
Cassette("x").model(Agent("openai/x"))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
FakeChatServer([5])  # type: ignore[list-item]  # pyright: ignore[reportArgumentType]
Budget(calls=1, on_exceeded="rise")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


# ---- Types of answers


class Person(BaseModel):
    name: str


async def answers(ctx: Context, agent: Agent[Person], anything: Agent) -> None:
    (await agent.run("who?")).output.nam  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    (await agent.run("who?", output=int)).output.name  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    (await anything.run("who?", output=Person)).output.nam  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    (await ctx.bind(agent).run("who?")).output.nam  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    (await ctx.bind(agent).run("who?", output=int)).output.name  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    (await ctx.harness.run("who?", output=Person)).output.nam  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    (await agent.run("who?")).output = Person(name="?")  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    other: AgentReply[int] = await agent.run("who?")  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType, reportUnusedVariable]
    agent_of_numbers: Agent[int] = agent  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType, reportUnusedVariable]
    await ctx.harness.run("who?", temprature=1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    await ctx.harness.run(5)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    ctx.interrupt("who?", answer_type=Person).nam  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
    text: str = ctx.interrupt("who?", answer_type=bool)  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType, reportUnusedVariable]


Agent("openai/x", output=Person, nam="agent")  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
Agent("openai/x", output=Person, tools=5)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]


# ------------ Child threads


def family(ctx: Context, graph: CompiledGraph[Person, Any]) -> None:
    ctx.start("graph", {})  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ctx.wait("t-1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ctx.wait(ctx.start(graph, {})).nam  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
