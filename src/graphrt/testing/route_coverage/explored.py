"""What explorers know of routes: which can be taken, and which cannot. It is kept apart from what tests took.

An explorer takes a route without saying what must come of it, so a route that it took is not tested.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager

from graphrt.testing.route_coverage.arcs import Arc
from graphrt.testing.route_coverage.collecting import _STARTED
from graphrt.testing.route_coverage.units import Graph


@contextmanager
def paused() -> Generator[None]:
    """Let the collector of this process count nothing while the block runs."""
    collectors = [collector for collector in _STARTED if not collector.paused]
    for collector in collectors:
        collector.paused = True
    try:
        yield
    finally:
        for collector in collectors:
            collector.paused = False


def tell_explored(graph: Graph, taken: Mapping[str, Iterable[Arc]], *, complete: bool) -> None:
    """Tell the collector of this process, if there is one, what an explorer took of *graph*.

    Args:
        graph: The graph that was explored.
        taken: Path of each nested graph, with "" for *graph* itself, to the arcs that some path took there.
        complete: Whether every path was followed, so that other arcs cannot be taken.
    """
    for collector in _STARTED:
        with collector._lock:
            key = collector._unit(graph).key
            for path, arcs in taken.items():
                collector._write({"explored": [key, path, list(arcs), complete]})
