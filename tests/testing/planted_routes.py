"""Graphs with one planted bug each that routes can show, and the same graphs without the bug."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

from pydantic import BaseModel

from graphrt import END, START, Budget, Command, Context, GraphBuilder
from graphrt.graph import CompiledGraph
from graphrt.reducers import append

Graph = CompiledGraph[Any, Any]


class State(BaseModel):
    topic: str = ""
    notes: Annotated[list[str], append] = []
    result: str = ""


def _write(**update: Any) -> Callable[[Any], Any]:
    return lambda _state: update


TOPICS = {"plan": [{"topic": "tea"}, {"topic": "coffee"}, {"topic": "both"}]}


def starved_join(*, bug: bool) -> Graph:
    """A join waits for two nodes, but the router runs only one of them."""
    g = GraphBuilder(State, name="starved")
    for name in ("plan", "left", "right", "meet"):
        g.add_node(name, _write())
    g.add_edge(START, "plan")

    def sides(state: State) -> list[str]:
        return ["left"] if bug and state.topic == "coffee" else ["left", "right"]

    g.add_conditional_edges("plan", sides, ["left", "right"])
    g.add_join(["left", "right"], "meet")
    g.add_edge("meet", END)
    return g.compile(allow=("starving-join",))


def unbounded_loop(*, bug: bool) -> Graph:
    """A loop continues as long as a model requests it."""
    g = GraphBuilder(State, name="loop")
    g.add_node("ask", _write(), **({} if bug else {"max_visits": 5, "on_fatigue": "stop"}))
    g.add_node("work", _write(notes=["x"]))
    g.add_node("stop", _write())
    g.add_edge(START, "ask")
    g.add_conditional_edges("ask", lambda state: state.topic == "more", {True: "work", False: "stop"})
    g.add_edge("work", "ask")
    g.add_edge("stop", END)
    return g.compile()


def unchanged_loop(*, bug: bool) -> Graph:
    """Two nodes alternate without a change of the state."""
    g = GraphBuilder(State, name="unchanged")
    g.add_node("ask", _write(), max_visits=None if bug else 3, **({} if bug else {"on_fatigue": END}))
    g.add_node("work", _write())
    g.add_edge(START, "ask")
    g.add_conditional_edges("ask", lambda state: state.topic == "more", {True: "work", False: END})
    g.add_edge("work", "ask")
    return g.compile()


def write_conflict(*, bug: bool) -> Graph:
    """Two branches write one field, for a single combination of routes."""
    g = GraphBuilder(State, name="conflict")
    g.add_node("plan", _write())
    g.add_node("a", lambda state: {"result": "a"} if bug or state.topic == "tea" else {"notes": ["a"]})
    g.add_node("b", _write(result="b"))
    g.add_edge(START, "plan")
    names = {"tea": ["a"], "coffee": ["b"], "both": ["a", "b"]}
    g.add_conditional_edges("plan", lambda state: names.get(state.topic, []), ["a", "b"])
    g.add_edge("a", END)
    g.add_edge("b", END)
    return g.compile()


def over_spent(*, bug: bool) -> Graph:
    """A long path makes more calls than the budget has."""
    g = GraphBuilder(State, name="spending")

    async def call(_state: State, ctx: Context) -> dict[str, Any]:
        return {"notes": [(await ctx.harness.run("go on?")).text]}

    g.add_node("call", call)
    g.add_edge(START, "call")
    most = 4 if bug else 3
    g.add_conditional_edges(
        "call", lambda state: state.notes[-1] == "yes" and len(state.notes) < most, {True: "call", False: END}
    )
    return g.compile()


def nobody_answers(*, bug: bool) -> Graph:
    """A question expects a list of numbers, and persons answer yes or no."""
    g = GraphBuilder(State, name="question")

    def ask(_state: State, ctx: Context) -> dict[str, Any]:
        return {"result": str(ctx.interrupt("Which?", answer_type=list[int] if bug else bool))}

    g.add_node("plan", _write())
    g.add_node("ask", ask)
    g.add_edge(START, "plan")
    g.add_conditional_edges("plan", lambda state: state.topic == "both", {True: "ask", False: END})
    g.add_edge("ask", END)
    return g.compile()


def dead_end(*, bug: bool) -> Graph:
    """One route ends without a result."""
    g = GraphBuilder(State, name="dead-end")
    g.add_node("plan", _write())
    g.add_node("answer", _write(result="done"))
    g.add_edge(START, "plan")
    targets = {"tea": "answer", "coffee": END if bug else "answer", "both": "answer"}
    g.add_conditional_edges("plan", lambda state: state.topic, targets)
    g.add_edge("answer", END)
    return g.compile()


def wrong_target(*, bug: bool) -> Graph:
    """A Command goes to a node that does not exist, for one topic."""
    g = GraphBuilder(State, name="command")

    def hand_over(state: State) -> Command[Any]:
        return Command(goto="anwser" if bug and state.topic == "both" else "answer")

    g.add_node("plan", _write())
    g.add_node("hand_over", hand_over, goto=["answer"])
    g.add_node("answer", _write(result="done"))
    g.add_sequence([START, "plan", "hand_over"])
    g.add_edge("answer", END)
    return g.compile()


class Loose(TypedDict, total=False):
    topic: str
    result: str


def unset_field(*, bug: bool) -> Graph:
    """A field is read that only one of two paths sets."""
    g = GraphBuilder(Loose, name="unset")
    g.add_node("plan", _write())
    g.add_node("search", _write(result="found"))
    g.add_node("answer", lambda state: {"result": state["result"] if bug else state.get("result", "")})
    g.add_edge(START, "plan")
    g.add_conditional_edges("plan", lambda state: state["topic"] == "tea", {True: "search", False: "answer"})
    g.add_sequence(["search", "answer", END])
    return g.compile()


def swallowed_label(*, bug: bool) -> Graph:
    """`default=` handles a misspelled label."""
    g = GraphBuilder(State, name="default")
    for name in ("plan", "coffee", "other"):
        g.add_node(name, _write())
        if name != "plan":
            g.add_edge(name, END)
    g.add_edge(START, "plan")
    label = "cofee" if bug else "coffee"
    g.add_conditional_edges(
        "plan", lambda state: label if state.topic == "coffee" else state.topic, {"coffee": "coffee"}, default="other"
    )
    return g.compile()


def fatigue_loops(*, bug: bool) -> Graph:
    """The on_fatigue route of an exhausted node leads back to it."""
    g = GraphBuilder(State, name="fatigue")
    g.add_node("try_it", _write(), max_visits=3, on_fatigue="rest")
    g.add_node("rest", _write())
    g.add_edge(START, "try_it")
    g.add_conditional_edges("try_it", lambda state: state.topic == "more", {True: "try_it", False: END})
    g.add_edge("rest", "try_it" if bug else END)
    return g.compile()


def raising_branch(*, bug: bool) -> Graph:
    """A node fails because of the write of one of two earlier nodes."""
    g = GraphBuilder(State, name="raising")
    g.add_node("plan", _write())
    g.add_node("divide", lambda state: {"result": str(1 / (len(state.topic) - (4 if bug else 40)))})
    return g.add_sequence([START, "plan", "divide", END]).compile()


@dataclass(frozen=True)
class Planted:
    make: Callable[..., Graph]
    kind: str
    """Kind of the finding."""
    given: Mapping[str, Any] = field(default_factory=lambda: {"alternatives": TOPICS})
    """Arguments of `explore_routes`."""
    by_itself: bool = True
    """Whether the test of the finding shows the bug without an explorer."""

    def __str__(self) -> str:
        return self.make.__name__


def budget() -> dict[str, Any]:
    return {"budget": Budget(calls=3)}


def has_result(state: State) -> bool:
    return bool(state.result)


MORE = {"alternatives": {"ask": [{"topic": "done"}, {"topic": "more"}]}}
PLANTED = (
    Planted(starved_join, "starved-join"),
    Planted(unbounded_loop, "endless-loop", MORE, by_itself=False),
    Planted(unchanged_loop, "endless-loop", MORE, by_itself=False),
    Planted(write_conflict, "write-conflict"),
    Planted(over_spent, "over-budget", {"harness": ["no", "yes"], "options": budget}),
    Planted(nobody_answers, "unanswerable-interrupt", {"alternatives": TOPICS, "answers": [True, False]}),
    Planted(
        dead_end, "predicate-broken", {"alternatives": TOPICS, "at_end": {"has_result": has_result}}, by_itself=False
    ),
    Planted(wrong_target, "wrong-route"),
    Planted(unset_field, "unset-field"),
    Planted(swallowed_label, "swallowed-label", by_itself=False),
    Planted(
        fatigue_loops,
        "endless-loop",
        {"alternatives": {"try_it": [{"topic": "no"}, {"topic": "more"}]}},
        by_itself=False,
    ),
    Planted(raising_branch, "node-error"),
)
