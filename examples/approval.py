"""A run that pauses for a person, and continues with the answer.

Run it with `python -m examples.approval`; it answers its own questions, first "no" and then "yes".
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel

from graphrt import END, START, Context, GraphBuilder, Runtime
from graphrt.reducers import append


class State(BaseModel):
    """A draft, and the answers to each version of it."""

    topic: str
    version: int = 0
    draft: str = ""
    remarks: Annotated[list[str], append] = []
    approved: bool = False


g = GraphBuilder(State, name="approval")


@g.node
def write(state: State) -> dict[str, object]:
    version = state.version + 1
    said = f" ({state.remarks[-1]})" if state.remarks else ""
    return {"version": version, "draft": f"Version {version} about {state.topic}{said}"}


@g.node
def approve(state: State, ctx: Context) -> dict[str, object]:
    answer = ctx.interrupt({"draft": state.draft})  # the run pauses here; resume() brings the answer
    return {"approved": answer["approved"], "remarks": [answer["remark"]]}


def verdict(state: State) -> Literal["send", "again"]:
    return "send" if state.approved else "again"


g.add_edge(START, write)
g.add_edge(write, approve)
g.add_conditional_edges(approve, verdict, {"again": write, "send": END})
graph = g.compile()

if __name__ == "__main__":
    replies = iter([{"approved": False, "remark": "shorter"}, {"approved": True, "remark": "fine"}])
    with Runtime(graph, store="memory:") as runtime:
        result = runtime.run({"topic": "graphs"}, thread="letter")
        while result.interrupts:
            print("asked:", result.interrupts[0].payload["draft"])
            result = runtime.resume("letter", answer=next(replies))
    print("sent: ", result.state.draft)
