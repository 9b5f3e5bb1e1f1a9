"""Findings about loops: their exits, and their display."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt import START

from .support import codes, findings
from .test_judgements_finer import fork, graph, work


def test_loop_is_shown_in_execution_order() -> None:
    g = graph("c", "a", "b", "d").add_sequence([START, "a", "b", "c", "a"]).add_edge("c", "d")

    (problem,) = findings(g)

    assert problem.code == "endless-loop"
    assert "The loop 'c' -> 'a' -> 'b' -> 'c' has no conditional way out" in problem.message


def test_loop_through_a_join_is_found() -> None:
    g = fork(graph("plan", "a", "b", "join"), START, "plan")
    fork(g, "plan", "a", "b").add_join(["a", "b"], "join").add_edge("join", "plan")

    assert "endless-loop" in codes(g)


@pytest.mark.parametrize(
    "policy",
    [{"goto": ["work"]}, {"on_error": "repair"}, {"on_fatigue": "repair"}],
    ids=["goto", "on_error", "on_fatigue"],
)
@pytest.mark.parametrize("way", ["edge", "join", "sink"])
def test_loop_exits_by_the_edges_of_a_cycling_node_only_when_they_replace_the_cycle(policy: Any, way: str) -> None:
    g = graph("done").add_node("work", work, **policy).add_node("repair", work)
    g.add_edge(START, "work").add_edge(START, "repair").add_edge("repair", "work")
    if way == "edge":
        g.add_edge("work", "done")
    elif way == "join":
        g.add_join(["work"], "done")

    assert codes(g, allow=["unreachable-node"]) == []


def test_goto_within_the_loop_is_not_an_exit_if_an_edge_also_stays() -> None:
    g = graph("done", "again").add_node("work", work, goto=["work"])
    g.add_edge(START, "work").add_edge("work", "done").add_edge("work", "again").add_edge("again", "work")

    assert codes(g) == ["endless-loop"]
