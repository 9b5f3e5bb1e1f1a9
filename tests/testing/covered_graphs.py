"""Graphs whose route coverage is counted by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypedDict

from graphrt import END, START, Budget, Command, GraphBuilder, RetryPolicy, Send
from graphrt.harness import Agent, FunctionModel
from graphrt.reducers import append


class State(TypedDict, total=False):
    kind: str
    log: Annotated[list[str], append]


def log(text: str) -> Callable[[State], Any]:
    return lambda state: {"log": [text]}


def child() -> Any:
    g = GraphBuilder(State, name="child")
    g.add_node("inside", log("inside"))
    g.add_node("other", log("other"))
    g.add_edge(START, "inside")
    g.add_conditional_edges("inside", lambda state: state["kind"] == "twice", {True: "other", False: END})
    g.add_edge("other", END)
    return g.compile()


def every() -> Any:
    """A graph with every kind of arc, whose path the field `kind` chooses."""

    def flaky(state: State, ctx: Any) -> Any:
        if state["kind"] == "timeout":
            raise TimeoutError("no result within 1 s")  # in the words of the runtime
        if (state["kind"] == "retry" and ctx.attempt == 1) or state["kind"] == "error":
            raise ConnectionError("lost")
        return Command(goto="end" if state["kind"] == "command" else "pair")

    def ask(state: State, ctx: Any) -> Any:
        return {"log": [ctx.interrupt("yes?", key="k")]} if state["kind"] == "ask" else None

    async def spend(state: State, ctx: Any) -> Any:
        agent = ctx.bind(Agent(FunctionModel(lambda request: "tea"), name="a"))
        return {"log": [(await agent.run("tea?")).text, (await agent.run("and?")).text]}

    def choose(state: State) -> Any:
        match state["kind"]:
            case "send":
                return [Send("sent", 1), Send("sent", 2)]
            case "both":
                return ["half", "other"]
            case kind:
                return kind

    g = GraphBuilder(State, name="every")
    g.add_node("choose", log("choose"))
    g.add_node("flaky", flaky, retry=RetryPolicy(attempts=2, wait_initial_s=0.0, jitter=False), timeout_s=30,
               on_error="rescue", goto=["pair", "end"])  # fmt: skip
    g.add_node("rescue", log("rescue"))
    g.add_node("pair", log("pair"))
    g.add_node("left", log("left"))
    g.add_node("right", log("right"))
    g.add_node("first", log("first"))
    g.add_node("loop", log("loop"), max_visits=2, on_fatigue="end")
    g.add_node("sent", lambda state, ctx: {"log": [str(ctx.arg)]})
    g.add_node("sub", child())
    g.add_node("ask", ask)
    g.add_node("end", log("end"), interrupt_before=True)
    g.add_node("spend", spend, budget=Budget(calls=1))
    for name in ("half", "other", "whole"):
        g.add_node(name, log(name))
    g.add_edge(START, "choose")
    g.add_conditional_edges(
        "choose",
        choose,
        {
            "loop": "loop",
            "sub": "sub",
            "twice": "sub",
            "ask": "ask",
            "sent": "sent",
            "spend": "spend",
            "half": "half",
            "other": "other",
        },
        default="flaky",
    )
    g.add_edge("loop", "loop")
    g.add_edge("pair", "left")
    g.add_edge("pair", "right")
    g.add_join(["left", "right"], "first", when="any")
    g.add_join(["half", "other"], "whole", starved="run")
    for name in ("rescue", "sent", "sub", "ask", "first", "spend", "whole"):
        g.add_edge(name, END)
    g.add_edge("end", END)
    return g.compile(allow=["endless-loop", "no-way-out"])
