"""Reducers: the result of each for two values, and that none changes its arguments."""

from __future__ import annotations

import copy
import dataclasses
import math
from dataclasses import make_dataclass
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrt import GraphBuilder, reducers
from graphrt._plan.fields import uncallable
from graphrt.reducers import add, append, first, merge, messages, overwrite, reduced, union


@dataclasses.dataclass(frozen=True)
class Message:
    text: str
    id: str | None = None


@pytest.mark.parametrize(
    ("reducer", "current", "incoming", "expected"),
    [
        (overwrite, 1, 2, 2),
        (append, ["a"], ["b", "a"], ["a", "b", "a"]),
        (append, ("a",), ["b"], ("a", "b")),
        (append, [], (n for n in range(2)), [0, 1]),
        (append, None, ("a",), ["a"]),
        (add, 1, 2, 3),
        (add, "a", "b", "ab"),
        (add, [1], [2], [1, 2]),
        (add, Decimal("0.1"), Decimal("0.2"), Decimal("0.3")),
        (add, None, 2, 2),
        (union, ["b", "a"], ["a", "c", "b", "c"], ["b", "a", "c"]),
        (union, ("a",), ["b", "a"], ("a", "b")),
        (union, {1}, [1, 2], {1, 2}),
        (union, frozenset({1}), {2}, frozenset({1, 2})),
        (union, [[1]], [[1], [2]], [[1], [2]]),
        (union, None, [1, 1], [1]),
        (union, None, {1}, {1}),
        (merge, {"a": 1, "b": 1}, {"b": 2, "c": 2}, {"a": 1, "b": 2, "c": 2}),
        (merge, None, {"a": 1}, {"a": 1}),
        (reducers.min, 1, 2, 1),
        (reducers.min, 2, 1, 1),
        (reducers.min, None, 1, 1),
        (reducers.max, 1, 2, 2),
        (reducers.max, "b", "a", "b"),
        (reducers.max, None, 1, 1),
        (first, 1, 2, 1),
        (first, 0, 2, 0),
        (first, None, 2, 2),
        (messages, [{"id": "1", "t": "a"}], [{"id": "1", "t": "b"}], [{"id": "1", "t": "b"}]),
        (messages, [{"t": "a"}], [{"t": "a"}], [{"t": "a"}, {"t": "a"}]),
        (messages, None, [{"id": 1}, {"id": 2}, {"id": 1, "x": 1}], [{"id": 1, "x": 1}, {"id": 2}]),
        (messages, [Message("a", "1")], [Message("c"), Message("b", "1")], [Message("b", "1"), Message("c")]),
    ],
)
def test_reducer_of_two_values(reducer: Any, current: Any, incoming: Any, expected: Any) -> None:
    before = copy.deepcopy(current)

    result = reducer(current, incoming)

    assert result == expected
    assert result.__class__ is expected.__class__
    assert current == before


def test_every_reducer_that_a_name_gives_takes_two_values() -> None:
    """A function that makes reducers has to be in `NEITHER`."""
    named = {name: reducer for name in reducers.__all__ if (reducer := reducers.by_name(name)) is not None}

    assert {name: uncallable(reducer) for name, reducer in named.items()} == dict.fromkeys(named)
    assert named.keys() >= {"append", "first", "messages"}


def test_min_and_max_keep_the_current_of_two_equal_values() -> None:
    current, incoming = [1], [1]

    assert reducers.min(current, incoming) is current
    assert reducers.max(current, incoming) is current


@given(st.lists(st.integers()), st.lists(st.integers()), st.lists(st.integers()))
def test_aggregating_reducers_do_not_depend_on_the_grouping_of_updates(a: Any, b: Any, c: Any) -> None:
    for reducer in (append, union, messages):
        assert reducer(reducer(a, b), c) == reducer(a, [*b, *c])


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.integers())))
def test_merge_keeps_the_last_value_of_each_key(updates: Any) -> None:
    state: dict[str, int] = {}
    for update in updates:
        state = merge(state, update)

    assert state == {key: value for update in updates for key, value in update.items()}


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_min_and_max_are_those_of_all_values(values: list[float]) -> None:
    low = high = None
    for value in values:
        low, high = reducers.min(low, value), reducers.max(high, value)

    assert (low, high) == (min(values), max(values))
    assert math.copysign(1, low or 1.0)


def test_reduced_takes_one_default() -> None:
    with pytest.raises(ValueError, match="default or default_factory"):
        reduced(append, default=[], default_factory=list)  # type: ignore[call-overload]


def test_reduced_does_not_change_the_json_schema() -> None:
    from pydantic import BaseModel

    class Plain(BaseModel):
        notes: list[str] = []

    class State(BaseModel):
        notes: list[str] = reduced(append, default_factory=list)

    assert State.model_json_schema()["properties"]["notes"]["type"] == "array"
    assert (
        State.model_json_schema()["properties"]["notes"]["items"]
        == Plain.model_json_schema()["properties"]["notes"]["items"]
    )


def test_markers_are_shown_by_name() -> None:
    assert repr((reducers.ephemeral, reducers.untracked)) == "(ephemeral, untracked)"


def test_closures_with_different_names_have_different_fingerprints() -> None:
    """The fingerprint has the names of reducers (R14), and the path of a closure does not include its free variables."""

    def last_n(n: int) -> Any:
        def fold(current: list[Any], incoming: list[Any]) -> list[Any]:
            return [*current, *incoming][-n:]

        fold.__name__ = f"last_n({n})"
        return fold

    def graph(reducer: Any) -> Any:
        g = GraphBuilder(make_dataclass("State", [("notes", list, reduced(reducer, default_factory=list))]), name="g")
        g.add_node("a", lambda state: {})
        g.set_entry("a")
        g.set_finish("a")
        return g.compile()

    one, same, other = (graph(last_n(n)) for n in (5, 5, 9))
    assert one.fingerprint == same.fingerprint != other.fingerprint
    assert one.topology()["state"]["notes"]["reducer"] == "last_n(5)"
