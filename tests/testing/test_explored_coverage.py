"""Route coverage separates the routes that explorers take from those that tests take."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.testing.support import run_pytest

pytestmark = pytest.mark.slow  # each test starts pytest

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
TESTS = """
from flows import graph
from graphrt.testing import explore_routes

def test_run():
    graph.run({"n": 0})

def test_explored():
    explore_routes(graph, {}, alternatives={"plan": [{"n": 0}, {"n": 1}]}%s).check()
"""


TOLD = """
from flows import graph
from graphrt.testing.route_coverage.arcs import Arc
from graphrt.testing.route_coverage.collecting import paused, tell_explored

def test_told():
    with paused():
        graph.run({"n": 1})
        graph.run({"n": 2})
    graph.run({"n": 0})
    tell_explored(graph, {"": [Arc("node", "possible")]}, complete=True)
"""


def test_explored_routes_are_kept_apart_and_nothing_counts_while_paused(tmp_path: Path) -> None:
    _, out = run_pytest(tmp_path, "--graphrt-cov=flows", flows=FLOWS, test_flows=TOLD)

    assert "node possible  (possible: an explorer took it)" in out
    assert "node impossible  (impossible: no explored path takes it)" in out
    assert "node tested" not in out


def test_routes_of_explorers_are_possible_or_impossible_and_not_taken(tmp_path: Path) -> None:
    code, out = run_pytest(
        tmp_path,
        "--graphrt-cov=flows",
        "--graphrt-cov-report=term-missing",
        "--graphrt-cov-report=json:arcs.json",
        flows=FLOWS,
        test_flows=TESTS % "",
    )

    assert code == 0, out
    assert "node possible  (possible: an explorer took it)" in out
    assert "plan -[2]-> impossible  (impossible: no explored path takes it)" in out
    (graph,) = json.loads((tmp_path / "arcs.json").read_text())["graphs"]
    known = {arc["id"]: (arc["taken"], arc.get("possible")) for arc in graph["arcs"] if arc["kind"] == "node"}
    assert known == {
        "node:plan": (True, None),
        "node:tested": (True, None),
        "node:possible": (False, True),
        "node:impossible": (False, False),
    }


def test_nothing_is_impossible_if_paths_were_skipped(tmp_path: Path) -> None:
    _, out = run_pytest(tmp_path, "--graphrt-cov=flows", flows=FLOWS, test_flows=TESTS % ", max_paths=1")

    assert "node possible\n" in out
    assert "impossible:" not in out


def test_merged_data_keeps_explored_routes(tmp_path: Path) -> None:
    from graphrt.testing.route_coverage import load, summarise
    from graphrt.testing.route_coverage.arcs import Arc

    run_pytest(tmp_path, "--graphrt-cov=flows", flows=FLOWS, test_flows=TESTS % "")
    data = load(tmp_path / ".graphrt_coverage.json")
    data.merge(load(tmp_path / ".graphrt_coverage.json"))
    data.save(tmp_path / "again.json")

    (graph,) = summarise(load(tmp_path / "again.json"), ["flows"], root=tmp_path).graphs
    assert Arc("node", "possible") in graph.possible
    assert Arc("node", "impossible") in graph.impossible
