"""The cost of a step does not depend on the size of the state or the history, in calls or in bytes."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from graphrt import Runtime
from graphrt._engine.ownership import SOLE

from . import graphs
from .counting import calls_per_unit

in_place = pytest.mark.skipif(
    not SOLE, reason="reference counts prove no sole ownership on this interpreter: appending copies"
)


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def test_step_with_many_items_makes_no_more_calls_than_one_with_few() -> None:
    few = calls_per_unit(lambda n: graphs.talk(n, held=100), 100)
    many = calls_per_unit(lambda n: graphs.talk(n, held=5_000), 100)

    assert many <= 1.01 * few


def test_streamed_step_with_many_items_makes_no_more_calls_than_one_with_few() -> None:
    def read(n: int, held: int) -> graphs.Run:
        graph = graphs.talk_graph(n)

        def run() -> None:
            for step in Runtime(graph).steps({"count": 0, "messages": ["hello"] * held}):
                assert step.diff.updated

        return run

    few = calls_per_unit(lambda n: read(n, 100), 100)
    many = calls_per_unit(lambda n: read(n, 5_000), 100)

    assert many <= 1.01 * few


def test_calls_per_task_do_not_grow_with_the_items_in_the_state() -> None:
    def fan_out(n: int, held: int) -> graphs.Run:
        graph = graphs.fan_graph(n, graphs.work)
        return lambda: graph.run({"results": [0] * held})

    few = calls_per_unit(lambda n: fan_out(n, 100), 100)
    many = calls_per_unit(lambda n: fan_out(n, 5_000), 100)

    assert many <= 1.01 * few + 1  # how often the caller waits for its helpers is random


def test_long_run_holds_no_more_memory_than_a_short_one() -> None:
    """100,000 steps, measured near the beginning and near the end."""
    seen: dict[int, int] = {}

    def look(state: Any) -> Any:
        if state["count"] in (2_000, 98_000):
            seen[state["count"]] = sys.getallocatedblocks()
        return {"count": 1, "last": "look"}

    graph = graphs.two_nodes(graphs.Dict, look, look, lambda state: state["count"] < 100_000, 100_000)
    result = graph.run({"count": 0, "last": ""})

    assert result.state["count"] == 100_000
    assert seen[98_000] - seen[2_000] < 2_000


@in_place
def test_appending_keeps_the_list() -> None:
    """20,000 messages: the nodes see one growing list, with an occasional copy."""
    held: list[int] = []

    def say(state: Any) -> Any:
        if held[-1:] != [id(state["messages"])]:
            held.append(id(state["messages"]))
        return {"messages": ["hello"], "count": 1}

    result = graphs.talk(20_000, node=say)()

    assert len(result.state["messages"]) == 20_000
    assert len(held) <= 40


@in_place
@pytest.mark.usefixtures("traced")
def test_appending_to_a_long_list_does_not_copy_it() -> None:
    """Copying 100,000 items would take 800 kB in that step."""
    peaks: list[int] = []

    def say(state: Any) -> Any:
        if state["count"]:
            peaks.append(tracemalloc.get_traced_memory()[1] - base[0])
        tracemalloc.reset_peak()
        base[:] = [tracemalloc.get_traced_memory()[0]]
        return {"messages": ["hello"], "count": 1}

    base: list[int] = []
    graphs.talk(40, held=100_000, node=say)()

    assert len(peaks) == 39
    assert sum(peak > 400_000 for peak in peaks) <= 2


@pytest.mark.usefixtures("traced")
def test_growing_state_needs_memory_for_its_items_only() -> None:
    """The peak of a run of 20,000 messages is the list, twice at worst."""
    graphs.talk(200)()
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    result = graphs.talk(20_000)()
    peak = tracemalloc.get_traced_memory()[1] - before

    assert peak <= 3 * sys.getsizeof(result.state["messages"]) + 100_000


def test_list_of_the_caller_is_unchanged() -> None:
    """Appending in place must never reach the caller's objects."""
    mine = ["hello"]
    graph = graphs.talk_graph(10)
    result = graph.run({"count": 0, "messages": mine})

    assert mine == ["hello"]
    assert len(result.state["messages"]) == 11
