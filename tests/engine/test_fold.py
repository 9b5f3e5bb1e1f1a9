"""Folding: order, conflicts, and the undo records from which steps compute their before and after."""

from __future__ import annotations

import itertools
from typing import Annotated, Any, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrt import DELETE, START, Overwrite
from graphrt._engine.engine import Engine
from graphrt._engine.fold import combined
from graphrt._engine.steps import StepChain
from graphrt._engine.task import FAILED, Failed, Nested, Stopped
from graphrt._flows.verbs import drive
from graphrt.commands import Replacement
from graphrt.errors import ConcurrentUpdateError, UpdateError
from graphrt.reducers import append, ephemeral

from .support import engine, values

Update = dict[str, Any]
chains: dict[int, StepChain] = {}
"""Makes the steps of an engine, by its `id`."""


def superstep(run: Engine, *updates: Any) -> list[Any]:
    """Report one outcome for each due task, commit, and return the steps. A list: the updates of a nested graph."""
    if not run.is_read:
        run.watch(commits=True, undo=True)
        chains[id(run)] = StepChain(run, lambda: None)
    run.begin()
    run.open_superstep()
    for task, update in zip(run.tasks, updates, strict=True):
        run.report(task, task.execution, Nested(tuple(update)) if isinstance(update, list) else update)
    run.commit()
    return chains[id(run)].of(run.take_committed())


def wide(count: int, given: Update, **policies: Any) -> Engine:
    """START to so many parallel nodes."""
    names = "abcde"[:count]
    return engine(names, [(START, name) for name in names], given=given, **policies)


def apply(state: Update, update: Update) -> Update:
    """The naive application of one update."""
    new = dict(state)
    for name, value in update.items():
        if value is DELETE:
            new.pop(name, None)
        elif isinstance(value, Replacement):
            new[name] = value.value
        elif name == "log":
            new[name] = [*(new.get(name) or []), *value]
        elif name == "pair":
            new[name] = (*new[name], *value) if isinstance(new.get(name), tuple) else [*new.get(name, []), *value]
        elif name == "n":
            new[name] = new.get(name, 0) + value
        else:
            new[name] = value
    return new


def check(given_: Update, run: Engine, updates: list[Any]) -> None:
    """Check that steps chain from the old state to the new one, and agree with the naive fold."""
    before = dict(run.values)
    steps = superstep(run, *updates)
    expected = before
    for step, update in zip(steps, updates, strict=True):
        assert step.before == expected
        for each in update if isinstance(update, list) else [update]:
            expected = apply(expected, each)
        assert step.after == expected
    assert run.values == expected


ITEMS = st.lists(st.integers(0, 9), max_size=2)
WRITES = st.one_of(ITEMS, ITEMS.map(Overwrite), st.just(DELETE))
UPDATE = st.fixed_dictionaries({}, optional={"log": WRITES, "n": st.one_of(st.integers(1, 9), st.just(DELETE))})
GIVEN = st.fixed_dictionaries({}, optional={"log": ITEMS, "n": st.integers(0, 3), "last": st.integers(0, 3)})


@given(given_=GIVEN, updates=st.lists(UPDATE, max_size=5))
def test_steps_of_a_nested_graph_undo_all_its_writes(given_: Update, updates: list[Update]) -> None:
    check(given_, wide(1, given_), [updates])


@given(given_=GIVEN, writes=st.lists(ITEMS, min_size=2, max_size=5))
def test_steps_of_appending_tasks_chain(given_: Update, writes: list[list[int]]) -> None:
    check(given_, wide(len(writes), given_), [{"log": items, "n": 1} for items in writes])


@given(given_=GIVEN, one=UPDATE, items=ITEMS)
def test_steps_stay_correct_when_later_ones_follow(given_: Update, one: Update, items: list[int]) -> None:
    run = engine("a", [(START, "a"), ("a", "a")], given=given_)
    states = [dict(run.values)]
    steps = []
    for update in (one, {"log": items}, {"n": 2, "last": 5}, {"log": DELETE}, one):
        steps += superstep(run, update)
        states.append(apply(states[-1], update))

    for step, (before, after) in zip(steps, itertools.pairwise(states), strict=True):
        assert (step.before, step.after) == (before, after)
        gone, new = set(before) - set(after), set(after) - set(before)
        assert (set(step.diff.removed), set(step.diff.added)) == (gone, new)


@pytest.mark.parametrize("marker", [Overwrite((9,)), DELETE])
def test_tuple_stays_a_tuple_before_its_replacement(marker: Any) -> None:
    run = wide(1, {"pair": (1, 2)})
    (step,) = superstep(run, {"pair": marker})

    assert step.before["pair"] == (1, 2)


def test_tuple_grows_and_steps_know_its_earlier_length() -> None:
    run = wide(2, {"pair": (1,)})
    one, two = superstep(run, {"pair": (2,)}, {"pair": (3, 4)})

    assert [one.before["pair"], one.after["pair"], two.after["pair"]] == [(1,), (1, 2), (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"last": 1}, {"last": 1}),
        ({"log": [1]}, {"log": Overwrite([2])}),
        ({"log": DELETE}, {"log": [1]}),
        ({"n": Overwrite(1)}, {"n": DELETE}),
    ],
)
def test_writes_that_cannot_be_folded_together_conflict_and_commit_nothing(one: Update, two: Update) -> None:
    run = wide(3, {"n": 5})
    tasks = drive(run).tasks
    for task, update in zip(tasks, (one, two, {"other": 1}), strict=True):
        run.report(task, 1, update)

    with pytest.raises(ConcurrentUpdateError) as caught:
        drive(run)
    assert (caught.value.nodes, caught.value.field) == (("a", "b"), *one)
    assert values(run) == {"n": 5}
    assert [task.status == FAILED for task in tasks] == [True, True, False]


def test_one_task_may_write_a_field_many_times_through_a_nested_graph() -> None:
    run = wide(1, {"log": [1]})
    superstep(run, [{"log": [2], "last": 1}, {"log": Overwrite([7])}, {"log": [8], "last": 2}, {"log": [9]}])

    assert values(run) == {"log": [7, 8, 9], "last": 2}


def test_failed_reducer_names_its_field_and_fails_the_writing_task() -> None:
    run = wide(3, {})
    run.start({"n": "text"})
    tasks = drive(run).tasks
    for task, update in zip(tasks, ({"n": 1}, {"n": 2}, {"last": 3}), strict=True):
        run.report(task, 1, update)

    with pytest.raises(UpdateError) as caught:
        drive(run)
    assert (caught.value.code, caught.value.field, caught.value.node) == ("reducer-failed", "n", "a")
    assert isinstance(caught.value.__cause__, TypeError)
    assert [task.status == FAILED for task in tasks] == [True, True, False]


def test_staged_writes_of_a_handled_failure_are_not_folded() -> None:
    run = engine("ab", [(START, "a")], a={"on_error": "b"})
    (task,) = drive(run).tasks
    run.report(task, 1, Failed(ValueError()))

    assert [each.node.name for each in drive(run).tasks] == ["b"]
    assert values(run) == {}


class Flashing(TypedDict, total=False):
    flash: Annotated[list[int], append, ephemeral]
    once: Annotated[int, ephemeral]
    log: Annotated[list[int], append]


def test_the_first_step_of_a_superstep_shows_the_reset_of_ephemeral_fields() -> None:
    run = engine("ab", [(START, "a"), (START, "b")], given={"flash": [1], "once": 1}, state=Flashing)
    one, two = superstep(run, {"log": [1]}, {"flash": [2]})

    assert (one.before, one.after) == ({"flash": [1], "once": 1, "log": []}, {"flash": [], "log": [1]})
    assert (two.before, two.after) == (one.after, {"flash": [2], "log": [1]})


def test_stopped_is_not_an_outcome() -> None:
    run = wide(1, {})
    (task,) = drive(run).tasks
    run.report(task, 1, Stopped())

    assert drive(run).tasks == (task,)


@pytest.mark.parametrize(
    ("updates", "one"),
    [
        ([], None),
        ([{"n": 1}], {"n": 1}),
        ([{"n": 1, "last": 1}, {"n": 2, "last": 2}], {"n": 3, "last": 2}),
        ([{"log": [1]}, {"log": DELETE}], {"log": DELETE}),
        ([{"log": [1]}, {"log": Overwrite([7])}, {"log": [8]}], {"log": Overwrite([7, 8])}),
    ],
)
def test_several_updates_of_one_task_are_shown_as_one(updates: list[Update], one: Update | None) -> None:
    assert combined(wide(1, {}).fields, updates) == one


def test_trail_keeps_the_newest_last_values_and_all_other_writes() -> None:
    run = wide(1, {})
    run.follow({"last": 0})
    assert run.trail is None
    run.leave_trail(frozenset({"last", "other"}))
    for update in ({"last": 1}, {}, {"last": 2}, {"other": 3}, {"n": 1}, {"last": 4}, {"n": 2, "last": 5}):
        run.follow(update)

    assert run.trail == [{"last": 2, "other": 3}, {"n": 1, "last": 4}, {"n": 2, "last": 5}]
