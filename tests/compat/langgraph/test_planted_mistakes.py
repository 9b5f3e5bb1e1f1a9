"""Mistakes that LangGraph accepts or logs, each planted in a small graph; and the same graph without it, which has
none.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command

from graphrt.compat.langgraph import Finding, check


class State(TypedDict):
    topic: str
    count: int
    notes: Annotated[list[str], operator.add]


def quiet(state: State) -> dict[str, Any]:
    return {}


def chain(*names: str) -> StateGraph[Any]:
    graph = StateGraph(State)
    for name in names:
        graph.add_node(name, quiet)
    for source, target in zip((START, *names), (*names, END), strict=True):
        graph.add_edge(source, target)
    return graph


def codes(graph: Any) -> list[str]:
    return [one.code for one in check(graph)]


def only(graph: Any, code: str) -> Finding:
    findings = check(graph)
    assert [one.code for one in findings] == [code], findings
    return findings[0]


def test_correct_graph_has_no_findings() -> None:
    assert check(chain("a", "b").compile()) == ()


# ------------------------------------------------------------------------------------------------ the twelve mistakes


def test_unreachable_node() -> None:
    graph = chain("a", "b")
    graph.add_node("lost", quiet)
    graph.add_edge("lost", "b")

    found = only(graph.compile(), "unreachable-node")

    assert (found.node, found.proved, found.level) == ("lost", True, "error")


def test_dead_end() -> None:
    graph = chain("a")
    graph.add_node("b", quiet)
    graph.add_edge("a", "b")

    found = only(graph.compile(), "dead-end")

    assert (found.node, found.proved, found.level) == ("b", False, "note")


def test_edge_to_a_misspelled_node() -> None:
    graph = chain("draft", "review")
    graph.add_edge("draft", "reviw")

    found = only(graph, "unknown-node")

    assert "'reviw'" in found.message
    assert found.fix.startswith("Did you mean 'review'?")


def test_router_returns_an_unknown_target() -> None:
    def route(state: State):
        return "reviw" if state["count"] else "review"

    graph = StateGraph(State).add_node("draft", quiet).add_node("review", quiet).add_edge(START, "draft")
    graph.add_conditional_edges("draft", route)

    found = only(graph.compile(), "unknown-target")

    assert ("'reviw'" in found.message, found.proved) == (True, True)
    assert str(found.place).startswith("test_planted_mistakes.py:")


def test_goto_outside_its_literal() -> None:
    def draft(state: State) -> Command[Literal["review"]]:
        return Command(goto="send" if state["count"] else "review")

    graph = StateGraph(State).add_node(draft).add_node("review", quiet).add_node("send", quiet)
    graph.add_edge(START, "draft").add_edge("review", "send")

    found = only(graph.compile(), "undeclared-goto")

    assert (found.node, found.proved) == ("draft", True)


def test_no_route_for_a_label() -> None:
    def route(state: State) -> Literal["yes", "no", "maybe"]:
        return state["topic"]

    graph = chain("a")
    graph.add_node("b", quiet).add_edge("b", END)
    graph.add_conditional_edges("a", route, {"yes": "b", "no": END})

    found = only(graph.compile(), "unknown-route")

    assert "'maybe'" in found.message


def test_write_of_an_unknown_key() -> None:
    def draft(state: State):
        return {"topc": "x"}

    found = only(StateGraph(State).add_node(draft).add_edge(START, "draft").compile(), "unknown-key")

    assert found.fix.startswith("Did you mean 'topic'?")


@pytest.mark.parametrize("value", ["x", 1.5, []])
def test_write_of_a_wrong_type(value: object) -> None:
    draft = {"x": wrong_text, 1.5: wrong_number}[value] if value != [] else wrong_list

    only(StateGraph(State).add_node("draft", draft).add_edge(START, "draft").compile(), "wrong-type")


def wrong_text(state: State):
    return {"count": "x"}


def wrong_number(state: State):
    return {"topic": 1.5}


def wrong_list(state: State):
    return {"notes": "a text for a list"}


def choose(state: State) -> Literal["a", "b"]:
    return "a"


def join(router: Callable[..., Any]) -> StateGraph[Any]:
    graph = StateGraph(State)
    for name in ("a", "b", "both"):
        graph.add_node(name, quiet)
    graph.add_conditional_edges(START, router)
    graph.add_edge(["a", "b"], "both")
    graph.add_edge("both", END)
    return graph


def test_join_of_a_source_that_was_not_chosen() -> None:
    found = only(join(choose).compile(), "starving-join")

    assert (found.node, found.proved) == ("both", True)
    assert "['a', 'b'] -> 'both'" in found.message
    assert str(found.place).startswith("test_planted_mistakes.py:")


def test_parallel_writers_of_a_key_without_a_reducer() -> None:
    def one(state: State):
        return {"topic": "one", "notes": ["one"]}

    def two(state: State):
        return {"topic": "two", "notes": ["two"]}

    graph = StateGraph(State).add_node(one).add_node(two)
    graph.add_edge(START, "one").add_edge(START, "two")

    found = only(graph.compile(), "write-conflict")

    assert ("'topic'" in found.message, "'notes'" in found.message, found.proved) == (True, False, True)


def test_endless_loop() -> None:
    graph = StateGraph(State).add_node("a", quiet).add_node("b", quiet)
    graph.add_edge(START, "a").add_edge("a", "b").add_edge("b", "a")

    found = only(graph.compile(), "endless-loop")

    assert "'a' -> 'b' -> 'a'" in found.message


def test_builder_that_cannot_be_compiled_again() -> None:
    graph = chain("a").set_node_defaults(error_handler=quiet)
    graph.compile()

    found = only(graph, "compiles-once")

    assert found.level == "note"
    with pytest.raises(ValueError, match="already exists"):
        graph.compile()
