"""The law of parity: whoever drives a run, and whatever kind of functions its nodes are, the journal is the same."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import pytest
from hypothesis import given

from graphrt.errors import GraphrtError

from . import observe
from .build import NodeKind, Pace, Script, build
from .description import Graph
from .graphs import graphs

Verb = Literal["run", "steps", "stream", "arun", "asteps", "astream"]


def journal_of(graph: Graph, verb: Verb, nodes: NodeKind) -> list[dict[str, Any]]:
    """The journal of one run, driven by *verb* to its end, good or bad."""
    journal: list[dict[str, Any]] = []
    with observe.runtime(build(graph, Script(graph, Pace()), nodes=nodes), journal) as runtime:
        try:
            if verb.startswith("a"):
                asyncio.run(drive(runtime, verb, observe.given(graph)))
            elif verb == "run":
                runtime.run(observe.given(graph))
            else:
                list(getattr(runtime, verb)(observe.given(graph)))
        except GraphrtError:
            pass  # that is in the journal too
    return journal


async def drive(runtime: Any, verb: Verb, values: dict[str, Any]) -> None:
    """An async verb to its end."""
    if verb == "arun":
        await runtime.arun(values)
    else:
        async for _ in getattr(runtime, verb)(values):
            pass


@pytest.mark.parametrize("nodes", ["sync", "async", "mixed"])
@pytest.mark.parametrize("verb", ["run", "steps", "stream", "arun", "asteps", "astream"])
@given(graph=graphs(fatal=False))
def test_every_driver_writes_the_same_journal(verb: Verb, nodes: NodeKind, graph: Graph) -> None:
    assert journal_of(graph, verb, nodes) == journal_of(graph, "steps", "sync")
