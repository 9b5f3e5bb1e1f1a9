"""Errors of compile() about edges, joins, routes and routers, compared literally."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graphrt import END, START

from .planting import Verdict, a, ab, enumed, flag, found, g, gen, go, later, texts, three, verdict, work

NO_REF = "Pass the name of a node, what @g.node returned, or START or END themselves."
DEFINE = "Known: 'a'. Define it with @g.node before compile()."
START_AT = "Start it at the node that leads to END."
ADD_ROUTE = "Add a route for it, or a default=."
ROUTER_SHAPE = "Take the state, and return a label, a list of labels or a list of Sends."
PAST = (
    "The edge START -> END leads past every node: nothing would run. (HERE)",
    "Lead START to a node; for runs that may end at once, give START a router with a route to END.",
)
CODES = {
    "bad-limit",
    "bad-signature",
    "dead-route",
    "duplicate-edge",
    "empty-routes",
    "end-as-source",
    "mixed-edges",
    "no-entry",
    "start-as-target",
    "start-to-end",
    "unknown-node",
    "unknown-route",
}

WRONG: list[tuple[str, Callable[[], Any], str, str]] = [
    (
        "no-entry",
        lambda: g("a"),
        "Graph 'g' has no edge from START; nodes: 'a'.",
        "Call add_edge(START, node), set_entry(node) or set_conditional_entry(...).",
    ),
    (
        "no-entry",
        g,
        "Graph 'g' has no edge from START; it has no nodes either.",
        "Call add_edge(START, node), set_entry(node) or set_conditional_entry(...).",
    ),
    (
        "unknown-node",
        lambda: a().add_edge("a", "bb"),
        "The edge 'a' -> 'bb' names a node that was never added: 'bb'. (HERE)",
        DEFINE,
    ),
    (
        "unknown-node",
        lambda: g("review", "a").add_sequence([START, "a", "review"]).add_edge("a", "reviw"),
        "The edge 'a' -> 'reviw' names a node that was never added: 'reviw'. (HERE)",
        "Did you mean 'review'? Otherwise define 'reviw' with @g.node before compile().",
    ),
    (
        "unknown-node",
        lambda: a().add_edge("x", "a"),
        "The edge 'x' -> 'a' names a node that was never added: 'x'. (HERE)",
        DEFINE,
    ),
    (
        "unknown-node",
        lambda: a().add_edge("a", 7),
        "The edge 'a' -> 7 names a node that was never added: 7. (HERE)",
        NO_REF,
    ),
    (
        "unknown-node",
        lambda: a().add_edge("a", "END"),
        "The edge 'a' -> 'END' names a node that was never added: 'END'. (HERE)",
        "Pass the object END (from graphrt import END), not its name.",
    ),
    (
        "unknown-node",
        lambda: a().add_edge("__start__", "a"),
        "The edge '__start__' -> 'a' names a node that was never added: '__start__'. (HERE)",
        "Pass the object START (from graphrt import START), not its name.",
    ),
    (
        "unknown-node",
        lambda: a().add_conditional_edges("a", go, {"a": "zzz"}),
        "The route 'a' of the conditional edge 'a' -> go() names a node that was never added: 'zzz'. (HERE)",
        DEFINE,
    ),
    (
        "unknown-node",
        lambda: a().add_conditional_edges("a", go, {"a": "a"}, default="zzz"),
        "The default= of the conditional edge 'a' -> go() names a node that was never added: 'zzz'. (HERE)",
        DEFINE,
    ),
    (
        "unknown-node",
        lambda: a().add_join(["a", "zzz"], "a"),
        "The join ['a', 'zzz'] -> 'a' names a node that was never added: 'zzz'. (HERE)",
        DEFINE,
    ),
    (
        "unknown-node",
        lambda: a().add_join([START, "a"], "a"),
        "The join [START, 'a'] -> 'a' waits for START, which never runs. (HERE)",
        "Join nodes; what START leads to runs by itself.",
    ),
    (
        "unknown-node",
        lambda: g().add_node("a", work, on_error="zzz").set_entry("a"),
        "The on_error= of node 'a' names a node that was never added: 'zzz'. (HERE)",
        DEFINE,
    ),
    (
        "unknown-node",
        lambda: g().add_node("a", work, goto=["zzz"]).set_entry("a"),
        "The goto= of node 'a' names a node that was never added: 'zzz'. (HERE)",
        DEFINE,
    ),
    (
        "start-as-target",
        lambda: a().add_edge("a", START),
        "The edge 'a' -> START leads to START, which is only where the input comes in. (HERE)",
        "Lead it to the node that START leads to.",
    ),
    (
        "start-as-target",
        lambda: a().add_conditional_edges("a", go, {"a": START, "e": END}),
        "The route 'a' of the conditional edge 'a' -> go() leads to START, which is only where the input comes in. (HERE)",
        "Lead it to the node that START leads to.",
    ),
    (
        "end-as-source",
        lambda: a().add_edge(END, "a"),
        "The edge END -> 'a' starts at END, where every branch is over. (HERE)",
        START_AT,
    ),
    (
        "end-as-source",
        lambda: a().add_conditional_edges(END, go, ["a"]),
        "The conditional edge END -> go() starts at END, where every branch is over. (HERE)",
        START_AT,
    ),
    (
        "end-as-source",
        lambda: ab().add_join(["a", END], "b"),
        "The join ['a', END] -> 'b' starts at END, where every branch is over. (HERE)",
        START_AT,
    ),
    (
        "duplicate-edge",
        lambda: ab().add_edge("a", "b"),
        "The edge 'a' -> 'b' is declared twice; the first is at HERE. (HERE)",
        "Remove one of them.",
    ),
    (
        "duplicate-edge",
        lambda: a().set_entry("a"),
        "The edge START -> 'a' is declared twice; the first is at HERE. (HERE)",
        "Remove one of them.",
    ),
    (
        "duplicate-edge",
        lambda: ab().add_join(["a", "b"], "b").add_join(["b", "a"], "b"),
        "The join ['b', 'a'] -> 'b' is declared twice. (HERE)",
        "Name each source once.",
    ),
    (
        "duplicate-edge",
        lambda: ab().add_join(["a", "a"], "b"),
        "The join ['a', 'a'] -> 'b' names a source twice. (HERE)",
        "Name each source once.",
    ),
    ("start-to-end", lambda: a().add_edge(START, END), *PAST),
    ("start-to-end", lambda: g().add_sequence([START, END]), *PAST),
    ("start-to-end", lambda: g().set_entry(END), *PAST),
    (
        "mixed-edges",
        lambda: ab().add_conditional_edges("a", go, {"a": "a", "e": END}),
        "Node 'a' has both static and conditional edges. (HERE)",
        "Let the router return a list that holds the fixed target too, or put a node in between.",
    ),
    (
        "mixed-edges",
        lambda: ab().set_conditional_entry(go, ["a", "b"]),
        "START has both static and conditional edges. (HERE)",
        "Let the router return a list that holds the fixed target too, or put a node in between.",
    ),
    (
        "empty-routes",
        lambda: a().add_conditional_edges("a", go, {}),
        "The conditional edge 'a' -> go() has no routes. (HERE)",
        "Map each label to a node or END, list the possible nodes, or annotate the router to return a Literal of names.",
    ),
    (
        "empty-routes",
        lambda: a().add_conditional_edges("a", lambda state: "a"),
        "The conditional edge 'a' -> <lambda>() has no routes. (HERE)",
        "Map each label to a node or END, list the possible nodes, or annotate the router to return a Literal of names.",
    ),
    (
        "duplicate-edge",
        lambda: a().add_conditional_edges("a", go, [("a", "a"), ("b", END), ("a", END)]),
        "The route 'a' after 'a' is declared twice; the first is in the same list. (HERE)",
        "Remove one of them.",
    ),
    ("empty-routes", lambda: a().add_join([], "a"), "The join [] -> 'a' has no sources. (HERE)", "Name the sources."),
    (
        "unknown-route",
        lambda: a().add_conditional_edges("a", verdict, {"good": END}),
        "The router of the conditional edge 'a' -> verdict() can return 'poor', which has no route; known: 'good'. (HERE)",
        ADD_ROUTE,
    ),
    (
        "unknown-route",
        lambda: a().add_conditional_edges("a", enumed, {Verdict.GOOD: END}),
        "The router of the conditional edge 'a' -> enumed() can return Verdict.POOR, which has no route; known: Verdict.GOOD. (HERE)",
        ADD_ROUTE,
    ),
    (
        "unknown-route",
        lambda: a().add_conditional_edges("a", flag, {True: END}),
        "The router of the conditional edge 'a' -> flag() can return False, which has no route; known: True. (HERE)",
        ADD_ROUTE,
    ),
    (
        "dead-route",
        lambda: a().add_conditional_edges("a", verdict, {"good": END, "poor": END, "bad": "a"}),
        "Route 'bad' of the conditional edge 'a' -> verdict() is never taken: the router returns 'good', 'poor' only. (HERE)",
        "Remove the route, or correct the router's return annotation.",
    ),
    (
        "bad-signature",
        lambda: a().add_conditional_edges("a", later, {"a": END}),
        "The router of the conditional edge 'a' -> later() cannot be called as router(state) or router(state, ctx): it is async: a router is a pure plain function; put the work into a node that returns a Command. (HERE)",
        ROUTER_SHAPE,
    ),
    (
        "bad-signature",
        lambda: a().add_conditional_edges("a", three, {"a": END}),
        "The router of the conditional edge 'a' -> three() cannot be called as router(state) or router(state, ctx): it wants 3 positional arguments. (HERE)",
        ROUTER_SHAPE,
    ),
    (
        "bad-signature",
        lambda: a().add_conditional_edges("a", gen, {"a": END}),
        "The router of the conditional edge 'a' -> gen() cannot be called as router(state) or router(state, ctx): it is a generator: a router returns labels or Sends. (HERE)",
        ROUTER_SHAPE,
    ),
    (
        "bad-signature",
        lambda: a().add_conditional_edges("a", None, {"a": END}),
        "The router of the conditional edge 'a' -> NoneType() cannot be called as router(state) or router(state, ctx): None cannot be called. (HERE)",
        ROUTER_SHAPE,
    ),
    (
        "bad-limit",
        lambda: ab().add_join(["a", "b"], "b", when=3),
        "The join ['a', 'b'] -> 'b' has when=3. (HERE)",
        "Use 'all', 'any' or a whole number from 1 to 2.",
    ),
    (
        "bad-limit",
        lambda: ab().add_join(["a", "b"], "b", when="most"),
        "The join ['a', 'b'] -> 'b' has when='most'. (HERE)",
        "Use 'all', 'any' or a whole number from 1 to 2.",
    ),
    (
        "bad-limit",
        lambda: ab().add_join(["a", "b"], "b", starved="no"),
        "The join ['a', 'b'] -> 'b' has starved='no'. (HERE)",
        "Use 'error', 'ignore' or 'run'.",
    ),
    (
        "unknown-node",
        lambda: g().add_node("a", work, on_error=[]).set_entry("a"),
        "The on_error= of node 'a' names a node that was never added: []. (HERE)",
        NO_REF,
    ),
]


@pytest.mark.parametrize(
    ("code", "make", "message", "hint"), [pytest.param(*row, id=f"{row[0]}-{n}") for n, row in enumerate(WRONG)]
)
def test_wrong_graph_has_one_problem_with_this_text(code: str, make: Any, message: str, hint: str) -> None:
    assert texts(make()) == [f"[{code}] {message}\n      Fix: {hint}"]


def test_every_error_is_in_the_table() -> None:
    assert {row[0] for row in WRONG} == CODES


def test_similar_label_is_suggested() -> None:
    problems = found(a().add_conditional_edges("a", verdict, {"good": END, "pooor": END}))

    assert [p.code for p in problems] == ["unknown-route", "dead-route"]
    assert problems[0].hint == "Did you mean 'pooor'? Otherwise add a route for it, or a default=."


@pytest.mark.parametrize("ref", [{}, [], 7, None])
def test_value_that_is_not_a_reference_is_reported(ref: Any) -> None:
    (problem,) = found(a().add_edge("a", ref))

    assert (problem.code, problem.node) == ("unknown-node", None)
    assert problem.message == f"The edge 'a' -> {ref!r} names a node that was never added: {ref!r}."


def test_router_at_start_may_choose_end() -> None:
    graph = g("a").set_conditional_entry(lambda state: "e", {"a": "a", "e": END}).compile()

    assert graph.run({}).steps == 0
