"""The law of reference: graphrt agrees with the naive model of the rules of execution on random graphs."""

from __future__ import annotations

import pytest
from hypothesis import event, given, target

from graphrt.errors import GraphrtError

from . import observe
from .build import Pace, Script, build, to_plain
from .description import Graph
from .graphs import graphs, joined_graphs
from .model import Result, interpret


def describe(graph: Graph, result: Result) -> None:
    """What the example was about, for `--hypothesis-show-statistics`; longer runs are worth more."""
    event(result.failures[0].kind if result.failures else result.status)
    event("joins fired", sum(len(each.fired) for each in result.supersteps))
    event("widest superstep", max((len(each.tasks) for each in result.supersteps), default=0))
    target(float(len(result.supersteps)), label="supersteps")


@given(graph=graphs())
def test_steps_of_a_sync_run_are_those_of_the_model(graph: Graph) -> None:
    result = interpret(graph)
    describe(graph, result)

    observe.check(result, observe.observe(graph, nodes="sync"))


@given(graph=joined_graphs())
def test_joins_fire_when_those_of_the_model_do(graph: Graph) -> None:
    result = interpret(graph)
    describe(graph, result)

    observe.check(result, observe.observe(graph))


@given(graph=graphs())
def test_steps_of_an_async_run_are_those_of_the_model(graph: Graph) -> None:
    observe.check(interpret(graph), observe.aobserve(graph, nodes="async"))


@given(graph=graphs())
def test_the_state_at_the_end_is_that_of_the_model_when_nobody_listens(graph: Graph) -> None:
    """No store, no sink, no steps: the straight path."""
    expected = interpret(graph)
    script = Script(graph, Pace())
    compiled = build(graph, script)

    if expected.status == "failed":
        with pytest.raises(GraphrtError) as raised:
            compiled.run(observe.given(graph))
        assert type(raised.value).__name__ in {failure.kind for failure in expected.failures}
    else:
        result = compiled.run(observe.given(graph))
        assert result.status == "completed"
        assert to_plain(graph, result.state) == expected.state
        assert result.steps == len(expected.supersteps)


@given(graph=graphs())
def test_the_journal_tells_the_supersteps_of_the_model(graph: Graph) -> None:
    """Tasks, what they wrote, and what each superstep committed, in task order."""
    expected = interpret(graph)
    seen = observe.observe(graph, nodes="sync")
    tasks: list[str] = []
    told: list[tuple[list[str], list[str]]] = []
    for entry in seen.journal:
        if entry["event"] in ("task-succeeded", "task-failed"):
            tasks.append(entry["node"])
        elif entry["event"] == "superstep-committed":
            told.append((tasks, entry["wrote"]))
            tasks = []

    assert told == [
        (
            [task.node for task in each.tasks],
            [field.name for field in graph.fields if any(field.name in update for update in each.updates)],
        )
        for each in expected.supersteps
    ]
