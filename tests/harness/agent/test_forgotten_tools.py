"""A node that does not say which tools its agent may use allows none, and that is told."""

from __future__ import annotations

import pytest

from graphrt.harness import Agent

from .fakes import Model, counting
from .graphs import Way, ask


def test_a_node_that_names_no_tools_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is allowed by default; a forgotten tools= would be hard to find."""
    counts: list[int] = []
    agent = Agent(Model(fn=lambda _: "done"), name="forgetful", tools=[counting(counts)])
    silent = Agent(Model(fn=lambda _: "done"), name="meant", tools=[counting(counts)])
    bare = Agent(Model(fn=lambda _: "done"), name="bare")
    for harness, policy in ((agent, {}), (agent, {}), (silent, {"tools": []}), (bare, {})):
        way = Way(nodes="async", verbs="sync", store="memory:")
        way.runtime(way.graph(ask(), **policy), harness=harness).run({})

    told = [record.getMessage() for record in caplog.records if record.name == "graphrt.harness"]
    (only,) = told
    assert only.startswith("Node 'n0' allows agent 'forgetful' none of its tools ['note']")
    assert only.endswith("@g.node(tools=['note']), or say tools=[].")
