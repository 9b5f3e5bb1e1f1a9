"""`GraphState`, diffs, and the merging of changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphrt.compat.lar import FunctionalNode, GraphState, apply_diff, compute_state_diff
from graphrt.compat.lar._state import Changes, both, copied, folded, same

from .support import run

keys = st.sampled_from("abcd")
values = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.floats(-2, 2) | st.text("xy", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(keys, inner, max_size=2) | st.tuples(inner),
    max_leaves=4,
)
states = st.dictionaries(keys, values, max_size=4)


@st.composite
def changes(draw: Any) -> Changes:
    written = draw(states)
    deleted = draw(st.lists(keys.filter(lambda key: key not in written), unique=True))
    return Changes(written=written, deleted=deleted)


@given(states, states)
def test_diff_leads_from_one_state_to_the_other(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert same(apply_diff(before, compute_state_diff(before, after)), after)


@given(states, changes(), changes())
def test_two_changes_merge_into_one(state: dict[str, Any], first: Changes, second: Changes) -> None:
    assert same(folded(folded(state, first), second), folded(state, both(first, second)))


@given(values)
def test_copy_is_equal(value: Any) -> None:
    assert same(copied(value), value)


def test_equal_values_of_different_types_differ() -> None:
    diff = compute_state_diff({"a": 1, "b": True, "c": [1]}, {"a": 1.0, "b": 1, "c": (1,)})

    assert sorted(diff["updated"]) == ["a", "b", "c"]


def test_state_reads_and_writes_like_a_mapping() -> None:
    state = GraphState({"a": 1, "b": 2})
    state["c"] = 3
    del state["a"]

    assert state.get("a", "gone") == "gone"
    assert "a" not in state
    with pytest.raises(KeyError):
        state["a"]
    assert state.get_all() == {"b": 2, "c": 3}
    assert len(state) == 2
    assert state.changes() == {"written": {"c": 3}, "deleted": ["a"]}
    assert repr(state) == "GraphState({'b': 2, 'c': 3})"


def test_key_that_is_deleted_and_set_again_is_written() -> None:
    state = GraphState({"a": 1})
    state.delete("a")
    state.set("a", 2)
    state.delete("never there")

    assert state.changes() == {"written": {"a": 2}, "deleted": []}


def test_container_that_was_changed_in_place_is_written_and_others_are_not() -> None:
    initial = {"list": [1], "deep": {"a": [1]}, "read": [1], "numbers": {1}}
    state = GraphState(initial)
    state.get("list").append(2)
    state.get("deep")["a"].append(2)
    state.get("numbers").add(2)
    state.get("read")

    written = {"list": [1, 2], "deep": {"a": [1, 2]}, "numbers": {1, 2}}
    assert state.changes() == {"written": written, "deleted": []}
    assert initial == {"list": [1], "deep": {"a": [1]}, "read": [1], "numbers": {1}}


def test_assigned_value_can_be_changed_later_without_changing_the_state() -> None:
    kept: list[int] = []

    def write(state: GraphState) -> None:
        state.set("list", kept)

    outcome = run(FunctionalNode(write, next_node=FunctionalNode(lambda state: kept.append(1))))

    assert outcome.state == {"list": []}


def test_values_that_cannot_be_compared_count_as_changed() -> None:
    class Array:
        def __eq__(self, other: object) -> Any:
            raise ValueError("ambiguous")

        __hash__ = None  # type: ignore[assignment]

    assert not same(Array(), Array())
