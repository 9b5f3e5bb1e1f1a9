"""Runs a description for real and records its observable behaviour.

This module runs, records and compares with the model; the tests state the laws.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import dataclass
from typing import Any

from graphrt import Runtime
from graphrt.errors import GraphrtError

from .build import NodeKind, Pace, Script, build, to_plain
from .description import MISSING, Graph, State, thaw
from .model import Result, Superstep, first_state
from .model_fold import Task, fold


@dataclass(frozen=True)
class Observed:
    """The observations of one run."""

    graph: Graph
    error: GraphrtError | None
    """The error of a failed run."""
    steps: list[Any]
    """Its Steps in order of arrival."""
    journal: list[dict[str, Any]]
    """All entries that reached a sink."""
    script: Script

    def supersteps(self) -> list[list[Any]]:
        """Its Steps, one list for each superstep."""
        return [list(group) for _, group in itertools.groupby(self.steps, key=lambda step: step.superstep)]

    def task(self, step: Any) -> tuple[str, Any]:
        """A task that ran: its node, and its arg."""
        return step.node, self.script.args.get(step.task_id)


def given(graph: Graph) -> dict[str, Any]:
    """The input."""
    return {name: thaw(value) for name, value in graph.given}


def options(journal: list[dict[str, Any]] | None) -> dict[str, Any]:
    """Options of a runtime with comparable runs: the same clock, ids and seed each time.

    Without a sink there is no journal.
    """
    seconds, numbers = itertools.count(1_000_000), itertools.count(1)
    return {
        "sinks": [] if journal is None else [lambda entry: journal.append(entry.to_dict())],
        "clock": lambda: float(next(seconds)),
        "ids": lambda: f"id-{next(numbers)}",
        "seed": 1,
    }


def runtime(graph: Any, journal: list[dict[str, Any]] | None, **more: Any) -> Runtime[Any]:
    """A runtime with comparable runs."""
    return Runtime(graph, **{**options(journal), **more})


def observe(
    graph: Graph,
    *,
    nodes: NodeKind = "sync",
    pace: Pace | None = None,
    script: Script | None = None,
    silent: bool = False,
    **more: Any,
) -> Observed:
    """Run *graph* step by step in this thread; *silent*: without a journal, and nothing is built for readers."""
    script = script or Script(graph, pace or Pace())
    journal: list[dict[str, Any]] = []
    steps: list[Any] = []
    error = None
    with runtime(build(graph, script, nodes=nodes), None if silent else journal, **more) as driven:
        try:
            for step in driven.steps(given(graph)):
                steps.append(step)  # noqa: PERF402 - keeps the items before an error
        except GraphrtError as raised:
            error = raised
    return Observed(graph, error, steps, journal, script)


def aobserve(graph: Graph, *, nodes: NodeKind = "async", pace: Pace | None = None, **more: Any) -> Observed:
    """The same under an event loop."""
    script = Script(graph, pace or Pace())
    journal: list[dict[str, Any]] = []
    steps: list[Any] = []

    async def drive() -> GraphrtError | None:
        with runtime(build(graph, script, nodes=nodes), journal, **more) as driven:
            try:
                async for step in driven.asteps(given(graph)):
                    steps.append(step)  # noqa: PERF401 - keeps the items before an error
            except GraphrtError as raised:
                return raised
        return None

    return Observed(graph, asyncio.run(drive()), steps, journal, script)


def check(expected: Result, seen: Observed) -> None:
    """Assert that the observations equal the model."""
    check_end(expected, seen)
    groups = seen.supersteps()
    if expected.status == "failed" and len(groups) == len(expected.supersteps) + 1:
        # Of the open superstep, only a failed task is visible before the error.
        failed = groups.pop()
        assert {step.outcome for step in failed} == {"error"}
        assert {step.node for step in failed} <= {task.node for task in expected.attempted}
    shown = [[seen.task(step) for step in group] for group in groups]
    expected_tasks = [[heard(seen.graph, task) for task in each.tasks] for each in expected.supersteps]
    assert shown == expected_tasks, f"ran {shown} instead of {expected_tasks}"
    ids = [[step.task_id for step in group] for group in groups]
    same(
        ids,
        [[f"{n}.{at}:{task.node}" for at, task in enumerate(e.tasks)] for n, e in enumerate(expected.supersteps, 1)],
        "ids",
    )
    before = first_state(seen.graph)
    for group, each in zip(groups, expected.supersteps, strict=True):
        same(to_plain(seen.graph, group[0].before), before, "state before")
        check_superstep(each, group, seen.graph, before)
        before = each.state


def heard(graph: Graph, task: Task) -> tuple[str, int | None]:
    """The arg of a task: a node without a context has none."""
    return task.node, task.arg if graph.node(task.node).context else None


def same(seen: object, expected: object, what: str) -> None:
    """Assert equality with the values in the message, since pytest does not rewrite the asserts of this file."""
    assert seen == expected, f"{what}: {seen} instead of {expected}"


def check_end(expected: Result, seen: Observed) -> None:
    """Check for the same end: completed, or failed with an error of the model with the same names."""
    if expected.status == "completed":
        assert seen.error is None
        return
    assert seen.error is not None, f"the run completed instead of {expected.failures}"
    kind = type(seen.error).__name__
    offered = [failure for failure in expected.failures if failure.kind == kind]
    assert offered, f"{kind} instead of {expected.failures}: {seen.error}"
    named = {seen.error.node} if seen.error.node else set(seen.error.nodes or ())
    if kind == "ConcurrentUpdateError":
        assert any(set(seen.error.nodes) == set(f.nodes) and seen.error.field == f.field for f in offered), (
            offered,
            named,
        )
    else:
        assert any(named <= set(f.nodes) for f in offered), (offered, named)


def check_superstep(expected: Superstep, group: list[Any], graph: Graph, before: State) -> None:
    """Check outcomes and updates in task order, the committed state after the last, and cumulative states that chain."""
    same([step.outcome for step in group], list(expected.outcomes), "outcomes")
    same([set(step.update or ()) for step in group], [set(update) for update in expected.updates], "updates")
    same(to_plain(graph, group[-1].after), expected.state, "committed state")
    start = before
    for count, step in enumerate(group, 1):
        same(to_plain(graph, step.before), before, "state before a step")
        after = fold(graph, start, list(expected.updates[:count]))
        same(to_plain(graph, step.after), after, "state after a step")
        changed = {name for name in {*before, *after} if before.get(name, MISSING) != after.get(name, MISSING)}
        assert changed <= set(step.diff.changed), f"the diff does not tell of {changed}"
        before = after
