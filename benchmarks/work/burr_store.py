"""Burr with its persister in memory. Its SQLite persister commits with SQLite's defaults, so it is not compared."""

from __future__ import annotations

from typing import Any

from burr.core import ApplicationBuilder, State
from burr.core.persistence import InMemoryPersister

from benchmarks.work.burr_ import finish, loop_graph, speak
from benchmarks.work.common import Run


def store_memory(n: int) -> Run:
    graph = loop_graph(n, speak, speak)

    def once() -> dict[str, Any]:
        builder = ApplicationBuilder().with_graph(graph).with_entrypoint("first").with_identifiers(app_id="t")
        builder = builder.with_state(State({"count": 0, "messages": []}))
        return finish(builder.with_state_persister(InMemoryPersister()).build(), "done")

    return once
