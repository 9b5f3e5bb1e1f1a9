"""Every route of the audit, checked without running a node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from examples.audit.graph import GRAPH
from examples.audit.policy import PRESETS
from examples.audit.state import Finding, State

from graphrt import END, START, Send
from graphrt.testing import assert_run, record, scripted


def state(**fields: Any) -> State:
    return State(sites=["here"], policy=PRESETS["permissive"], **fields)


FINDING = Finding(id="F1", package="a", version="1", code="large", severity="note", text="it is large")
TWO = [FINDING, FINDING.model_copy(update={"id": "F2"})]


@pytest.mark.routes(
    GRAPH,
    {
        START: [(state(), "discover")],
        # Each distribution gets a task, in discovery order; an empty environment goes directly to the end.
        "discover": [
            (state(found=["b", "a"]), [Send("inspect", "b"), Send("inspect", "a")]),
            (state(), "conclude"),
        ],
        "inspect": [(state(), "triage")],
        "triage": [
            (state(), "judge"),
            (state(doubts=["b", "a"]), [Send("consult", "b"), Send("consult", "a")]),
        ],
        "consult": [(state(), "judge")],
        # Without findings no person is asked; with findings the policy decides, or a person for each of them.
        "judge": [
            (state(), "conclude"),
            (state(reviewer="person"), "conclude"),
            (state(findings=[FINDING]), "settle"),
            (state(findings=TWO, reviewer="person"), [Send("ask", "F1"), Send("ask", "F2")]),
        ],
        "settle": [(state(), "conclude")],
        "ask": [(state(), "conclude")],
        "conclude": [(state(), END)],
    },
)
def test_routes() -> None:
    """One test for each row."""


def test_failed_question_routes_to_the_judge() -> None:
    edges = GRAPH.topology()["edges"]

    assert {"from": "consult", "to": "judge", "kind": "on_error"} in edges


def test_rest_of_the_graph_runs_alone_with_a_double() -> None:
    """A double replaces discover: nothing is read from the disk."""
    run = record(GRAPH.with_nodes({"discover": scripted({"found": []})}), state(limit=1))

    assert_run(run).completed().visited("discover", "conclude").state("found", [])
    assert not Path("here").exists()
