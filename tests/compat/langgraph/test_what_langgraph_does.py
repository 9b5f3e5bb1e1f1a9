"""The statements of the findings about LangGraph are true of the installed version: each mistake runs there."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Annotated, Any, Optional, TypedDict

import pytest
from langgraph.errors import GraphRecursionError, InvalidUpdateError
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send


class State(TypedDict):
    topic: Any
    items: list[int]
    notes: Annotated[list[str], operator.add]


class Part(TypedDict):
    topic: str


class Ignored(TypedDict):
    notes: Optional[Annotated[list[str], operator.add]]  # noqa: UP045 - as people write it


def noting(name: str) -> Callable[[Any], dict[str, Any]]:
    return lambda state: {"notes": [name]}


def graph(*nodes: str | tuple[str, Any], edges: str = "", schema: Any = State) -> StateGraph[Any]:
    """A graph of nodes that note their names, or of functions; edges such as "ab bc", besides one from START."""
    made = StateGraph(schema)
    for node in nodes:
        name, function = (node, noting(node)) if isinstance(node, str) else node
        made.add_node(name, function)
    first = nodes[0] if isinstance(nodes[0], str) else nodes[0][0]
    made.add_edge(START, first)
    for source, target in edges.split():
        made.add_edge(source, target)
    return made


def notes(made: StateGraph[Any]) -> list[str]:
    return made.compile().invoke({"notes": []})["notes"]


def test_starving_join_and_its_successors_never_run() -> None:
    made = graph("a", "b", "c", "d").add_conditional_edges("a", lambda state: "b", ["b", "c"])

    assert notes(made.add_edge(["b", "c"], "d")) == ["a", "b"]


@pytest.mark.parametrize("target", ["nowhere", [Send("nowhere", {})]])
def test_route_to_an_unknown_node_ends_the_branch(target: Any) -> None:
    assert notes(graph("a").add_conditional_edges("a", lambda state: target)) == ["a"]


def test_goto_to_an_unknown_node_ends_the_branch() -> None:
    assert notes(graph(("a", lambda state: Command(goto="nowhere")))) == []


def test_router_that_returns_none_fails() -> None:
    with pytest.raises(ValueError, match="valid destination"):
        notes(graph("a").add_conditional_edges("a", lambda state: None))


def test_branches_of_different_length_run_a_node_twice() -> None:
    assert notes(graph("a", "b", "c", edges="ab bc ac")) == ["a", "b", "c", "c"]


def test_edges_and_gotos_both_run() -> None:
    assert notes(graph(("a", lambda state: Command(goto="c")), "b", "c", edges="ab")) == ["b", "c"]


def test_unknown_key_is_dropped_and_a_wrong_type_stored() -> None:
    result = graph(("a", lambda state: {"nope": 1, "items": "text"})).compile().invoke({"notes": []})

    assert result == {"items": "text", "notes": []}


def test_assignment_to_the_state_is_lost_and_a_change_in_place_is_not_folded() -> None:
    def change(state: Any) -> dict[str, Any]:
        state["topic"] = "new"
        state["notes"].append("x")
        return {}

    result = graph(("a", change)).compile().invoke({"topic": "old", "notes": ["n"]})

    assert (result["topic"], result["notes"]) == ("old", ["n", "x"])


def test_values_double_if_a_node_or_a_nested_graph_returns_them_whole() -> None:
    assert graph(("a", lambda state: state)).compile().invoke({"notes": ["n"]})["notes"] == ["n", "n"]
    assert notes(graph("a", ("b", graph("i").compile()), edges="ab")) == ["a", "a", "i"]


def test_reducer_inside_a_type_is_ignored() -> None:
    assert graph("a", schema=Ignored).compile().invoke({"notes": ["n"]}) == {"notes": ["a"]}


def test_key_that_the_input_schema_lacks_is_not_passed() -> None:
    def read(state: Part) -> dict[str, Any]:
        return {"topic": state["items"]}  # type: ignore[typeddict-item]

    with pytest.raises(KeyError):
        graph(("a", read)).compile().invoke({"topic": "x", "items": [1], "notes": []})


def test_two_writes_of_a_key_without_a_reducer_fail() -> None:
    write = {"b": lambda state: {"topic": 1}, "c": lambda state: {"topic": 2}}

    with pytest.raises(InvalidUpdateError):
        notes(graph("a", *write.items(), edges="ab ac"))


def test_an_endless_loop_runs_to_the_recursion_limit() -> None:
    with pytest.raises(GraphRecursionError):
        graph("a", "b", edges="ab ba").compile().invoke({"notes": []}, {"recursion_limit": 7})
