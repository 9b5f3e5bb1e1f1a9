"""The law of parity: for every driver and every kind of node function, the journal is the same."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Literal, get_args

from hypothesis import given
from hypothesis import strategies as st

from graphrt.errors import GraphrtError

from . import laws, observe
from .build import NodeKind, Pace, Script, build
from .description import Graph
from .graphs import graphs

Verb = Literal["run", "steps", "stream", "arun", "asteps", "astream"]


def journal_of(
    graph: Graph, verb: Verb, nodes: NodeKind, *, store: str | None = None, thread: str | None = None
) -> list[dict[str, Any]]:
    """The journal of one run, driven by *verb* to its end, good or bad."""
    journal: list[dict[str, Any]] = []
    with observe.runtime(build(graph, Script(graph, Pace()), nodes=nodes), journal, store=store) as runtime:
        try:
            if verb.startswith("a"):
                asyncio.run(drive(runtime, verb, observe.given(graph)))
            elif verb == "run":
                runtime.run(observe.given(graph), thread=thread)
            else:
                list(getattr(runtime, verb)(observe.given(graph)))
        except GraphrtError:
            pass  # the journal has that too
    return journal


async def drive(runtime: Any, verb: Verb, values: dict[str, Any]) -> None:
    """Drive an async verb to its end."""
    if verb == "arun":
        await runtime.arun(values)
    else:
        async for _ in getattr(runtime, verb)(values):
            pass


@given(nodes=st.sampled_from(get_args(NodeKind)), graph=graphs(fatal=False))
def test_every_driver_writes_the_same_journal(nodes: NodeKind, graph: Graph) -> None:
    """Nodes that fail permanently are excluded: the rules do not determine which siblings had finished by then."""
    expected = laws.ruled(graph, journal_of(graph, "steps", "sync"))

    for verb in get_args(Verb):
        assert laws.ruled(graph, journal_of(graph, verb, nodes)) == expected, verb


@given(graph=graphs(fatal=False), chance=st.randoms(use_true_random=False))
def test_scripted_driver_writes_the_same_journal_in_any_order_of_completion(
    graph: Graph, chance: random.Random
) -> None:
    expected = laws.ruled(graph, journal_of(graph, "run", "sync"))

    assert laws.ruled(graph, laws.journal_of(graph)) == expected
    laws.order(graph, chance)


@given(graph=graphs(fatal=False))
def test_store_changes_only_the_name_of_the_thread_in_the_journal(graph: Graph) -> None:
    bare = laws.ruled(graph, journal_of(graph, "run", "sync"))
    kept = laws.ruled(graph, journal_of(graph, "run", "sync", store="memory:", thread="t"))

    for entry in (*bare, *kept):
        del entry["thread"]
        entry.pop("event_thread", None)
        entry.pop("folded", None)  # only threads are replayed
        entry.pop("digests", None)  # only threads may get their input again
    assert kept == bare
