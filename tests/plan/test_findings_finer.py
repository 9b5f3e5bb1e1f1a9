"""Further errors of compile(), compared literally: reducers, markers, labels and policies without an effect."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, Literal, TypedDict

import pytest
from pydantic import BaseModel

from graphrt import END, START, UNSET, GraphBuilder, Overwrite, RetryPolicy
from graphrt.reducers import append, ephemeral, merge, union, untracked

from .support import builder, node, texts


def router(state):
    return "x"


def node_shaped(state):
    return None


def generator(one, two=None):
    yield one


async def areducer(current, incoming):
    return current


def verdict(state) -> Literal["good", "poor"]:
    return "good"


CASES: list[tuple[Any, list[str]]] = []


def case(*expected: str) -> Any:
    """Register a graph and its findings."""
    return lambda build: CASES.append((build, list(expected)))


@case(
    "[unknown-node] The edge 'draft' -> node_shaped() names a node that was never added: node_shaped().\n"
    "      Fix: Add the function first, with @g.node or add_node(name, fn), or pass the name of a node.",
)
def a_function_that_was_never_added():
    return builder("draft").add_edge(START, "draft").add_edge("draft", node_shaped)


@case(
    "[duplicate-edge] The conditional edge 'a' -> router() is declared twice; the first is above.\n      Fix: Remove one of them.",
)
def duplicate_branch():
    g = builder("a").add_edge(START, "a")
    return g.add_conditional_edges("a", router, {"x": END}).add_conditional_edges("a", router, {"x": END})


@case(
    "[dead-route] Route 'bad' of the conditional edge 'poor' -> verdict() is never taken: the router returns 'good', 'poor' only.\n"
    "      Fix: Remove the route, or correct the router's return annotation.",
    "[dead-route] Route END of the conditional edge 'poor' -> verdict() is never taken: the router returns 'good', 'poor' only.\n"
    "      Fix: Remove the route, or correct the router's return annotation.",
)
def dead_route_in_a_list():
    g = builder("good", "poor", "bad").add_edge(START, "good").add_edge("good", "poor")
    return g.add_conditional_edges("poor", verdict, ["good", "poor", "bad", END])


@case(
    "[dead-route] Route ('x', 1) of the conditional edge 'a' -> router() is never taken: labels are strings, booleans, integers and members of an Enum.\n"
    "      Fix: Use one of these as the label, and let the router return it.",
    "[dead-route] Route None of the conditional edge 'a' -> router() is never taken: labels are strings, booleans, integers and members of an Enum.\n"
    "      Fix: Use one of these as the label, and let the router return it.",
)
def label_that_cannot_be():
    return builder("a").add_edge(START, "a").add_conditional_edges("a", router, {("x", 1): END, None: END, "y": END})


@case(
    "[bad-limit] Node 'a': max_visits must be at least 1, not 0.\n      Fix: Correct the value.",
    "[bad-limit] Node 'a': timeout_s must be a number of seconds, not 'long'.\n      Fix: Correct the value.",
    "[bad-limit] Node 'a': retry: attempts must be at least 1, not 0.\n      Fix: Correct the value.",
    "[bad-limit] Node 'a': retry: growth must be at least 1, not 0.5.\n      Fix: Correct the value.",
    "[bad-limit] Node 'a': retry: retry_on has <class 'int'>, which is not a type of Exception.\n"
    "      Fix: Correct the value.",
    "[bad-limit] Node 'a': cache must be at least 1, not -1.\n      Fix: Correct the value.",
    "[bad-limit] The join ['a', 'b'] -> 'b' has when=3.\n      Fix: Use 'all', 'any' or a whole number from 1 to 2.",
    "[bad-limit] The join ['a', 'b'] -> 'b' has starved='never'.\n      Fix: Use 'error', 'ignore' or 'run'.",
)
def bad_limits():
    g = builder("b")
    g.add_node("a", node, max_visits=0, timeout_s="long", retry=RetryPolicy(0, growth=0.5, retry_on=(int,)), cache=-1)
    return g.add_edge(START, "a").add_edge("a", "b").add_join(["a", "b"], "b", when=3, starved="never")


@case(
    "[bad-policy] Node 'a' has no policy 'retries'.\n      Fix: Did you mean 'retry'?",
    "[bad-policy] Node 'a': retry cannot be 'often'.\n"
    "      Fix: Use RetryPolicy(attempts=...) or a number of attempts.",
    "[bad-policy] Node 'a': interrupt_after must be True or False, not 'yes'.\n      Fix: Correct the value.",
    "[bad-policy] Node 'a': version must be a string, not 2.\n      Fix: Correct the value.",
    "[bad-policy] Node 'a': key= has no effect without cache=.\n      Fix: Correct the value.",
    "[bad-policy] Node 'a': input= is for nested graphs, and this node is a function.\n      Fix: Correct the value.",
)
def bad_policies():
    g = builder()
    g.add_node("a", node, retries=3, retry="often", interrupt_after="yes", version=2, key=len, input={"a": "b"})
    return g.add_edge(START, "a")


@case(
    "[bad-reducer] Reducer '<lambda>' of field 'one' cannot be called as reducer(current, incoming): it takes (current).\n"
    "      Fix: Give it exactly two positional parameters, or write a small function around it.",
    "[bad-reducer] Field 'two' has 2 reducers: append, union.\n      Fix: Keep one reducer in its Annotated[...].",
    "[bad-reducer] Reducer 'append' of field 'three' cannot fold str: it wants a list or a tuple.\n"
    "      Fix: Declare a list or a tuple, or use another reducer.",
    "[bad-reducer] Reducer 'areducer' of field 'four' is async.\n"
    "      Fix: Make it a plain function that returns the new value; slow work belongs into a node.",
    "[bad-reducer] Reducer 'generator' of field 'five' is a generator.\n"
    "      Fix: Make it a plain function that returns the new value; slow work belongs into a node.",
    "[bad-reducer] 'append' is inside the type of field 'six', where it has no effect.\n"
    "      Fix: Put it around the whole type: Annotated[<the type>, <the reducer>].",
    "[bad-reducer] 'merge' is inside the type of field 'seven', where it has no effect.\n"
    "      Fix: Put it around the whole type: Annotated[<the type>, <the reducer>].",
)
def bad_reducers():
    class Bad(TypedDict, total=False):
        one: Annotated[int, lambda current: current]
        two: Annotated[list[str], append, union]
        three: Annotated[str, append]
        four: Annotated[int, areducer]
        five: Annotated[int, generator]
        six: list[Annotated[str, append]]
        seven: Annotated[int, merge] | None

    return builder("a", state=Bad, update=None).add_edge(START, "a")


@case(
    "[bad-reducer] Field 'one' is ephemeral and has no default to return to after its superstep.\n"
    "      Fix: Give the field a default.",
    "[bad-reducer] Field 'two' is untracked and has no default to return to after a resume.\n"
    "      Fix: Give the field a default.",
)
def bad_markers():
    class Bad(BaseModel):
        one: Annotated[int, ephemeral]
        two: Annotated[list[str], append, untracked]

    return builder("a", state=Bad, update=None).add_edge(START, "a")


@case(
    "[bad-update-type] Fields of the dataclass Careless would be written even if a node does not set them: 'text'.\n"
    "      Fix: Give every field of a dataclass used as Update the default UNSET.",
)
def update_without_unset():
    @dataclasses.dataclass
    class Careless:
        text: str = ""
        tries: int = UNSET

    return builder("a", update=Careless).add_edge(START, "a")


@case(
    "[bad-state] Open allows extra fields, which a node that returns the full state cannot change.\n"
    "      Fix: Declare the fields, or use GraphBuilder(...) with partial updates.",
)
def overwrite_of_a_state_with_extras():
    class Open(BaseModel, extra="allow"):
        text: str = ""

    return GraphBuilder.overwrite(Open).add_node("a", node).add_edge(START, "a")


@pytest.mark.parametrize(("build", "expected"), CASES, ids=lambda value: getattr(value, "__name__", ""))
def test_each_mistake_has_this_text(build: Any, expected: list[str]) -> None:
    assert texts(build()) == expected


class Marked(TypedDict, total=False):
    text: list[str] | Overwrite  # type: ignore[valid-type]  # the tested mistake


def test_overwrite_in_an_annotation_is_reported_as_not_a_type():
    problem = GraphBuilder(Marked, Marked)._update.problems[0]

    assert (problem.code, problem.hint.split(":")[0]) == ("bad-annotation", "Overwrite is a function and not a type")
