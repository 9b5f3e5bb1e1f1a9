"""Ownership (R15): a list is extended in place only if no other reference to it exists."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from graphrt import END, START
from graphrt._engine import ownership
from graphrt._engine.engine import Engine
from graphrt._engine.ownership import SOLE, getrefcount
from graphrt._flows.verbs import drive
from graphrt.errors import RouteError, UpdateError

from .support import engine


def looping(given: dict[str, Any], **options: Any) -> Engine:
    return engine("a", [(START, "a"), ("a", "a")], given=given, **options)


def step(run: Engine, update: Any) -> None:
    """One superstep of a node that keeps no reference to its state."""
    run.begin()
    run.open_superstep()
    run.report(run.tasks[0], 1, update)
    run.commit()


def test_self_test_distinguishes_sole_owners() -> None:
    held = {"x": [1]}
    alone = getrefcount(held["x"])
    other = held["x"]
    shared = getrefcount(held["x"])

    assert SOLE in (0, alone)
    assert (shared, len(other)) == (alone + 1, 1)


def test_no_sole_owner_is_assumed_where_reference_counts_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert ownership._measure() == 0
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    monkeypatch.setattr(ownership, "getrefcount", lambda _: 1)
    assert ownership._measure() == 0


@pytest.mark.skipif(SOLE == 0, reason="reference counts prove nothing on this interpreter")
def test_list_without_other_references_is_extended_in_place() -> None:
    run = looping({"log": [1]})
    step(run, {"log": [2]})
    before = id(run.values["log"])
    step(run, {"log": [3]})

    assert (id(run.values["log"]), run.values["log"]) == (before, [1, 2, 3])


def test_list_of_a_retained_state_is_copied() -> None:
    run = looping({"log": [1]})
    kept = []
    for number in (2, 3, 4):
        run.begin()
        run.open_superstep()
        kept.append(run.tasks[0].state)
        run.report(run.tasks[0], 1, {"log": [number]})
        run.commit()

    assert [state["log"] for state in kept] == [[1], [1, 2], [1, 2, 3]]
    assert run.values["log"] == [1, 2, 3, 4]


def test_failed_router_undoes_in_place_extensions() -> None:
    asked: list[Any] = []

    def route(state: Any) -> str:
        asked.append(list(state["log"]))
        if len(asked) == 1:
            raise ValueError
        return "b"

    run = engine("ab", [(START, "a"), ("b", END)], more=lambda g: g.add_conditional_edges("a", route, ["b"]))
    (task,) = drive(run).tasks
    task.state = None
    run.report(task, 1, {"log": [1]})
    with pytest.raises(RouteError):
        drive(run)
    assert run.values["log"] == []

    assert [each.node.name for each in drive(run).tasks] == ["b"]
    assert (run.values["log"], asked) == ([1], [[1], [1]])


@pytest.mark.parametrize("check_state", [False, True])
def test_list_that_a_node_extended_is_detected_and_restored(check_state: bool) -> None:
    run = looping({"log": [1], "last": {"k": 1}}, check_state=check_state)
    (task,) = drive(run).tasks
    task.state["log"].append(2)
    run.report(task, 1, {"n": 1})

    with pytest.raises(UpdateError) as caught:
        drive(run)
    assert (caught.value.code, caught.value.field) == ("mutated-state", "log")
    assert run.values["log"] == [1]


class Odd:
    """A mutable value that need not be comparable."""

    def __init__(self, number: int, *, comparable: bool = True) -> None:
        self.number = number
        self.comparable = comparable

    def __eq__(self, other: object) -> bool:
        if not self.comparable:
            raise TypeError
        return isinstance(other, Odd) and other.number == self.number

    __hash__ = None  # type: ignore[assignment]


def test_deep_change_is_detected_when_states_are_checked_and_again_after_a_retry() -> None:
    run = looping({"last": {"deep": [1]}, "log": [1]}, check_state=True)
    for _ in range(2):
        (task,) = drive(run).tasks
        run.snapshot_for(task)["last"]["deep"][0] = 2
        run.report(task, task.execution, None)
        with pytest.raises(UpdateError, match="changed a value of the state in place: 'last'"):
            drive(run)
        assert run.values["last"] == {"deep": [1]}
        run.retry()
    (task,) = drive(run).tasks
    run.report(task, task.execution, None)
    drive(run)

    assert run.steps == 2


def test_changed_value_without_a_length_can_be_retried() -> None:
    run = looping({"last": bytearray(b"x")}, check_state=True)
    (task,) = drive(run).tasks
    task.state["last"][0] = 0
    run.report(task, 1, None)
    with pytest.raises(UpdateError):
        drive(run)
    run.retry()
    (task,) = drive(run).tasks
    run.report(task, task.execution, {"last": 1})
    drive(run)

    assert run.values["last"] == 1


def test_value_that_refuses_comparison_counts_as_unchanged() -> None:
    run = looping({"last": [Odd(1, comparable=False)]}, check_state=True)
    step(run, {"n": 1})

    assert run.values["n"] == 1


@pytest.mark.parametrize("value", [{1: 1}, {1}])
def test_set_or_dict_that_grew_is_detected_although_it_cannot_be_restored(value: Any) -> None:
    run = looping({"last": value})
    (task,) = drive(run).tasks
    grown = task.state["last"]
    grown.update({2: 2})
    run.report(task, 1, None)

    with pytest.raises(UpdateError):
        drive(run)
    assert len(run.values["last"]) == 2


def test_several_suspects_are_named() -> None:
    run = engine("ab", [(START, "a"), (START, "b")], given={"log": [1]})
    for task in drive(run).tasks:
        task.state["log"].append(2)
        run.report(task, 1, None)

    with pytest.raises(UpdateError, match="One of the nodes 'a', 'b' changed"):
        drive(run)
