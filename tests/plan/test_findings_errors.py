"""Errors of compile() about state, update, nodes, policies and limits, compared literally."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from graphrt import GraphBuilder, Limits, RetryPolicy
from graphrt.errors import names
from graphrt.graph.policies import GraphPolicy

from .planting import (
    Defaults,
    Misspelt,
    One,
    State,
    Two,
    Unknown,
    Untracked,
    a,
    found,
    g,
    lost,
    many,
    nothing,
    texts,
    work,
)

NAME = "Use a string of 1 to 500 characters."
NODE_SHAPE = "Take the state, and the context as a second positional parameter without default."
VALUE = "Correct the value."
JUDGED = "'unreachable-node', 'no-way-out', 'starving-join', 'write-conflict', 'endless-loop', 'deleted-source'"
CODES = {
    "bad-annotation",
    "bad-limit",
    "bad-name",
    "bad-policy",
    "bad-reducer",
    "bad-signature",
    "bad-state",
    "bad-update-type",
    "duplicate-node",
    "reserved-name",
}

WRONG: list[tuple[str, Callable[[], Any], str, str]] = [
    (
        "duplicate-node",
        lambda: a().add_node("a", work),
        "Node 'a' is defined twice; the first definition is at HERE. (HERE)",
        "Rename one of them; to replace a node in a test, use graph.with_nodes().",
    ),
    (
        "reserved-name",
        lambda: a().add_node("END", work).add_edge("a", "END"),
        "A node cannot be named 'END': that is an end of every graph. (HERE)",
        "Choose another name.",
    ),
    ("bad-name", lambda: a().add_node("", work), "'' cannot be the name of a node: it is empty. (HERE)", NAME),
    (
        "bad-name",
        lambda: a().add_node(3, work),
        "3 cannot be the name of a node: it is not a string but of type int. (HERE)",
        NAME,
    ),
    (
        "bad-name",
        lambda: a().add_node("\ud800", work),
        "'\\ud800' cannot be the name of a node: it has a lone surrogate. (HERE)",
        NAME,
    ),
    (
        "bad-name",
        lambda: GraphBuilder(State, name=" ").add_node("a", work).set_entry("a"),
        "' ' cannot be the name of a graph. (HERE)",
        "Use a string that is not blank.",
    ),
    (
        "bad-signature",
        lambda: g().add_node("a", lost).set_entry("a"),
        "Node 'a' cannot be called as fn(state) or fn(state, ctx): it wants 3 positional arguments. (HERE)",
        NODE_SHAPE,
    ),
    (
        "bad-signature",
        lambda: g().add_node("a", nothing).set_entry("a"),
        "Node 'a' cannot be called as fn(state) or fn(state, ctx): it takes no positional argument. (HERE)",
        NODE_SHAPE,
    ),
    (
        "bad-signature",
        lambda: g().add_node("a", many).set_entry("a"),
        "Node 'a' cannot be called as fn(state) or fn(state, ctx): it is a generator: a node returns one update. (HERE)",
        "Return one update instead of yielding; ctx.emit(value) shows progress.",
    ),
    (
        "bad-signature",
        lambda: g().add_node("a", 5).set_entry("a"),
        "Node 'a' cannot be called as fn(state) or fn(state, ctx): 5 cannot be called. (HERE)",
        "Pass the function itself: add_node('work', work), not what a call of it returned.",
    ),
    (
        "bad-reducer",
        lambda: g("a", state=One).set_entry("a"),
        "Reducer '<lambda>' of field 'total' cannot be called as reducer(current, incoming): it takes (current).",
        "Give it exactly two positional parameters, or write a small function around it.",
    ),
    (
        "bad-update-type",
        lambda: g("a", update=Misspelt).set_entry("a"),
        "Misspelt names 'txet', which the state does not have.",
        "Did you mean 'text'?",
    ),
    (
        "bad-update-type",
        lambda: g("a", update=int).set_entry("a"),
        "<class 'int'> cannot be the Update of a graph.",
        "Use a TypedDict with total=False, a pydantic model or a dataclass of partial updates.",
    ),
    (
        "bad-update-type",
        lambda: g("a", update=Defaults).set_entry("a"),
        "Fields of the dataclass Defaults would be written even if a node does not set them: 'text'.",
        "Give every field of a dataclass used as Update the default UNSET.",
    ),
    (
        "bad-update-type",
        lambda: g().add_node("a", work, writes=["txt"]).set_entry("a"),
        "Node 'a' writes 'txt', which is not a field of the state. (HERE)",
        "Did you mean 'text'?",
    ),
    (
        "bad-limit",
        lambda: g().add_node("a", work, max_visits=0).set_entry("a"),
        "Node 'a': max_visits must be at least 1, not 0. (HERE)",
        VALUE,
    ),
    (
        "bad-limit",
        lambda: g().add_node("a", work, timeout_s=-1).set_entry("a"),
        "Node 'a': timeout_s must be at least 0, not -1. (HERE)",
        VALUE,
    ),
    (
        "bad-limit",
        lambda: g().add_node("a", work, retry=0).set_entry("a"),
        "Node 'a': retry: attempts must be at least 1, not 0. (HERE)",
        VALUE,
    ),
    (
        "bad-limit",
        lambda: g().add_node("a", work, retry=RetryPolicy(retry_on="x")).set_entry("a"),
        "Node 'a': retry: retry_on must be exception types or a predicate, not 'x'. (HERE)",
        VALUE,
    ),
    (
        "bad-limit",
        lambda: g().add_node("a", work, cache=0).set_entry("a"),
        "Node 'a': cache must be at least 1, not 0. (HERE)",
        VALUE,
    ),
    (
        "bad-state",
        lambda: g("a", state=int).set_entry("a"),
        "<class 'int'> cannot be a state.",
        "Use a pydantic model, a dataclass or a TypedDict class.",
    ),
    (
        "bad-policy",
        lambda: g().add_node("a", work, retries=3).set_entry("a"),
        "Node 'a' has no policy 'retries'. (HERE)",
        "Did you mean 'retry'?",
    ),
    (
        "bad-policy",
        lambda: g().add_node("a", work, zzzz=3).set_entry("a"),
        "Node 'a' has no policy 'zzzz'. (HERE)",
        f"Known: {names(sorted(GraphPolicy.__annotations__))}.",
    ),
    (
        "bad-policy",
        lambda: g().add_node("a", work, retry="x").set_entry("a"),
        "Node 'a': retry cannot be 'x'. (HERE)",
        "Use RetryPolicy(attempts=...) or a number of attempts.",
    ),
    (
        "bad-policy",
        lambda: g().add_node("a", work, interrupt_before="yes").set_entry("a"),
        "Node 'a': interrupt_before must be True or False, not 'yes'. (HERE)",
        VALUE,
    ),
    (
        "bad-policy",
        lambda: g().add_node("a", work, version=3).set_entry("a"),
        "Node 'a': version must be a string, not 3. (HERE)",
        VALUE,
    ),
    (
        "bad-policy",
        lambda: g().add_node("a", work, cache=True, key=3).set_entry("a"),
        "Node 'a': key must be a function of the state, not 3. (HERE)",
        VALUE,
    ),
    (
        "bad-limit",
        lambda: g().add_node("a", work, cache="x").set_entry("a"),
        "Node 'a': cache must be a whole number, not 'x'. (HERE)",
        VALUE,
    ),
    (
        "bad-reducer",
        lambda: g("a", state=Two).set_entry("a"),
        "Field 'total' has 2 reducers: add, max.",
        "Keep one reducer in its Annotated[...].",
    ),
    (
        "bad-reducer",
        lambda: g("a", state=Untracked).set_entry("a"),
        "Field 'client' is untracked and has no default to return to after a resume.",
        "Give the field a default.",
    ),
    (
        "bad-annotation",
        lambda: g("a", state=Unknown).set_entry("a"),
        "The annotations of Unknown cannot be resolved: name 'Nowhere' is not defined.",
        "Define the named types before GraphBuilder(...), at module level or in the same function.",
    ),
]


@pytest.mark.parametrize(
    ("code", "make", "message", "hint"), [pytest.param(*row, id=f"{row[0]}-{n}") for n, row in enumerate(WRONG)]
)
def test_wrong_graph_has_one_problem_with_this_text(code: str, make: Any, message: str, hint: str) -> None:
    assert texts(make()) == [f"[{code}] {message}\n      Fix: {hint}"]


def test_every_error_is_in_the_table() -> None:
    assert {row[0] for row in WRONG} == CODES


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (Limits(max_steps=0), "max_steps must be at least 1, not 0"),
        (Limits(max_visits=0), "max_visits must be at least 1, not 0"),
        (Limits(max_tasks=-1), "max_tasks must be at least 1, not -1"),
        (Limits(max_steps=None), "max_steps must be a number, not None"),  # type: ignore[arg-type]
        (Limits(max_steps=True), "max_steps must be a whole number, not True"),
        (Limits(max_visits=1.5), "max_visits must be a whole number, not 1.5"),  # type: ignore[arg-type]
        (Limits(deadline_s="x"), "deadline_s must be a number of seconds, not 'x'"),  # type: ignore[arg-type]
        (Limits(timeout_s=float("nan")), "timeout_s must be at least 0, not nan"),
    ],
)
def test_invalid_limits_of_the_graph_are_reported(limits: Limits, message: str) -> None:
    assert texts(a(), limits=limits) == [
        f"[bad-limit] The limits of the graph: {message}.\n      Fix: Correct the value."
    ]


@pytest.mark.parametrize("code", ["unreachable", "no-entry", ""])
def test_invalid_allow_is_reported(code: str) -> None:
    assert texts(a(), allow=[code]) == [
        f"[bad-allow] allow= names {code!r}, which is not a judgement that can be accepted.\n      Fix: Known: {JUDGED}."
    ]


def test_invalid_allow_names_all_codes_in_a_fixed_order() -> None:
    assert [p.message.split()[2] for p in found(a(), allow=("z", "y", "x"))] == ["'x',", "'y',", "'z',"]


def test_long_name_is_truncated_in_the_message() -> None:
    (problem,) = found(a().add_node("x" * 501, work))

    assert problem.message == f"'{'x' * 78}… cannot be the name of a node: it has 501 characters."
    assert a().add_node("x" * 500, work).add_edge("a", "x" * 500).compile()


@pytest.mark.parametrize("writes", [[[]], [3]])
def test_invalid_writes_are_reported(writes: Any) -> None:
    (problem,) = found(g().add_node("a", work, writes=writes).set_entry("a"))

    assert problem.message == f"Node 'a' writes {writes[0]!r}, which is not a field of the state."
