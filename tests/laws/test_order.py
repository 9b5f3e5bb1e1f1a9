"""The law of order: tasks of a superstep may finish in any order; result and journal are the same."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

from . import laws, observe
from .description import Field, Graph, Node, Turn, Write
from .graphs import graphs
from .model import interpret
from .paces import Swapped, hopping

SALTS = st.integers(0, 99)


def shuffled(first: observe.Observed, second: observe.Observed) -> None:
    """Record how often the two runs really finished their tasks in different orders."""
    event("other order" if first.script.order != second.script.order else "same order")


@given(graph=graphs(fatal=False), salt=SALTS)
def test_async_tasks_may_finish_in_any_order(graph: Graph, salt: int) -> None:
    straight = observe.aobserve(graph, nodes="async")
    seen = observe.aobserve(graph, nodes="async", pace=hopping(salt))
    shuffled(straight, seen)

    observe.check(interpret(graph), seen)
    assert laws.ruled(graph, seen.journal) == laws.ruled(graph, straight.journal)


@given(graph=graphs(fatal=False), salt=SALTS)
def test_sync_tasks_may_finish_in_any_order(graph: Graph, salt: int) -> None:
    expected = interpret(graph)
    pace = Swapped(expected, salt)
    straight = observe.observe(graph, nodes="sync")
    seen = observe.observe(graph, nodes="sync", pace=pace)
    shuffled(straight, seen)

    assert not pace.broken, "two sync tasks of one superstep did not overlap"
    observe.check(expected, seen)
    assert laws.ruled(graph, seen.journal) == laws.ruled(graph, straight.journal)


@given(graph=graphs(fatal=False), salt=SALTS)
def test_mixed_sync_and_async_tasks_may_finish_in_any_order(graph: Graph, salt: int) -> None:
    straight = observe.aobserve(graph, nodes="mixed")
    seen = observe.aobserve(graph, nodes="mixed", pace=hopping(salt))
    shuffled(straight, seen)

    observe.check(interpret(graph), seen)
    assert laws.ruled(graph, seen.journal) == laws.ruled(graph, straight.journal)


def wide() -> Graph:
    """Three nodes that append to one list in one superstep."""
    nodes = tuple(Node(name, (Turn((Write("log", place),)),)) for place, name in enumerate("abc"))
    return Graph((Field("log", "append"),), nodes, tuple((None, node.name) for node in nodes))


def test_paces_reorder_tasks() -> None:
    """Otherwise the laws above would prove nothing."""
    sync = observe.observe(wide(), nodes="sync", pace=Swapped(interpret(wide()), 1))
    orders = {
        tuple(name for name, _ in observe.aobserve(wide(), nodes="async", pace=hopping(salt)).script.order)
        for salt in range(20)
    }

    assert [name for name, _ in sync.script.order if name in "ab"] == ["b", "a"]
    assert len(orders) > 3
