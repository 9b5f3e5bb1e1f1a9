"""The bounds on calls per step (a hand-written loop needs about 7.5, other engines hundreds; see the docs)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from . import graphs
from .counting import calls_of, calls_per_unit

STEPS = [
    pytest.param(graphs.dict_loop, 20, id="dict"),
    pytest.param(graphs.model_loop, 25, id="pydantic"),
    pytest.param(graphs.async_dict_loop, 20, id="dict-async"),
    pytest.param(graphs.async_model_loop, 25, id="pydantic-async"),
    pytest.param(graphs.talk, 20, id="append"),
]
TASKS = [
    pytest.param(graphs.fan_out, 27, id="sync"),
    pytest.param(graphs.async_fan_out, 70, id="async"),
]
Prepare = Callable[[int], graphs.Run]


def handwritten_loop(n: int) -> graphs.Run:
    """The yardstick of the benchmarks, here only to validate the counting."""
    reducers = {"count": int.__add__}

    def merge(state: dict[str, object], update: dict[str, object]) -> None:
        for key, value in update.items():
            reducer = reducers.get(key)
            state[key] = value if reducer is None else reducer(state[key], value)

    nodes = {"first": graphs.ping, "second": graphs.ping}
    edges = {"first": "second", "second": lambda state: "first" if state["count"] < n else None}

    def run() -> None:
        state, name = {"count": 0, "last": ""}, "first"
        while name:
            merge(state, nodes[name](state))
            edge = edges[name]
            name = edge(state) if callable(edge) else edge

    return run


def test_counting_sees_the_calls_of_a_hand_written_loop() -> None:
    assert calls_per_unit(handwritten_loop, 200) == pytest.approx(7.5, abs=1.0)


@pytest.mark.parametrize(("prepare", "most"), STEPS)
def test_step_stays_within_its_bound_of_calls(prepare: Prepare, most: float) -> None:
    assert calls_per_unit(prepare, 200) <= most


@pytest.mark.parametrize(("prepare", "most"), STEPS)
def test_step_costs_the_same_in_a_run_of_ten_times_the_length(prepare: Prepare, most: float) -> None:
    assert calls_per_unit(prepare, 2_000) <= 1.1 * calls_per_unit(prepare, 200)


@pytest.mark.parametrize(("prepare", "most"), TASKS)
def test_task_of_a_fan_out_stays_within_its_bound_of_calls(prepare: Prepare, most: float) -> None:
    assert calls_per_unit(prepare, 100) <= most


@pytest.mark.parametrize(("prepare", "most"), TASKS)
def test_task_costs_the_same_in_a_fan_out_of_ten_times_the_width(prepare: Prepare, most: float) -> None:
    assert calls_per_unit(prepare, 1_000) <= 1.1 * calls_per_unit(prepare, 100)


def test_step_of_a_long_chain_costs_no_more_than_one_of_a_short_chain() -> None:
    assert calls_per_unit(graphs.chain_run, 500) <= 1.1 * calls_per_unit(graphs.chain_run, 50)


def test_node_of_a_large_graph_compiles_with_no_more_calls_than_one_of_a_small_graph() -> None:
    assert calls_per_unit(graphs.chain_compile, 1_000) <= 1.1 * calls_per_unit(graphs.chain_compile, 100)


def test_run_of_a_compiled_graph_starts_within_its_bound_of_calls() -> None:
    """What a run costs besides its steps: thousands of short runs must not pay for a runtime each.

    Two of the calls note to which process the run belongs.
    """
    run = graphs.chain_run(1)
    run()

    assert calls_of(run) <= 160
