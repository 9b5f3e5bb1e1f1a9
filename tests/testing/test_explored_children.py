"""Explorations of graphs whose nodes wait for child threads or signals, which never arrive, and of queues."""

from __future__ import annotations

from typing import Any

import pytest
from tests.workers.child_support import Plan, child_of, double, plan_graph, work_graph
from tests.workers.queue_support import alone, fan, inner, note

from graphrt import END, START, Context, GraphBuilder
from graphrt.graph import CompiledGraph
from graphrt.testing import explore_crashes, explore_forks, explore_routes, explore_schedules


def receive(state: Plan, ctx: Context) -> dict[str, Any]:
    return {"got": [ctx.receive("paid")]}


GRAPHS = [
    pytest.param(child_of(work_graph(double)), "a child thread", id="child"),
    pytest.param(plan_graph(receive), "a signal", id="signal"),
]


@pytest.mark.parametrize(("graph", "what"), GRAPHS)
def test_crash_exploration_reports_what_its_run_waits_for(graph: CompiledGraph[Plan, Any], what: str) -> None:
    found = explore_crashes(graph, {"most": 1})

    assert [finding.kind for finding in found.findings] == ["not-resumable"]
    assert f"waits for {what}" in str(found)


@pytest.mark.parametrize(("graph", "what"), GRAPHS)
def test_schedules_and_routes_end_at_the_wait(graph: CompiledGraph[Plan, Any], what: str) -> None:
    assert explore_schedules(graph, {"most": 1}, options=lambda: {"store": "memory:"}).findings == ()
    assert explore_routes(graph, {"most": 1}, alternatives=dict.fromkeys(graph.nodes)).findings == ()


@pytest.mark.parametrize(("graph", "what"), GRAPHS)
def test_walk_along_routes_reports_what_it_waits_for(graph: CompiledGraph[Plan, Any], what: str) -> None:
    found = explore_routes(graph, {"most": 1}, alternatives={})

    assert found.findings == ()
    assert [reason for reason in found.left_out if f"what follows a wait for {what}" in reason] != []


def nested() -> CompiledGraph[Any, Any]:
    g = GraphBuilder(Plan, name="outer")
    g.add_node("inner", inner(queue="cpu"), input=lambda state: {}, output={}, queue="gpu")
    return g.add_edge(START, "inner").add_edge("inner", END).compile()


@pytest.mark.slow
@pytest.mark.parametrize("graph", [alone(note), fan(note), nested()], ids=["alone", "fan", "nested"])
def test_nodes_of_queues_run_in_place(graph: CompiledGraph[Any, Any]) -> None:
    crashes, forks = explore_crashes(graph, {}), explore_forks(graph, {})
    orders = explore_schedules(graph, {}, options=lambda: {"store": "memory:"})
    routes = explore_routes(graph, {}, alternatives={})

    assert (crashes.ok, forks.ok, orders.ok, routes.ok) == (True, True, True, True), f"{crashes}\n{forks}\n{routes}"
    assert crashes.tried > 5
    assert routes.left_out == ()


def test_copy_without_queues_is_the_same_graph() -> None:
    graph = nested()
    copy = graph.without_queues()

    assert (sorted(graph.queues), sorted(copy.queues)) == (["cpu", "gpu"], [])
    assert copy.fingerprint == graph.fingerprint
    assert copy.run({}, store="memory:", thread="t").status == "completed"
    assert graph.run({}, store="memory:", thread="t").status == "interrupted"
    assert copy.without_queues() is copy
