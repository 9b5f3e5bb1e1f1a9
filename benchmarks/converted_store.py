"""Converted LangGraph graphs with a store: the growing list of `converted.py` in memory and in SQLite."""

from __future__ import annotations

import itertools
import tempfile
from typing import Any

from benchmarks.catalogue import fan_rounds
from benchmarks.converted import converted, limits, talk
from benchmarks.work import langgraph_ as theirs
from benchmarks.work import langgraph_store as stored
from benchmarks.work.common import Run
from graphrt import Runtime


def store_memory(n: int) -> Run:
    graph = converted(talk(n))

    def once() -> Any:
        with Runtime(graph, store="memory:", limits=limits(n)) as runtime:
            return runtime.run(stored.empty(), thread="t").state

    return once


def in_sqlite(graph: Any, n: int, state: Any, *, chain: bool | None = None) -> Run:
    """Runs on new threads of one open file."""
    folder = tempfile.TemporaryDirectory()
    store = f"sqlite:///{folder.name}/runs.db"
    runtime = Runtime(converted(graph), store=store, chain=chain, limits=limits(n))
    threads = (f"t{number}" for number in itertools.count())
    return lambda _folder=folder: runtime.run(state, thread=next(threads)).state


def store_sqlite(n: int) -> Run:
    return in_sqlite(stored.letters(n), n, stored.empty())


def store_sqlite_plain(n: int) -> Run:
    return in_sqlite(stored.letters(n), n, stored.empty(), chain=False)


def store_fan(n: int) -> Run:
    rounds = fan_rounds(n)
    return in_sqlite(theirs.fan_graph(n, rounds, theirs.work), 3 * rounds, {"rounds": 0, "results": []})
