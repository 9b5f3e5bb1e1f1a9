"""Route coverage of runs that pause: a continued run is another run of its thread, maybe in another process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.testing.covered_graphs import State, log

from graphrt import END, START, Command, GraphBuilder, Runtime
from graphrt.errors import GraphrtError
from graphrt.graph import observe
from graphrt.stores import MemoryStore
from graphrt.testing import record
from graphrt.testing.route_coverage import Summary, load, summarise
from graphrt.testing.route_coverage.collecting import Collector


@pytest.mark.parametrize("runtimes", [1, 2])
@pytest.mark.parametrize("nested", [False, True])
def test_run_divided_by_a_pause_counts_as_a_whole(
    collect: Callable[..., Summary], tmp_path: Path, runtimes: int, *, nested: bool
) -> None:
    """The edges after an `interrupt_after`, of its node and of others, and a join that waits all along."""
    g = GraphBuilder(State, name="inner" if nested else "every")
    g.add_node("pause", log("pause"), interrupt_after=True)
    for name in ("early", "beside", "late", "never", "join"):
        g.add_node(name, log(name))
    g.add_edge(START, "early")
    g.add_edge(START, "beside")
    g.add_edge("beside", "pause")
    g.add_edge("early", "late")
    g.add_edge("pause", END)
    g.add_conditional_edges("late", lambda state: [], ["never"])
    g.add_join(["early", "never"], "join", starved="ignore")
    g.add_edge("join", END)
    graph = g.compile()
    if nested:
        above = GraphBuilder(State, name="every")
        above.add_node("inner", graph)
        above.add_sequence([START, "inner", END])
        graph = above.compile()
    store = f"sqlite:///{tmp_path / 'runs.db'}"
    with Runtime(graph, store=store) as first:
        asked = {info.id: None for info in first.run({"kind": ""}, thread="t").interrupts}
        if runtimes == 1:
            first.resume("t", asked)
    if runtimes == 2:
        with Runtime(graph, store=store) as second:
            second.resume("t", asked)

    summary = collect().graphs[-1]
    assert {arc.id for arc in summary.missing} == {
        "node:never", "node:join", "edge:join->END", "route:late:never->never", "join:early,never:fired->join",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("result", "taken"),
    [({"log": ["a"]}, ["node:b", "edge:a->b", "edge:b->END"]), (Command(goto="c"), ["node:c", "edge:c->END"])],
)
def test_pause_counts_the_edges_of_its_node_although_another_process_started(
    collect: Callable[..., Summary], tmp_path: Path, result: Any, taken: list[str]
) -> None:
    g = GraphBuilder(State, name="every")
    g.add_node("a", lambda state: result, interrupt_after=True, goto=["c"])
    for name in ("b", "c"):
        g.add_node(name, log(name))
        g.add_edge(name, END)
    g.add_edge(START, "a")
    g.add_edge("a", "b")
    graph = g.compile()
    with Runtime(graph, store=f"sqlite:///{tmp_path / 'runs.db'}") as runtime:
        asked = {info.id: None for info in runtime.run({"kind": ""}, thread="t").interrupts}
    stop = observe(other := Collector(tmp_path / "other"))
    with Runtime(graph, store=f"sqlite:///{tmp_path / 'runs.db'}") as runtime:
        runtime.resume("t", asked)
    other.flush()
    stop()

    found = summarise(load(tmp_path / "other"), ["every"]).graphs[0]
    assert [arc.id for arc in found.taken] == [*taken, "resume:a"]


def test_threads_of_one_name_in_two_stores_are_distinguished(collect: Callable[..., Summary]) -> None:
    """A thread paused after node `a` does not affect another thread with the same id, which starts as a copy."""

    def fails(state: State) -> None:
        raise ValueError("no")

    g = GraphBuilder(State, name="every")
    g.add_node("a", log("a"), interrupt_after=True)
    g.add_node("b", log("b"))
    g.add_edge(START, "a")
    g.add_edge("a", "b")
    g.add_edge("b", END)
    graph = g.compile()
    record(graph, {"kind": ""}, thread="t")
    store = MemoryStore()
    with pytest.raises(GraphrtError):
        Runtime(graph.with_nodes({"a": fails}), store=store).run({"kind": ""}, thread="source")
    Runtime(graph, store=store).copy_thread("source", "t")
    runtime = Runtime(graph.with_nodes({"a": lambda state: Command(goto=END)}), store=store)
    runtime.resume("t", {info.id: None for info in runtime.retry("t").interrupts})

    assert "edge:a->b" in {arc.id for arc in collect().graphs[0].missing}
