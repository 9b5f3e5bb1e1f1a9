"""Explorations of graphs whose nodes wait for child threads or signals, which nothing brings: they end and say so."""

from __future__ import annotations

from typing import Any

import pytest
from tests.workers.child_support import Plan, child_of, double, plan_graph, work_graph

from graphrt import Context
from graphrt.graph import CompiledGraph
from graphrt.testing import explore_crashes, explore_routes, explore_schedules


def receive(state: Plan, ctx: Context) -> dict[str, Any]:
    return {"got": [ctx.receive("paid")]}


GRAPHS = [
    pytest.param(child_of(work_graph(double)), "a child thread", id="child"),
    pytest.param(plan_graph(receive), "a signal", id="signal"),
]


@pytest.mark.parametrize(("graph", "what"), GRAPHS)
def test_a_crash_exploration_says_what_its_run_waits_for(graph: CompiledGraph[Plan, Any], what: str) -> None:
    found = explore_crashes(graph, {"most": 1})

    assert [finding.kind for finding in found.findings] == ["not-resumable"]
    assert f"waits for {what}" in str(found)


@pytest.mark.parametrize(("graph", "what"), GRAPHS)
def test_schedules_and_routes_end_at_the_wait(graph: CompiledGraph[Plan, Any], what: str) -> None:
    assert explore_schedules(graph, {"most": 1}, options=lambda: {"store": "memory:"}).findings == ()
    assert explore_routes(graph, {"most": 1}, alternatives=dict.fromkeys(graph.nodes)).findings == ()
