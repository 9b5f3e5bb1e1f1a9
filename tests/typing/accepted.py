"""What users write, in every form. Both checkers have nothing to say about any line."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict, assert_type

from pydantic import BaseModel

from graphrt import DELETE, END, START, Command, Context, GraphBuilder, Interrupt, Overwrite, Send
from graphrt.reducers import add, append


class State(BaseModel):
    question: str
    notes: Annotated[list[str], append] = []
    calls: Annotated[int, add] = 0
    answer: str | None = None


class Update(TypedDict, total=False):
    notes: list[str]
    calls: int
    answer: str


g = GraphBuilder(State, Update, name="research")


@g.node
async def search(state: State, ctx: Context) -> Update:
    return {"notes": [f"{state.question} {ctx.arg}"], "calls": 1}


@g.node
def answer(state: State) -> Update:
    return {"answer": " ".join(state.notes)}


@g.node
def decide(state: State) -> Command[Update]:
    return Command(update={"calls": 1}, goto=END if state.calls else "search")


@g.node
def ask(state: State, ctx: Context[dict[str, str]]) -> Update | Interrupt | None:
    if not state.notes:
        return Interrupt({"question": ctx.deps["prompt"]})
    return None


@g.node
def clear(state: State) -> Update:
    return {"answer": DELETE, "notes": Overwrite([])}


def enough(state: State) -> Literal["more", "done"]:
    return "done" if state.calls >= 2 else "more"


def spread(state: State) -> list[Send]:
    return [Send(search, note) for note in state.notes]


g.add_node("lambda", lambda state: {"answer": state.question})
g.add_edge(START, search).add_edge(answer, END)
g.add_edge("ask", decide)
g.add_conditional_edges(search, enough, {"more": search, "done": answer})
g.add_conditional_edges("decide", spread, ["search"])
g.add_conditional_edges(clear, lambda state: state.calls > 1, {True: END, False: "ask"})
g.add_join([search, "ask"], answer, when="any")
g.branch(search, enough).to({"more": "search", "done": END})

graph = g.compile()
result = graph.run({"question": "why?"})
assert_type(result.state, State)
assert_type(result.state.notes, list[str])
assert_type(answer(State(question="why?")), Update)


# An untyped update, a state that nodes return whole, and states of the other two kinds.


class Counter(TypedDict):
    count: int


def count(state: Counter) -> dict[str, Any]:
    return {"count": state["count"] + 1}


def recount(state: Counter) -> Counter:
    return {"count": state["count"] + 1}


loose = GraphBuilder(Counter)
loose.add_node("count", count)
whole = GraphBuilder.overwrite(Counter)
whole.add_node("recount", recount)
