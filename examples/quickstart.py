"""Two nodes, two reducers and a router: collect notes until there are enough, then answer.

Run it with `python -m examples.quickstart`. The harness is a mock.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, MockHarness
from graphrt.reducers import add, append


class State(BaseModel):
    """A reducer says how an update joins what is there; a field without one takes the last value."""

    question: str
    notes: Annotated[list[str], append] = []
    calls: Annotated[int, add] = 0
    answer: str | None = None


class Update(TypedDict, total=False):
    """What a node may write."""

    notes: list[str]
    calls: int
    answer: str


g = GraphBuilder(State, Update, name="research")


@g.node
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
graph = g.compile()

if __name__ == "__main__":
    script = ["Light scatters in air.", "Blue scatters most."]
    result = graph.run({"question": "why the sky is blue"}, harness=MockHarness(script))
    print(f"{result.state.answer}  [{result.steps} supersteps, {result.usage.calls} calls]")
