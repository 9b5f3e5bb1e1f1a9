"""A node that does not say which tools its agent may use allows none, and that is told."""

from __future__ import annotations

from typing import Any

import pytest

from graphrt import RunResult
from graphrt.harness import Agent

from .fakes import Model, counting
from .graphs import Way, ask


def test_a_node_that_names_no_tools_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is allowed by default; a forgotten tools= would be hard to find."""
    counts: list[int] = []
    results: list[RunResult[Any]] = []
    agent = Agent(Model(fn=lambda _: "done"), name="forgetful", tools=[counting(counts)])
    silent = Agent(Model(fn=lambda _: "done"), name="meant", tools=[counting(counts)])
    bare = Agent(Model(fn=lambda _: "done"), name="bare")
    cases: list[tuple[Agent[Any], dict[str, Any]]] = [(agent, {}), (agent, {}), (silent, {"tools": []}), (bare, {})]
    for harness, policy in cases:
        way = Way(nodes="async", verbs="sync", store="memory:")
        results.append(way.runtime(way.graph(ask(), **policy), harness=harness).run({}))

    told = [record.getMessage() for record in caplog.records if record.name == "graphrt.harness"]
    (only,) = told
    assert only.startswith("Node 'n0' of graph ")
    assert ".py:" in only
    assert "offers agent 'forgetful' none of its tools ['note']: the model answers without them." in only
    assert only.endswith("@g.node(tools=['note']), or say tools=[].")
    assert [result.warnings for result in results] == [(only,), (only,), (), ()]
