"""`RunResult.visited`: the number of supersteps of the run in which each node was active."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

import pytest

from graphrt import END, START, GraphBuilder, Runtime, Send

from .support import Face


class State(TypedDict, total=False):
    n: Annotated[int, operator.add]


def one(state: State) -> State:
    return {"n": 1}


def loop(rounds: int, **policy: Any) -> Any:
    """Runs `work` several times, then `last`; never `other`."""
    g: Any = GraphBuilder(State, name="g").add_node("last", one).add_node("work", one, **policy).add_node("other", one)
    where = {"on": "work", "out": "last", "other": "other"}
    g.add_edge(START, "work").add_edge("last", END).add_edge("other", END)
    return g.add_conditional_edges("work", lambda s: "on" if s["n"] < rounds else "out", where).compile()


@pytest.mark.parametrize("checked", [False, True])
def test_each_superstep_of_a_node_counts_in_the_order_of_the_nodes(face: Face, checked: bool) -> None:
    result = face.run(loop(3), {}, check_state=checked)

    assert list(result.visited.items()) == [("last", 1), ("work", 3)]
    assert result.steps == 4


def test_several_tasks_of_a_node_in_one_superstep_are_one_visit(face: Face) -> None:
    g: Any = GraphBuilder(State, name="g").add_node("work", lambda s, ctx: one(s))
    g.add_conditional_edges(START, lambda s: [Send("work", 1), Send("work", 2)], ["work"])
    result = face.run(g.compile(), {})

    assert (result.visited, result.state["n"]) == ({"work": 1}, 2)


def test_nodes_that_did_not_run_were_not_visited(face: Face) -> None:
    g: Any = GraphBuilder(State, name="g").add_node("work", one)
    graph = g.set_conditional_entry(lambda s: "out", {"on": "work", "out": END}).compile()

    assert face.run(graph, {}).visited == {}


def test_nested_graph_counts_as_one_node(face: Face) -> None:
    g: Any = GraphBuilder(State, name="outer").add_node("sub", loop(2)).add_edge(START, "sub")

    assert face.run(g.compile(), {}).visited == {"sub": 1}


def test_continued_run_keeps_counting_and_the_next_one_starts_at_zero(face: Face, tmp_path: Any) -> None:
    g: Any = GraphBuilder(State, name="g").add_node("first", one)
    g.add_node("ask", lambda s, ctx: {"n": ctx.interrupt("n?")}).add_sequence([START, "first", "ask"])
    graph, store = g.compile(), f"sqlite:///{tmp_path}/runs.db"

    with Runtime(graph, store=store) as runtime:
        paused = face.run(runtime, {}, thread="t")
    with Runtime(graph, store=store) as runtime:
        done = face.resume(runtime, "t", 5)
        again = face.run(runtime, {}, thread="t")

    assert (paused.visited, paused.steps) == ({"first": 1, "ask": 1}, 2)
    assert (done.visited, done.steps) == ({"first": 1, "ask": 1}, 2)
    assert (again.visited, again.steps) == ({"first": 1, "ask": 1}, 2)


def test_result_is_not_changed_by_the_next_run(face: Face) -> None:
    with Runtime(loop(2), store="memory:") as runtime:
        first = face.run(runtime, {}, thread="t")
        face.run(runtime, {"n": -5}, thread="t")

    first.visited["work"] = 99
    assert first.visited == {"work": 2, "last": 1}
