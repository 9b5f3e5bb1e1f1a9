"""Every route of the audit, asked without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from examples.audit.graph import GRAPH
from examples.audit.policy import PRESETS
from examples.audit.state import Finding, State

from graphrt import END, START, Send


def state(**fields: Any) -> State:
    return State(sites=["here"], policy=PRESETS["permissive"], **fields)


FINDING = Finding(id="F1", package="a", version="1", code="large", severity="note", text="it is large")


def test_it_begins_with_discover() -> None:
    assert GRAPH.route(START, state()) == ("discover",)


def test_each_distribution_gets_a_task_in_the_order_found() -> None:
    assert GRAPH.route("discover", state(found=["b", "a"])) == (Send("inspect", "b"), Send("inspect", "a"))


def test_an_empty_environment_goes_straight_to_the_end() -> None:
    assert GRAPH.route("discover", state()) == ("conclude",)


@pytest.mark.parametrize(
    ("node", "fields", "targets"),
    [
        ("inspect", {}, ("triage",)),
        ("triage", {}, ("judge",)),
        ("triage", {"doubts": ["b", "a"]}, (Send("consult", "b"), Send("consult", "a"))),
        ("consult", {}, ("judge",)),
        ("judge", {}, ("conclude",)),
        ("judge", {"reviewer": "person"}, ("conclude",)),
        ("judge", {"findings": [FINDING]}, ("settle",)),
        ("judge", {"findings": [FINDING], "reviewer": "person"}, (Send("ask", "F1"),)),
        ("settle", {}, ("conclude",)),
        ("ask", {}, ("conclude",)),
        ("conclude", {}, (END,)),
    ],
)
def test_routes(node: str, fields: dict[str, Any], targets: tuple[Any, ...]) -> None:
    assert GRAPH.route(node, state(**fields)) == targets


def test_a_failed_question_leads_to_the_judge() -> None:
    edges = GRAPH.topology()["edges"]

    assert {"from": "consult", "to": "judge", "kind": "on_error"} in edges


def test_with_stubs_the_rest_of_the_graph_runs_alone() -> None:
    """A stub in place of discover: nothing is read from the disk."""
    graph = GRAPH.with_nodes({"discover": lambda _: {"found": []}})

    result = graph.run(state(limit=1))

    assert (result.steps, result.state.found) == (2, [])
    assert not Path("here").exists()
