"""The law of reference: graphrt agrees with the naive model of the rules of execution on random graphs."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import pytest
from hypothesis import event, given, target
from hypothesis import strategies as st

from graphrt.errors import GraphrtError

from . import laws, observe
from .build import Pace, Script, build, to_plain
from .description import Field, Graph, Value
from .graphs import graphs, joined_graphs
from .model import Result, interpret
from .model_fold import Update

EITHER = st.one_of(graphs(narrow=True), graphs())
"""Mostly one task at a time, which is the plainest superstep, or anything."""


def describe(graph: Graph, result: Result) -> None:
    """Describe the example for `--hypothesis-show-statistics`; longer runs are worth more."""
    event(result.failures[0].kind if result.failures else result.status)
    event("joins fired", sum(len(each.fired) for each in result.supersteps))
    event("widest superstep", max((len(each.tasks) for each in result.supersteps), default=0))
    target(float(len(result.supersteps)), label="supersteps")


@given(graph=graphs())
def test_steps_of_a_sync_run_equal_those_of_the_model(graph: Graph) -> None:
    describe(graph, laws.reference(graph))


@given(graph=joined_graphs())
def test_joins_fire_like_those_of_the_model(graph: Graph) -> None:
    describe(graph, laws.reference(graph))


@given(graph=graphs())
def test_steps_of_an_async_run_equal_those_of_the_model(graph: Graph) -> None:
    observe.check(interpret(graph), observe.aobserve(graph, nodes="async"))


@given(graph=EITHER)
def test_final_state_equals_that_of_the_model_without_listeners(graph: Graph) -> None:
    """No store, no sink, no steps."""
    laws.straight_end(graph)


@given(graph=EITHER)
def test_steps_equal_those_of_the_model_without_a_journal(graph: Graph) -> None:
    """Steps are read, without any other listener."""
    describe(graph, laws.straight_steps(graph))


@pytest.mark.parametrize("silent", [True, False])
@given(graph=EITHER)
def test_states_that_nodes_keep_are_unchanged(silent: bool, graph: Graph) -> None:
    laws.ownership(graph, silent=silent)


@given(graph=EITHER)
def test_nested_graph_ends_like_the_model(graph: Graph) -> None:
    laws.nesting(dataclasses.replace(graph, fields=tuple(lasting(each) for each in graph.fields)))


def lasting(field: Field) -> Field:
    return dataclasses.replace(field, ephemeral=False)


@given(graph=graphs())
def test_journal_has_the_supersteps_of_the_model(graph: Graph) -> None:
    """Tasks, their writes, and the commits of each superstep, in task order."""
    expected = interpret(graph)
    seen = observe.observe(graph, nodes="sync")
    tasks: list[tuple[str, dict[str, Any]]] = []
    told: list[list[tuple[str, dict[str, Any]]]] = []
    wrote: list[set[str]] = []
    for entry in seen.journal:
        if entry["event"] in {"task-succeeded", "task-failed"}:
            tasks.append((entry["node"], {name: u[name] for u in entry.get("updates", ()) for name in u}))
        elif entry["event"] == "superstep-committed":
            told.append(tasks)
            wrote.append(set(entry["wrote"]))
            tasks = []

    assert [[node for node, _ in each] for each in told] == [
        [task.node for task in each.tasks] for each in expected.supersteps
    ]
    for each, shown, fields in zip(expected.supersteps, told, wrote, strict=True):
        for (_, update), meant in zip(shown, each.updates, strict=True):
            assert set(update) == set(meant)
            assert {name: update[name] for name in plain_sets(meant)} == plain_sets(meant)
        written = {name for update in each.updates for name in update}
        reset = {field.name for field in graph.fields if field.ephemeral}
        assert written <= fields <= written | reset


def plain_sets(update: Update) -> dict[str, Value]:
    """Whether an update reaches reducers, without Overwrite and DELETE."""
    return {name: value for name, (op, value) in update.items() if op == "set"}


@given(graph=graphs())
def test_thread_ends_like_the_model(graph: Graph) -> None:
    """With a store: status and last commit, also after a failure."""
    expected = interpret(graph)
    with observe.runtime(build(graph, Script(graph, Pace())), [], store="memory:") as runtime:
        with contextlib.suppress(GraphrtError):
            runtime.run(observe.given(graph), thread="t")
        snapshot = runtime.state("t")

        assert snapshot.status == expected.status
        assert to_plain(graph, snapshot.values) == expected.state
