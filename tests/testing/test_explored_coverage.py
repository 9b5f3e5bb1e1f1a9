"""Route coverage tells what explorers know of routes apart from what tests took."""

from __future__ import annotations

from pathlib import Path

from tests.testing.support import run_pytest

FLOWS = """
from pydantic import BaseModel
from graphrt import END, START, GraphBuilder

class State(BaseModel):
    n: int = 0

g = GraphBuilder(State, name="flows")
for name in ("plan", "tested", "possible", "impossible"):
    g.add_node(name, lambda state: {})
    if name != "plan":
        g.add_edge(name, END)
g.add_edge(START, "plan")
g.add_conditional_edges("plan", lambda state: min(state.n, 2), {0: "tested", 1: "possible", 2: "impossible"})
graph = g.compile()
"""
TOLD = """
from flows import graph
from graphrt.testing.route_coverage.arcs import Arc
from graphrt.testing.route_coverage.explored import paused, tell_explored

def test_told():
    with paused():
        graph.run({"n": 1})
        graph.run({"n": 2})
    graph.run({"n": 0})
    tell_explored(graph, {"": [Arc("node", "possible")]}, complete=True)
"""


def test_what_is_told_is_kept_apart_and_nothing_counts_while_paused(tmp_path: Path) -> None:
    _, out = run_pytest(tmp_path, "--graphrt-cov=flows", flows=FLOWS, test_flows=TOLD)

    assert "node possible  (possible: an explorer took it)" in out
    assert "node impossible  (impossible: no explored path takes it)" in out
    assert "node tested" not in out
