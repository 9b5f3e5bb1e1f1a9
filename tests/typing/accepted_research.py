"""The introductory program of graphrt, word for word, and its unit test. Both checkers accept it."""

from typing import Annotated, Literal, TypedDict, assert_type

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, RunResult
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


@g.node  # named "search"; still the plain function: a unit test may call it
async def search(state: State, ctx: Context) -> Update:
    reply = await ctx.harness.run(f"Find sources on {state.question}")
    return {"notes": [reply.text], "calls": 1}


@g.node
def answer(state: State) -> Update:
    return {"answer": " ".join(state.notes)}


def enough(state: State) -> Literal["more", "done"]:
    return "done" if state.calls >= 2 else "more"


g.add_edge(START, search)
g.add_conditional_edges(search, enough, {"more": search, "done": answer})
g.add_edge(answer, END)
graph = g.compile()  # immutable; raises DefinitionError with every problem at once

result = graph.run({"question": "why?"})  # result.state is a State


def test_the_answer_joins_the_notes() -> None:
    state = State(question="why?", notes=["because", "so"])

    assert answer(state) == {"answer": "because so"}
    assert enough(state) == "more"
    assert graph.route(search, state) == ("search",)


async def test_a_search_writes_one_note(ctx: Context) -> None:
    update = await search(State(question="why?"), ctx)

    assert_type(update, Update)
    assert len(update.get("notes", [])) == 1


def test_a_run_ends_with_an_answer() -> None:
    stubbed = graph.with_nodes({"search": lambda state: {"notes": [state.question], "calls": 1}})
    result = stubbed.run(State(question="why?"))

    assert_type(result, RunResult[State])
    assert_type(result.state.answer, str | None)
    assert result.status == "completed"
    assert result.state.calls == 2
