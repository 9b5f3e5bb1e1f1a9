"""The cost of compiling grows linearly with the graph: calls are counted, time is never measured."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

from graphrt import END, START, DefinitionError, GraphBuilder

from .support import State, node


def router(state: Any) -> str:
    return "a"


def graph() -> Any:
    return GraphBuilder(State, name="g")


def add_all(g: Any, *names: str, **policy: Any) -> None:
    for name in names:
        g.add_node(name, node, **policy)


def chain(n: int) -> Any:
    g = graph()
    add_all(g, *(f"n{i}" for i in range(n)))
    g.add_sequence([START, *(f"n{i}" for i in range(n)), END])
    return g


def chain_declared_backwards(n: int) -> Any:
    g = graph()
    add_all(g, *(f"n{i}" for i in range(n)))
    return g.add_sequence([START, *(f"n{i}" for i in reversed(range(n))), END])


def cycle(n: int) -> Any:
    g = chain(n)
    return g.add_edge(f"n{n - 1}", "n0")


def wide_join(n: int) -> Any:
    g = graph()
    sources = [f"n{i}" for i in range(n)]
    add_all(g, "fork", *sources, "join")
    g.add_edge(START, "fork")
    for name in sources:
        g.add_edge("fork", name)
    return g.add_join(sources, "join").add_conditional_edges("join", router, {"a": "fork", "b": END})


def wide_join_of_routed_sources(n: int) -> Any:
    g = graph()
    sources = [f"n{i}" for i in range(n)]
    add_all(g, "fork", "join")
    g.add_edge(START, "fork")
    for name in sources:
        add_all(g, f"to_{name}", name)
        g.add_edge("fork", f"to_{name}").add_conditional_edges(f"to_{name}", router, {"a": name, "b": END})
    return g.add_join(sources, "join")


def diamonds_behind_routers(n: int) -> Any:
    g = graph()
    before: Any = START
    for i in range(n):
        add_all(g, f"fork{i}", f"a{i}", f"b{i}", f"join{i}")
        g.add_conditional_edges(before, router, {"a": f"fork{i}", "b": END})
        g.add_edge(f"fork{i}", f"a{i}").add_edge(f"fork{i}", f"b{i}").add_join([f"a{i}", f"b{i}"], f"join{i}")
        before = f"join{i}"
    return g


def joins_of_routed_arms(n: int) -> Any:
    g = graph()
    before: Any = START
    for i in range(n):
        add_all(g, *(f"{kind}{i}" for kind in ("fork", "left", "right", "short", "meet", "join")))
        g.add_edge(before, f"fork{i}").add_edge(f"fork{i}", f"left{i}").add_edge(f"fork{i}", f"right{i}")
        g.add_conditional_edges(f"left{i}", router, {"a": f"short{i}", "b": f"meet{i}"}).add_edge(
            f"short{i}", f"meet{i}"
        )
        g.add_join([f"right{i}", f"meet{i}"], f"join{i}")
        before = f"join{i}"
    return g


def joins_behind_one_router(n: int) -> Any:
    g = graph()
    add_all(g, "choose")
    g.add_edge(START, "choose")
    for i in range(n):
        add_all(g, f"a{i}", f"b{i}", f"join{i}")
        g.add_join([f"a{i}", f"b{i}"], f"join{i}")
    routes = {f"{arm}{i}": f"{arm}{i}" for i in range(n) for arm in "ab"}
    return g.add_conditional_edges("choose", router, routes)


def fan_out_of_writers(n: int) -> Any:
    g = graph()
    add_all(g, "fork")
    g.add_edge(START, "fork")
    for i in range(n):
        g.add_node(f"n{i}", node, writes=["text"]).add_edge("fork", f"n{i}")
    return g


def comb_of_writers(n: int) -> Any:
    g = graph()
    before: Any = START
    for i in range(n):
        g.add_node(f"n{i}", node).add_node(f"w{i}", node, writes=["text"])
        g.add_edge(before, f"n{i}").add_edge(f"n{i}", f"w{i}")
        before = f"n{i}"
    return g


def tree_of_writers(n: int) -> Any:
    g = graph().add_node("n1", node, writes=["text"]).add_edge(START, "n1")
    for i in range(2, n):
        g.add_node(f"n{i}", node, writes=["text"]).add_edge(f"n{i // 2}", f"n{i}")
    return g


def loops_of_writers_side_by_side(n: int) -> Any:
    g = graph()
    for i in range(n):
        g.add_node(f"n{i}", node, writes=["text"]).add_edge(START, f"n{i}")
        g.add_conditional_edges(f"n{i}", router, {"a": f"n{i}", "b": END})
    return g


def misspelt_names(n: int) -> Any:
    g = graph()
    add_all(g, *(f"a long name {i}" for i in range(n)))
    g.add_edge(START, "a long name 0")
    for i in range(n):
        g.add_edge(f"a long name {i}", f"a lonk name {i}")
    return g


def calls(action: Callable[[], object]) -> int:
    """Calls of Python functions and built-ins by *action*."""
    count = 0

    def note(frame: Any, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


def compiling(make: Callable[[int], Any], n: int) -> int:
    g = make(n)

    def compile_it() -> None:
        with contextlib.suppress(DefinitionError):
            g.compile()

    return calls(compile_it)


SHAPES = [
    chain,
    chain_declared_backwards,
    cycle,
    wide_join,
    wide_join_of_routed_sources,
    diamonds_behind_routers,
    joins_of_routed_arms,
    joins_behind_one_router,
    fan_out_of_writers,
    comb_of_writers,
    tree_of_writers,
    loops_of_writers_side_by_side,
]


@pytest.mark.parametrize("make", SHAPES, ids=lambda make: make.__name__)
def test_calls_for_each_node_do_not_grow_with_the_graph(make: Any) -> None:
    assert compiling(make, 400) <= 5 * compiling(make, 100)  # a sort is allowed; the square would be 16


def test_suggestions_stop_after_many_mistakes() -> None:
    few, many = compiling(misspelt_names, 300), compiling(misspelt_names, 1_200)

    assert many - few <= 60 * 900


def test_a_chain_of_3_000_nodes_compiles_and_is_drawn() -> None:
    compiled = chain(3_000).compile()

    assert len(compiled.nodes) == 3_000
    assert compiled.to_mermaid().count("\n") == 2 + 1 + 3_000 + 3_001


def test_thousands_of_writers_are_one_problem() -> None:
    with pytest.raises(DefinitionError) as caught:
        fan_out_of_writers(3_000).compile()

    assert [problem.code for problem in caught.value.problems] == ["write-conflict"]
    assert len(str(caught.value)) < 1_000
